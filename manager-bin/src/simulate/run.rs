//! One policy on one trace.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jobtap_core::host::Ticks;
use jobtap_core::resource::ResourceSet;
use jobtap_core::simulation::{Counts, Results, Rules, Setup, Simulator, TraceJob};
use serde_json::Value;

use super::SimulateError;
use super::machine::{self, Shape};
use super::scenario::Scenario;
use super::source::{Origin, Source};
use crate::build::linked;

/// Of how many jobs the Gantt chart knows the place.
const PLACES: usize = 10_000;

/// How many jobs are submitted between two looks at the clock.
const STRIDE: u64 = 256;

/// A configuration to simulate.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    /// Its name in reports.
    pub(crate) name: String,
    /// The configuration of the instance.
    pub(crate) config: Value,
    /// The directory of its file.
    pub(crate) directory: Option<PathBuf>,
}

/// What is simulated.
#[derive(Debug, Clone)]
pub(crate) struct Experiment {
    /// The trace.
    pub(crate) origin: Origin,
    /// What is done where the trace doesn't say something.
    pub(crate) rules: Rules,
    /// Broken lines are errors.
    pub(crate) strict: bool,
    /// The machine, unless the configuration or the trace says it.
    pub(crate) shape: Option<Shape>,
    /// What is added to the trace.
    pub(crate) scenario: Scenario,
    /// Virtual seconds per second; `None` is as fast as possible.
    pub(crate) speed: Option<f64>,
}

/// What became of one policy.
pub(crate) struct Outcome {
    /// Its name.
    pub(crate) policy: String,
    /// The machine.
    pub(crate) resources: ResourceSet,
    /// What became of the jobs.
    pub(crate) results: Results,
    /// What was read.
    pub(crate) counts: Counts,
    /// The time that it took.
    pub(crate) elapsed: Duration,
    /// It was interrupted.
    pub(crate) interrupted: bool,
}

/// Where a simulation is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// Jobs that were submitted.
    pub(crate) jobs: u64,
    /// How many there are, if it is known.
    pub(crate) expected: Option<u64>,
    /// Inputs of the engine.
    pub(crate) events: u64,
}

impl Experiment {
    /// Simulates a policy. `stop` ends it early: the outcome is what happened so far.
    ///
    /// # Errors
    /// The trace can't be read, or the manager doesn't start with this configuration.
    pub(crate) fn run(
        &self,
        policy: &Policy,
        stop: &AtomicBool,
        mut tell: impl FnMut(Progress),
    ) -> Result<Outcome, SimulateError> {
        let begun = Instant::now();
        let refused =
            |reason: String| SimulateError::Policy { policy: policy.name.clone(), reason };
        let mut source = Source::open(&self.origin, self.rules.clone(), self.strict)?;
        let header = source.header()?.clone();
        let resources = machine::resources(self.shape, &policy.config, &header)?;
        source.set_capacity(resources.ncores() as u64);
        let registry = linked::registry().map_err(|error| refused(error.to_string()))?;
        let mut simulator = Simulator::new(Setup {
            config: policy.config.clone(),
            config_directory: policy.directory.clone(),
            registry,
            resources: resources.clone(),
            ticks: Ticks::new(Arc::new(AtomicU64::new(0)), nanoseconds),
            start: header.start,
            places: PLACES,
        })
        .map_err(|error| refused(error.to_string()))?;
        for (at, request) in self.scenario.requests(simulator.start()) {
            simulator.plan(at, request);
        }
        let mut trace = Merged { source: &mut source, added: self.scenario.jobs(), next: None };
        let (mut jobs, mut interrupted) = (0, false);
        while let Some(job) = trace.next()? {
            if let Some(speed) = self.speed {
                keep_pace(begun, job.submit / speed, stop);
            }
            if stop.load(Ordering::Relaxed) {
                interrupted = true;
                break;
            }
            simulator.submit(&job);
            jobs += 1;
            if jobs % STRIDE == 0 {
                tell(Progress {
                    jobs,
                    expected: trace.source.expected(),
                    events: simulator.events(),
                });
            }
        }
        if jobs == 0 && !interrupted {
            let counts = source.counts();
            let reason = match counts.lines {
                0 => "it is empty".to_owned(),
                _ => super::source::remarks(counts).join("; "),
            };
            return Err(SimulateError::Empty(self.origin.name(), reason));
        }
        while !interrupted && simulator.advance() {
            interrupted = stop.load(Ordering::Relaxed);
        }
        tell(Progress { jobs, expected: Some(jobs), events: simulator.events() });
        Ok(Outcome {
            policy: policy.name.clone(),
            resources,
            results: simulator.into_results(),
            counts: source.counts().clone(),
            elapsed: begun.elapsed(),
            interrupted,
        })
    }
}

impl Outcome {
    /// Numbers users and jobs anew, and drops texts that may name them.
    pub(crate) fn anonymize(&mut self) {
        let mut users = BTreeMap::new();
        for (job, number) in self.results.jobs.iter_mut().zip(1..) {
            let next = u32::try_from(users.len() + 1).unwrap_or(u32::MAX);
            job.user = *users.entry(job.user).or_insert(next);
            job.number = number;
        }
        for refusal in &mut self.results.refusals {
            refusal.text = "(anonymised)".to_owned();
        }
        self.results.left.clear();
        self.results.log.clear();
        self.counts.first_broken.clear();
    }
}

/// The jobs of a trace and of a scenario in the order of their submission.
struct Merged<'s> {
    source: &'s mut Source,
    added: VecDeque<TraceJob>,
    /// The next job of the trace.
    next: Option<TraceJob>,
}

impl Merged<'_> {
    fn next(&mut self) -> Result<Option<TraceJob>, SimulateError> {
        if self.added.is_empty() && self.next.is_none() {
            return self.source.next();
        }
        if self.next.is_none() {
            self.next = self.source.next()?;
        }
        let traced = self.next.as_ref().map_or(f64::INFINITY, |job| job.submit);
        match self.added.front() {
            Some(added) if added.submit <= traced => Ok(self.added.pop_front()),
            _ => Ok(self.next.take()),
        }
    }
}

/// Waits until so many seconds have passed since `begun`, or `stop` is set.
fn keep_pace(begun: Instant, seconds: f64, stop: &AtomicBool) {
    const LOOK: Duration = Duration::from_millis(50);
    let due = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    while let Some(left) = due.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())
        && !stop.load(Ordering::Relaxed)
    {
        std::thread::sleep(left.min(LOOK));
    }
}

fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}
