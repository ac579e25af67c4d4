//! What became of the jobs of a trace.

use serde::{Deserialize, Serialize};

use super::metrics::Metrics;
use super::trace::TraceJob;
use crate::host::HandlerStats;
use crate::job::JobResult;
use crate::resource::ResourceSet;

/// Jobs shorter than this many seconds count as so long in the bounded slowdown.
pub const SLOWDOWN_BOUND: f64 = 10.0;

/// What became of a trace. All times are seconds from the start of the trace.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// The jobs in the order of their submission, those that were refused included.
    pub jobs: Vec<Outcome>,
    /// The cores of the machine.
    pub cores: usize,
    /// The time of second 0, in UNIX seconds.
    pub start: f64,
    /// When the simulation ended.
    pub end: f64,
    /// How many inputs the engine got.
    pub events: u64,
    /// Why submissions were refused: the first reasons.
    pub refusals: Vec<RefusedJobs>,
    /// What the first jobs wait for that never started: `ƒ2P4LDd: queue batch is stopped`.
    pub left: Vec<String>,
    /// What handlers did, by plugin.
    pub plugins: Vec<(String, Vec<HandlerStats>)>,
    /// The schedulers of the queues.
    pub scheduler: Vec<String>,
    /// The first warnings and errors of the manager's log.
    pub log: Vec<String>,
    /// How many there were.
    pub log_lines: u64,
    /// Processes that plugins asked for. They were not run.
    pub processes: u64,
    /// How many jobs have a `place`.
    pub(super) placed: usize,
}

impl Results {
    /// The metrics of these jobs.
    pub fn metrics(&self) -> Metrics {
        Metrics::of(self)
    }
}

/// A reason for which submissions were refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedJobs {
    /// As the user sees it.
    pub text: String,
    /// How many jobs.
    pub jobs: u64,
}

/// What became of one job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Its number in the trace.
    pub number: u64,
    /// Its user.
    pub user: u32,
    /// Its queue in the trace.
    pub queue: Option<Box<str>>,
    /// Its cores: as allocated, else as requested.
    pub cores: u64,
    /// The submission.
    pub submit: f64,
    /// When it got its resources.
    pub allocated: Option<f64>,
    /// When its tasks started.
    pub start: Option<f64>,
    /// When its tasks ended.
    pub end: Option<f64>,
    /// When its resources were free again.
    pub freed: Option<f64>,
    /// How it came out; `None` while it is active, and when it was refused.
    pub result: Option<JobResult>,
    /// Its last priority.
    pub priority: u32,
    /// It got resources while a job of the same queue was before it.
    pub backfilled: bool,
    /// Its submission was refused.
    pub refused: bool,
    /// Its cores, when they are kept.
    pub place: Box<[Span]>,
}

impl Outcome {
    pub(super) fn of(job: &TraceJob, submit: f64) -> Self {
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

    /// Notes that it failed; the first reason counts, as in RFC 21.
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

    /// The bounded slowdown: the turnaround in run times, of which those below [`SLOWDOWN_BOUND`] count as that; at
    /// least 1.
    ///
    /// ```
    /// use jobtap_core::simulation::Outcome;
    ///
    /// let waited = Outcome { start: Some(20.0), end: Some(40.0), ..Outcome::default() };
    /// assert_eq!(waited.slowdown(), Some(2.0));
    /// ```
    pub fn slowdown(&self) -> Option<f64> {
        Some((self.turnaround()? / self.run_time()?.max(SLOWDOWN_BOUND)).max(1.0))
    }
}

/// Consecutive cores of a machine whose cores are counted over its nodes in the order of the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The node of the first core.
    pub rank: u32,
    /// How many nodes.
    pub nodes: u32,
    /// The first core on each of them.
    pub core: u32,
    /// How many cores on each of them.
    pub cores: u32,
}

/// Where resources are.
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
