//! Short jobs that are handed to the executor ahead of their turn.

use jobtap_core::engine::{ExecEvent, RaisedException, Request};
use jobtap_core::job::{JobId, State};
use jobtap_core::prelude::*;
use jobtap_core::queue::Target;
use jobtap_core::testing::{TestJob, TestManager, TestManagerBuilder};
use serde_json::{Map, json};

use crate::common::ByUrgency;

const DONE: &str = "submit validate depend priority alloc start finish release free clean";

/// A manager with one core whose jobs were short so far. One job runs, and others wait behind it.
struct Site {
    m: TestManager,
    runs: JobId,
    waiting: Vec<JobId>,
}

fn one_core() -> TestManagerBuilder {
    TestManager::new().plugin::<ByUrgency>().cores(1)
}

impl Site {
    fn new(waiting: usize) -> Self {
        Self::start(one_core(), waiting)
    }

    fn start(manager: TestManagerBuilder, waiting: usize) -> Self {
        let mut m = manager.prefill().start();
        let short = m.submit(TestJob::new()).unwrap();
        m.finish(short, 0);
        let runs = m.submit(TestJob::new()).unwrap();
        let waiting = (0..waiting).map(|_| m.submit(TestJob::new()).unwrap()).collect();
        let mut site = Self { m, runs, waiting };
        site.settle();
        site
    }

    /// Lets something happen, after which jobs may be handed over.
    fn settle(&mut self) {
        let held = self.m.submit(TestJob::new().urgency(0)).unwrap();
        self.m.cancel(held).unwrap();
    }

    /// The job that this one was handed over behind.
    fn before(&self, id: JobId) -> Option<JobId> {
        let why = self.m.why(id);
        let text = why.first()?.strip_prefix("its turn comes as soon as ")?;
        text.split(' ').next()?.parse().ok()
    }

    /// Asserts that these jobs wait in this order behind the one that runs.
    #[track_caller]
    fn assert_line(&self, line: &[JobId]) {
        let mut expected = self.runs;
        for id in line {
            assert_eq!(self.before(*id), Some(expected), "{id}");
            expected = *id;
        }
    }

    /// Ends the job that runs, and asserts that this one runs then.
    #[track_caller]
    fn ends_before(&mut self, next: JobId) {
        self.m.finish(self.runs, 0);
        self.m.assert_state(self.runs, State::Inactive);
        self.m.assert_state(next, State::Run);
        self.runs = next;
    }
}

#[test]
fn jobs_begin_one_after_the_other_with_the_events_of_any_job() {
    let mut site = Site::new(3);
    let waiting = site.waiting.clone();
    site.assert_line(&waiting);
    for id in &waiting {
        site.m.assert_state(*id, State::Sched);
        site.m.assert_events(*id, "submit validate depend priority");
    }
    for id in &waiting {
        site.ends_before(*id);
    }
    site.m.finish(site.runs, 0);
    for id in waiting {
        site.m.assert_events(id, DONE);
    }
    assert_eq!(site.m.free_resources().unwrap().ncores(), 1, "all is free again");
}

#[test]
fn nothing_is_handed_over_before_a_job_was_short() {
    let mut m = one_core().prefill().start();
    let ids = [(); 2].map(|()| m.submit(TestJob::new()).unwrap());
    assert_ne!(
        m.why(ids[1]),
        [format!("its turn comes as soon as {} has ended, on the same resources", ids[0])]
    );
    m.advance(60.0);
    m.finish(ids[0], 0);
    m.finish(ids[1], 0);
    m.assert_events(ids[1], DONE);
}

#[test]
fn a_job_with_other_needs_is_not_handed_over_nor_what_comes_after_it() {
    let mut site = Site::start(one_core().cores(2), 0);
    let full = site.m.submit(TestJob::new()).unwrap();
    let wide = site.m.submit(TestJob::new().ntasks(2)).unwrap();
    let narrow = site.m.submit(TestJob::new()).unwrap();
    site.settle();
    assert_eq!((site.before(wide), site.before(narrow)), (None, None));
    site.m.finish(site.runs, 0);
    site.m.assert_state(wide, State::Sched);
    site.m.finish(full, 0);
    site.m.assert_state(wide, State::Run);
}

#[test]
fn a_job_of_higher_priority_goes_before_what_was_only_handed_over() {
    let mut site = Site::new(2);
    let [first, second] = site.waiting[..] else { unreachable!() };
    site.assert_line(&[first, second]);
    let urgent = site.m.submit(TestJob::new().urgency(20)).unwrap();
    site.ends_before(urgent);
    site.ends_before(first);
    site.ends_before(second);
}

#[test]
fn a_job_that_becomes_more_urgent_goes_first() {
    let mut site = Site::new(2);
    let [first, second] = site.waiting[..] else { unreachable!() };
    site.m.urgency(second, 25).unwrap();
    site.ends_before(second);
    site.ends_before(first);
}

#[test]
fn a_job_that_is_held_does_not_begin() {
    let mut site = Site::new(2);
    let [first, second] = site.waiting[..] else { unreachable!() };
    site.m.urgency(first, 0).unwrap();
    site.ends_before(second);
    site.m.finish(second, 0);
    site.m.assert_state(first, State::Sched);
}

#[test]
fn a_canceled_job_never_begins() {
    let mut site = Site::new(3);
    let [first, second, third] = site.waiting[..] else { unreachable!() };
    site.m.cancel(second).unwrap();
    site.m.assert_events(second, "submit validate depend priority exception clean");
    site.ends_before(first);
    site.ends_before(third);
}

#[test]
fn what_is_asked_of_a_job_that_has_begun_is_acknowledged_with_its_event() {
    let memo = |id| Request::Memo { id, volatile: false, memo: Map::from_iter([said()]) };
    let exception = RaisedException::new("cancel", 0, "no");
    let cancel = |id| Request::Raise { id, exception: exception.clone() };
    let requests: [(&str, &dyn Fn(JobId) -> Request); 2] =
        [("memo", &memo), ("exception", &cancel)];
    for (event, request) in requests {
        let mut site = Site::new(1);
        let [first] = site.waiting[..] else { unreachable!() };
        site.m.report(ExecEvent::Begun { id: first });
        let answer = site.m.open_request(TestJob::OWNER.as_u32(), request(first));
        // However long it takes until the job before it is over.
        site.m.advance(5.0);
        assert!(site.m.answered(answer).is_none(), "{event}");
        site.m.report(ExecEvent::Finished { id: site.runs, status: 0 });
        site.m.report(ExecEvent::Released { id: site.runs });
        site.m.answered(answer).unwrap().unwrap();
        assert!(site.m.eventlog(first).iter().any(|entry| entry.name == event), "{event}");
    }
}

#[test]
fn only_so_many_requests_wait_for_an_executor_that_does_not_answer() {
    let mut site = Site::new(1);
    let [first] = site.waiting[..] else { unreachable!() };
    site.m.report(ExecEvent::Begun { id: first });
    let mut ask = || {
        let memo = Map::from_iter([said()]);
        let request = Request::Memo { id: first, volatile: false, memo };
        let answer = site.m.open_request(TestJob::OWNER.as_u32(), request);
        site.m.answered(answer)
    };
    assert!((0..4096).all(|_| ask().is_none()));
    let refused = ask().unwrap().unwrap_err().to_string();
    assert!(refused.contains("4096 requests wait already until a node answers"), "{refused}");
}

fn said() -> (String, serde_json::Value) {
    ("said".to_owned(), json!("so"))
}

#[test]
fn a_job_that_is_updated_runs_as_it_was_updated() {
    let mut site = Site::start(one_core().plugin::<Limits>(), 1);
    let [first] = site.waiting[..] else { unreachable!() };
    let updates = Map::from_iter([("attributes.system.duration".to_owned(), json!(60.0))]);
    let request = Request::Update { id: first, updates };
    let answer = site.m.open_request(TestJob::OWNER.as_u32(), request);
    site.m.answered(answer).unwrap().unwrap();
    site.ends_before(first);
    site.m.advance(61.0);
    site.m.assert_exception(first, "timeout", "resource allocation expired");
}

#[test]
fn a_stopped_queue_starts_nothing_that_was_handed_over() {
    let mut site = Site::new(1);
    let [first] = site.waiting[..] else { unreachable!() };
    site.m.hold_scheduling().unwrap();
    site.m.finish(site.runs, 0);
    site.m.assert_state(first, State::Sched);
    let request = Request::QueueStart {
        target: Target::all(),
        start: true,
        reason: None,
        nocheckpoint: false,
    };
    site.m.open_request(TestJob::OWNER.as_u32(), request);
    site.m.assert_state(first, State::Run);
}

#[test]
fn a_drained_node_begins_nothing() {
    let mut site = Site::new(1);
    let [first] = site.waiting[..] else { unreachable!() };
    site.m.drain_nodes("0", "broken").unwrap();
    site.m.finish(site.runs, 0);
    site.m.assert_state(first, State::Sched);
}

#[test]
fn jobs_do_not_wait_behind_one_that_turns_out_to_be_long() {
    let mut site = Site::start(one_core().cores(2), 0);
    let other = site.m.submit(TestJob::new()).unwrap();
    let waits = site.m.submit(TestJob::new()).unwrap();
    site.settle();
    let slow = site.before(waits).unwrap();
    let fast = if slow == other { site.runs } else { other };
    site.m.advance(1.0);
    assert_eq!(site.before(waits), None);
    site.m.finish(fast, 0);
    site.m.assert_state(waits, State::Run);
}

/// Is called when a job gets its resources.
#[derive(Default)]
struct Follower;

#[jobtap_plugin(name = "follower")]
impl Follower {
    #[on("job.state.run")]
    fn run(&mut self, _job: &Job) {}
}

/// Lets users change the time limits of their jobs.
#[derive(Default)]
struct Limits;

#[jobtap_plugin(name = "limits")]
impl Limits {
    #[on("job.update.attributes.system.duration")]
    fn duration() -> Update {
        Update::allow().validated()
    }
}

#[test]
fn a_plugin_that_may_hold_a_job_before_its_start_gets_each_in_its_turn() {
    let mut site = Site::start(one_core().plugin::<Follower>(), 1);
    let [first] = site.waiting[..] else { unreachable!() };
    assert_eq!(site.before(first), None);
    site.ends_before(first);
}

#[test]
fn all_that_has_begun_is_found_again_after_a_crash() {
    let mut site = Site::new(3);
    let waiting = site.waiting.clone();
    // The executor goes on without the manager, which dies before it has stored anything of it.
    site.m.crash_in(0);
    site.m.finish(site.runs, 0);
    assert!(site.m.is_dead());
    site.m.crash_and_restart();
    site.m.assert_state(site.runs, State::Inactive);
    site.m.assert_state(waiting[0], State::Run);
    site.m.assert_events(waiting[0], "submit validate depend priority alloc start");
    site.runs = waiting[0];
    site.ends_before(waiting[1]);
    site.ends_before(waiting[2]);
    site.m.finish(site.runs, 0);
    site.m.assert_events(waiting[0], DONE);
}

#[test]
fn an_exception_for_all_reaches_jobs_that_were_handed_over() {
    let mut site = Site::new(2);
    site.m.cancel_all().unwrap();
    for id in site.waiting {
        site.m.assert_events(id, "submit validate depend priority exception clean");
    }
}

#[test]
fn whatever_the_executor_reports_about_a_job_means_that_it_has_begun() {
    let mut site = Site::new(1);
    let [first] = site.waiting[..] else { unreachable!() };
    let exception = RaisedException::new("exec", 0, "no such user");
    site.m.report(ExecEvent::Exception { id: first, exception });
    site.m.report(ExecEvent::Released { id: first });
    site.m.assert_state(first, State::Sched);
    site.m.report(ExecEvent::Finished { id: site.runs, status: 0 });
    site.m.report(ExecEvent::Released { id: site.runs });
    site.m.assert_exception(first, "exec", "no such user");
    site.m.assert_state(first, State::Inactive);
    assert_eq!(site.m.free_resources().unwrap().ncores(), 1);
}
