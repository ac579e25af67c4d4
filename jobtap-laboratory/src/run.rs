//! One policy on one trace.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jobtap_core::host::Ticks;
use jobtap_core::resource::ResourceSet;
use jobtap_core::simulation::{Counts, Results, Rules, Setup, Simulator, TraceJob};
use jobtap_daemon::linked;

use crate::error::SimulateError;
use crate::machine::{self, Machine, Shape};
use crate::policy::Policy;
use crate::scenario::Scenario;
use crate::source::{Origin, Source};
use crate::wait::QueueWait;

/// The number of jobs whose place the Gantt chart knows.
const PLACES: usize = 10_000;

/// The number of submissions and steps between two progress reports, unless the speed is limited.
const STRIDE: u64 = 256;

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The trace.
    pub origin: Origin,
    /// What is done if the trace doesn't say something.
    pub rules: Rules,
    /// Whether broken lines are errors.
    pub strict: bool,
    /// The machine; `None` takes it from the configuration or the trace.
    pub shape: Option<Shape>,
    /// What is added to the trace.
    pub scenario: Scenario,
    /// How long allocations wait, if the configuration has tables `[[allocation]]`.
    pub queue_wait: QueueWait,
    /// Virtual seconds per second; `None` is as fast as possible.
    pub speed: Option<f64>,
}

/// The results of one policy.
pub struct PolicyRun {
    /// Its name.
    pub policy: String,
    /// The machine.
    pub resources: ResourceSet,
    /// What became of the jobs.
    pub results: Results,
    /// What was read.
    pub counts: Counts,
    /// The time that it took.
    pub elapsed: Duration,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// How far a simulation has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// The number of jobs that have ended, including refused ones.
    pub done: u64,
    /// The number of all jobs, if it is known.
    pub expected: Option<u64>,
    /// The number of inputs that the engine has handled.
    pub events: u64,
}

impl Experiment {
    /// Simulates a policy. `stop` ends it early: the result is what has happened so far.
    ///
    /// # Errors
    /// The trace can't be read, or the manager doesn't start with this configuration.
    pub fn run(
        &self,
        policy: &Policy,
        stop: &AtomicBool,
        tell: impl FnMut(Progress),
    ) -> Result<PolicyRun, SimulateError> {
        let begun = Instant::now();
        let mut source = Source::open(&self.origin, self.rules.clone(), self.strict)?;
        let (simulator, resources) = self.simulator(policy, &mut source)?;
        let mut run = Run {
            simulator,
            trace: Merged::new(&mut source, self.scenario.jobs()),
            speed: self.speed,
            begun,
            stop,
            tell,
            jobs: 0,
            ended: false,
            steps: 0,
        };
        let interrupted = !run.whole()?;
        let (jobs, results) = (run.jobs, run.simulator.into_results());
        if jobs == 0 && !interrupted {
            let (name, counts) = (self.origin.name(), source.counts());
            return Err(match counts.lines {
                0 => SimulateError::Empty(name),
                _ => SimulateError::NoJobs { name, remarks: crate::source::remarks(counts) },
            });
        }
        Ok(PolicyRun {
            policy: policy.name.clone(),
            resources,
            results,
            counts: source.counts().clone(),
            elapsed: begun.elapsed(),
            interrupted,
        })
    }

    /// Starts a manager with a policy, on the machine of the trace.
    fn simulator(
        &self,
        policy: &Policy,
        source: &mut Source,
    ) -> Result<(Simulator, ResourceSet), SimulateError> {
        let name = || policy.name.clone();
        let header = source.header()?.clone();
        let Machine { own, resources } = machine::resources(self.shape, &policy.config, &header)?;
        source.set_capacity(resources.ncores() as u64);
        let registry = linked::registry()
            .map_err(|reason| SimulateError::Linked { policy: name(), reason })?;
        let mut simulator = Simulator::new(Setup {
            config: policy.config.clone(),
            config_directory: policy.directory.clone(),
            registry,
            resources: own,
            ticks: Ticks::new(Arc::new(AtomicU64::new(0)), nanoseconds),
            start: header.start,
            places: PLACES,
            queue_wait: self.queue_wait.waits(),
        })
        .map_err(|reason| SimulateError::Policy { policy: name(), reason })?;
        for (at, request) in self.scenario.requests(simulator.start()) {
            simulator.plan(at, request);
        }
        Ok((simulator, resources))
    }
}

/// A simulation in progress.
struct Run<'r, T> {
    simulator: Simulator,
    trace: Merged<'r>,
    speed: Option<f64>,
    begun: Instant,
    stop: &'r AtomicBool,
    tell: T,
    /// Jobs that were submitted.
    jobs: u64,
    /// Whether all jobs were submitted.
    ended: bool,
    /// How often `may_go_on` was called.
    steps: u64,
}

impl<T: FnMut(Progress)> Run<'_, T> {
    /// Simulates the whole trace. Returns false when it was interrupted.
    fn whole(&mut self) -> Result<bool, SimulateError> {
        while let Some(job) = self.trace.next()? {
            if !self.submit(&job) {
                return Ok(false);
            }
        }
        self.ended = true;
        loop {
            // Timers of the manager that are left when all jobs have ended are not waited for.
            let next = self.simulator.next_time().filter(|_| self.simulator.active() > 0);
            if !self.may_go_on(next.unwrap_or(self.simulator.now())) {
                return Ok(false);
            }
            if !self.simulator.advance() {
                self.report();
                return Ok(true);
            }
        }
    }

    /// Submits a job at its time. Returns false when the simulation was interrupted before that time.
    fn submit(&mut self, job: &TraceJob) -> bool {
        // With a limited speed, each event before the submission happens at its own time.
        while self.speed.is_some()
            && let Some(next) = self.simulator.next_time().filter(|next| *next < job.submit)
        {
            if !self.may_go_on(next) {
                return false;
            }
            self.simulator.pass(next);
        }
        if !self.may_go_on(job.submit) {
            return false;
        }
        self.simulator.submit(job);
        self.jobs += 1;
        true
    }

    /// Waits for this moment of virtual time if the speed is limited, and reports the progress now and then.
    /// Returns false when the simulation is to end.
    fn may_go_on(&mut self, at: f64) -> bool {
        if let Some(speed) = self.speed {
            self.report();
            keep_pace(self.begun, at / speed, self.stop);
        } else if self.steps.is_multiple_of(STRIDE) {
            self.report();
        }
        self.steps += 1;
        !self.stop.load(Ordering::Relaxed)
    }

    fn report(&mut self) {
        // The number of jobs in the comments of a trace includes those that are left out.
        let expected = if self.ended { Some(self.jobs) } else { self.trace.expected() };
        let done = self.jobs.saturating_sub(self.simulator.active() as u64);
        (self.tell)(Progress { done, expected, events: self.simulator.events() });
    }
}

impl PolicyRun {
    /// Numbers users, jobs and queues anew in the order in which they appear, and drops texts that may name
    /// them.
    pub fn anonymize(&mut self) {
        let (mut users, mut queues) = (BTreeMap::new(), BTreeMap::new());
        for (job, number) in self.results.jobs.iter_mut().zip(1..) {
            let next = u32::try_from(users.len() + 1).unwrap_or(u32::MAX);
            job.user = *users.entry(job.user).or_insert(next);
            job.number = number;
            // Partitions are often named after groups.
            if let Some(queue) = job.queue.take() {
                let next = queues.len() + 1;
                let number = *queues.entry(queue).or_insert(next);
                job.queue = Some(format!("queue{number}").into());
            }
        }
        for refusal in &mut self.results.refusals {
            refusal.text = "reason left out".to_owned();
        }
        self.results.left.clear();
        self.results.log.clear();
        self.counts.first_broken.clear();
    }
}

/// The jobs of a trace and of a scenario in the order of their submission.
struct Merged<'s> {
    source: &'s mut Source,
    /// The jobs of the scenario that have not been returned yet.
    added: VecDeque<TraceJob>,
    /// The number of jobs that the scenario has.
    added_jobs: u64,
    /// The next job of the trace.
    next: Option<TraceJob>,
}

impl<'s> Merged<'s> {
    fn new(source: &'s mut Source, added: VecDeque<TraceJob>) -> Self {
        Self { source, added_jobs: added.len() as u64, added, next: None }
    }

    /// How many jobs there are, if it is known.
    fn expected(&self) -> Option<u64> {
        Some(self.source.expected()? + self.added_jobs)
    }

    /// The next job.
    ///
    /// # Errors
    /// The trace can't be read further.
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

/// Waits until this many seconds have passed since `begun`, or `stop` is set.
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

#[cfg(test)]
mod tests {
    use jobtap_core::simulation::{RefusedJobs, Simulation, Trace};

    use super::*;

    #[test]
    fn an_anonymised_outcome_names_no_users_queues_or_jobs() {
        let job = |number, user, queue: &str| TraceJob {
            user,
            queue: Some(queue.into()),
            ..TraceJob::new(number, 5.0)
        };
        let jobs = [job(77, 1042, "ada"), job(78, 1007, "bob"), job(90, 1042, "ada")];
        let trace = Trace::from_jobs(jobs, &Rules::default());
        let results = Simulation::new().run(&trace).unwrap();
        let mut run = PolicyRun {
            policy: "default".to_owned(),
            resources: ResourceSet::new(),
            results,
            counts: Counts { first_broken: vec!["line 3: ada".to_owned()], ..Counts::default() },
            elapsed: Duration::ZERO,
            interrupted: false,
        };
        let text = "user ada has 100 jobs".to_owned();
        run.results.refusals = vec![RefusedJobs { text, jobs: 1 }];
        run.results.left = vec!["ƒ2: queue ada is stopped".to_owned()];
        run.results.log = vec!["3 s: ada".to_owned()];
        run.anonymize();
        let shown = |job: &jobtap_core::simulation::SimulatedJob| {
            (job.number, job.user, job.queue.as_deref().unwrap().to_owned())
        };
        let jobs: Vec<_> = run.results.jobs.iter().map(shown).collect();
        let expected = [(1, 1, "queue1"), (2, 2, "queue2"), (3, 1, "queue1")];
        assert_eq!(jobs, expected.map(|(number, user, queue)| (number, user, queue.to_owned())));
        let summary = crate::summary::Summary::from_runs("trace".to_owned(), &[run]).to_json();
        assert!(!summary.contains("ada") && !summary.contains("bob"), "{summary}");
    }
}
