//! Random histories of short jobs that are handed to the executor ahead of their turn, while commands and reports take
//! their time: on a core there is one job at most, no job is begun twice, each gets an end, and its log says what was
//! done with it.

use std::collections::BTreeSet;

use jobtap_core::engine::{DrainMode, NodeRequest, RaisedException, Request};
use jobtap_core::job::StateSet;
use jobtap_core::prelude::*;
use jobtap_core::queue::Target;
use jobtap_core::testing::{TestJob, TestManager};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::ByUrgency;
use crate::run::{all_are_over, cases};

const CORES: usize = 2;

#[derive(Debug, Clone)]
enum Act {
    Submit(i64),
    Cancel(usize),
    CancelAll,
    Urgency(usize, i64),
    Scheduling(bool),
    Drain,
    Undrain,
    /// Ends one of the jobs that run.
    End(usize),
    /// So many commands arrive at the executor.
    Commands(usize),
    /// So many reports arrive at the manager.
    Reports(usize),
    Advance(f64),
    Crash,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0..=31i64).prop_map(Act::Submit),
        8 => Just(Act::Submit(16)),
        2 => (0..40usize).prop_map(Act::Cancel),
        1 => Just(Act::CancelAll),
        2 => (0..40usize, 0..=31i64).prop_map(|(job, urgency)| Act::Urgency(job, urgency)),
        1 => any::<bool>().prop_map(Act::Scheduling),
        1 => Just(Act::Drain),
        1 => Just(Act::Undrain),
        8 => (0..2usize).prop_map(Act::End),
        8 => (1..6usize).prop_map(Act::Commands),
        8 => (1..12usize).prop_map(Act::Reports),
        1 => prop_oneof![Just(0.01), Just(0.3), Just(2.0)].prop_map(Act::Advance),
        1 => Just(Act::Crash),
    ]
}

/// A manager, and what its executor has done.
struct Site {
    m: TestManager,
    jobs: Vec<JobId>,
    executing: BTreeSet<JobId>,
    begun: BTreeSet<JobId>,
}

impl Site {
    fn new() -> Self {
        let mut m = TestManager::new().plugin::<ByUrgency>().cores(2).prefill().start();
        // Jobs are short.
        let first = m.submit(TestJob::new()).unwrap();
        m.finish(first, 0);
        m.delay_execution();
        Self { m, jobs: Vec::new(), executing: BTreeSet::new(), begun: BTreeSet::new() }
    }

    fn ask(&mut self, request: Request) {
        self.m.open_request(TestJob::OWNER.as_u32(), request);
    }

    fn job(&self, index: usize) -> Option<JobId> {
        self.jobs.get(index % self.jobs.len().max(1)).copied()
    }

    fn step(&mut self, act: &Act) -> Result<(), TestCaseError> {
        match *act {
            Act::Submit(urgency) => {
                self.jobs.push(self.m.submit(TestJob::new().urgency(urgency)).unwrap());
            }
            // Inactive jobs refuse it.
            Act::Cancel(index) => drop(self.job(index).map(|id| self.m.cancel(id))),
            Act::CancelAll => self.ask(cancel_all()),
            Act::Urgency(index, urgency) => {
                if let Some(id) = self.job(index) {
                    self.ask(Request::Urgency { id, urgency });
                }
            }
            Act::Scheduling(start) => self.ask(scheduling(start)),
            Act::Drain => self.ask(drain()),
            Act::Undrain => self.ask(undrain()),
            Act::End(index) => {
                let running = self.m.executing();
                if let Some(id) = running.get(index % running.len().max(1)) {
                    self.m.finish(*id, 0);
                }
            }
            Act::Commands(count) => {
                for _ in 0..count {
                    self.m.command_arrives();
                    self.look()?;
                }
            }
            Act::Reports(count) => {
                for _ in 0..count {
                    self.m.report_arrives();
                }
            }
            Act::Advance(seconds) => self.m.advance(seconds),
            Act::Crash => self.m.crash_and_restart(),
        }
        self.look()
    }

    /// Checks what the executor does.
    fn look(&mut self) -> Result<(), TestCaseError> {
        let executing = BTreeSet::from_iter(self.m.executing());
        prop_assert!(executing.len() <= CORES, "{:?} run at once", executing);
        for id in executing.difference(&self.executing) {
            prop_assert!(self.begun.insert(*id), "{} has begun twice", id);
        }
        self.executing = executing;
        Ok(())
    }

    /// Ends all jobs.
    fn end(&mut self) -> Result<(), TestCaseError> {
        self.ask(scheduling(true));
        self.ask(undrain());
        for _ in 0..200 {
            for act in [Act::Commands(100), Act::Reports(100), Act::Advance(1.0), Act::End(0)] {
                self.step(&act)?;
            }
        }
        self.ask(cancel_all());
        for act in [Act::Commands(100), Act::Reports(100), Act::Commands(100), Act::Reports(100)] {
            self.step(&act)?;
        }
        Ok(())
    }
}

fn cancel_all() -> Request {
    let (exception, states) = (RaisedException::new("cancel", 0, ""), StateSet::ACTIVE);
    Request::RaiseAll { dry_run: false, userid: None, states, exception }
}

fn scheduling(start: bool) -> Request {
    Request::QueueStart { target: Target::all(), start, reason: None, nocheckpoint: false }
}

fn drain() -> Request {
    let (targets, reason, mode) = ("0".to_owned(), None, DrainMode::Update);
    Request::Nodes(NodeRequest::Drain { targets, reason, mode })
}

fn undrain() -> Request {
    let (targets, reason, mode) = ("0".to_owned(), None, DrainMode::Update);
    Request::Nodes(NodeRequest::Undrain { targets, reason, mode })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn jobs_that_are_handed_over_run_once_each_in_the_place_of_another(
        history in vec(act(), 1..120),
    ) {
        let mut site = Site::new();
        for act in &history {
            site.step(act)?;
        }
        site.end()?;
        all_are_over(&site.m)?;
        for id in &site.jobs {
            let events = site.m.events(*id);
            let has = |name: &str| events.iter().any(|event| event == name);
            let ran = site.begun.contains(id);
            prop_assert!(!ran || has("alloc") && has("start") && has("finish"), "{}: {:?}", id, events);
            prop_assert!(ran || !has("start"), "{}: {:?}", id, events);
            prop_assert!(!has("alloc") || has("free"), "{}: {:?}", id, events);
        }
        let free = site.m.free_resources().map(|free| free.ncores());
        prop_assert_eq!(free, Some(CORES), "free cores after the end of all jobs");
    }
}
