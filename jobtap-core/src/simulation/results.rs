//! What became of the jobs of a trace.

use serde::{Deserialize, Serialize};

use super::metrics::Metrics;
use super::trace::TraceJob;
use crate::host::HandlerStats;
use crate::job::JobResult;
use crate::resource::ResourceSet;

/// Shorter run times count as this many seconds in the bounded slowdown.
pub const SLOWDOWN_BOUND: f64 = 10.0;

/// What became of a trace. All times are seconds from the start of the trace.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// The jobs in the order of their submission, including those that were refused.
    pub jobs: Vec<SimulatedJob>,
    /// The cores of the machine.
    pub cores: usize,
    /// The time of second 0, in UNIX seconds.
    pub start: f64,
    /// When the simulation ended.
    pub end: f64,
    /// The number of inputs that the engine received.
    pub events: u64,
    /// Why submissions were refused: the first reasons.
    pub refusals: Vec<RefusedJobs>,
    /// What the first jobs that never started wait for, such as `ƒ2P4LDd: queue batch is stopped`.
    pub left: Vec<String>,
    /// What jobs waited for, in the words of lists of jobs, with the job seconds, the most first. From answers of the
    /// manager at equal distances of at least a minute.
    pub waited_for: Vec<(&'static str, f64)>,
    /// Statistics of the handlers, by plugin.
    pub plugins: Vec<(String, Vec<HandlerStats>)>,
    /// The schedulers of the queues.
    pub scheduler: Vec<String>,
    /// The first warnings and errors of the manager's log.
    pub log: Vec<String>,
    /// The number of all warnings and errors.
    pub log_lines: u64,
    /// The number of processes that plugins requested. They were not run.
    pub processes: u64,
    /// What the allocations of an elastic instance have had; `None` for other instances.
    pub allocations: Option<AllocationFigures>,
    /// The number of jobs that have a `place`.
    pub(super) placed: usize,
}

impl Results {
    /// The metrics of these jobs.
    pub fn metrics(&self) -> Metrics {
        Metrics::from_results(self)
    }
}

/// What the allocations of an elastic instance have had.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocationFigures {
    /// How many were asked for.
    pub asked: u64,
    /// How many have started.
    pub started: u64,
    /// How long these had waited on average, in seconds.
    pub mean_wait: f64,
    /// The core hours that they have had, used or not.
    pub core_hours: f64,
}

/// A reason for which submissions were refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedJobs {
    /// The reason, as the user sees it.
    pub text: String,
    /// The number of jobs that were refused for it.
    pub jobs: u64,
}

/// What became of one job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SimulatedJob {
    /// Its number in the trace.
    pub number: u64,
    /// Its user.
    pub user: u32,
    /// Its queue in the trace.
    pub queue: Option<Box<str>>,
    /// Its cores: as allocated, else as requested.
    pub cores: u64,
    /// When it was submitted.
    pub submit: f64,
    /// When it got its resources.
    pub allocated: Option<f64>,
    /// When its tasks started.
    pub start: Option<f64>,
    /// When its tasks ended.
    pub end: Option<f64>,
    /// When its resources were free again.
    pub freed: Option<f64>,
    /// How it came out; `None` while it is active, and if it was refused.
    pub result: Option<JobResult>,
    /// Its last priority.
    pub priority: u32,
    /// Whether it got resources while a job of the same queue was before it.
    pub backfilled: bool,
    /// Whether its submission was refused.
    pub refused: bool,
    /// The cores that it got, if they are recorded.
    pub place: Box<[Span]>,
}

impl SimulatedJob {
    pub(super) fn submitted(job: &TraceJob, submit: f64) -> Self {
        Self {
            number: job.number,
            user: job.user,
            queue: job.queue.clone(),
            cores: job.cores,
            submit,
            allocated: None,
            start: None,
            end: None,
            freed: None,
            result: None,
            priority: 0,
            backfilled: false,
            refused: false,
            place: Box::default(),
        }
    }

    /// Sets the result if the job `failed` and has none yet: the first reason counts, as in RFC 21.
    pub(super) fn fail_if(&mut self, failed: bool, result: JobResult) {
        if failed {
            self.result.get_or_insert(result);
        }
    }

    /// The time from submission to start.
    pub fn wait(&self) -> Option<f64> {
        Some(self.start? - self.submit)
    }

    /// The time from start to end.
    pub fn run_time(&self) -> Option<f64> {
        Some(self.end? - self.start?)
    }

    /// The time from submission to end.
    pub fn turnaround(&self) -> Option<f64> {
        Some(self.end.filter(|_| self.start.is_some())? - self.submit)
    }

    /// The bounded slowdown: the turnaround divided by the run time, where shorter run times than
    /// [`SLOWDOWN_BOUND`] count as that; at least 1.
    ///
    /// ```
    /// use jobtap_core::simulation::SimulatedJob;
    ///
    /// let waited = SimulatedJob { start: Some(20.0), end: Some(40.0), ..SimulatedJob::default() };
    /// assert_eq!(waited.slowdown(), Some(2.0));
    /// ```
    pub fn slowdown(&self) -> Option<f64> {
        Some((self.turnaround()? / self.run_time()?.max(SLOWDOWN_BOUND)).max(1.0))
    }
}

/// The same consecutive cores on each of some consecutive nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The rank of the first node.
    pub rank: u32,
    /// The number of nodes.
    pub nodes: u32,
    /// The first core on each node.
    pub core: u32,
    /// The number of cores on each node.
    pub cores: u32,
}

/// Returns the cores in a resource set as spans.
pub(super) fn spans(resources: &ResourceSet) -> Box<[Span]> {
    let mut all = Vec::new();
    for (ranks, children) in resources.runs() {
        let (rank, nodes) = (*ranks.start(), ranks.end() - ranks.start() + 1);
        for range in children.cores().ranges() {
            let (core, cores) = (*range.start(), range.end() - range.start() + 1);
            all.push(Span { rank, nodes, core, cores });
        }
    }
    all.into()
}
