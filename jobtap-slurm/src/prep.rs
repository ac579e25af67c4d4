//! The implementation of the PrEp functions, which slurmd and slurmctld call.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use jobtap_core::host::JobParts;
use jobtap_core::job::{JobId, State, Uid};
use jobtap_core::jobspec::Jobspec;
use jobtap_core::plugin::{Level, Node};
use jobtap_core::resource::Hostlist;
use jobtap_core::slurm::{JobDescriptor, JobRecord};
use jobtap_core::topic::TopicId;

use crate::daemon::{Daemon, Part, PrepEnd};
use crate::job;
use crate::structure::Mismatch;
use crate::worker::{Plugins, PrepCall};

/// How much longer than `PrologEpilogTimeout` to wait for a prolog or epilog. Unless a handler hangs, the plugins'
/// thread reports the timeout before that.
const GRACE: Duration = Duration::from_secs(2);

/// How often slurmctld is asked whether the job of a prolog has ended. It doesn't notify its plugins of that.
const POLL: Duration = Duration::from_secs(1);

/// The wait status that reports a failure: exit code 1.
pub const FAILED: i32 = 1 << 8;

/// The daemon that runs the prolog or epilog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// slurmd.
    Node,
    /// slurmctld.
    Controller,
}

/// Returns the topics of a prolog or epilog, in the order in which they are called.
pub const fn topics(part: Part, at: Where) -> &'static [TopicId] {
    match (part, at) {
        (Part::Prolog, Where::Node) => &[TopicId::SlurmProlog],
        (Part::Epilog, Where::Node) => &[TopicId::SlurmEpilog],
        (Part::Prolog, Where::Controller) => &[TopicId::JobStateRun, TopicId::SlurmPrologSlurmctld],
        (Part::Epilog, Where::Controller) => {
            &[TopicId::JobStateCleanup, TopicId::SlurmEpilogSlurmctld]
        }
    }
}

/// A job as slurmd knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeJob {
    /// The job id.
    pub id: u32,
    /// The user id.
    pub user: u32,
    /// The user's group id.
    pub group: u32,
    /// The user's name.
    pub user_name: Option<String>,
    /// The hosts of the job, as a host list.
    pub nodes: Option<String>,
    /// The partition.
    pub partition: Option<String>,
    /// The working directory.
    pub work_dir: Option<String>,
    /// The variables that SPANK plugins have set.
    pub spank_job_env: Vec<String>,
    /// The name of this node; `None` if slurmd doesn't provide it.
    pub node: Option<String>,
}

impl NodeJob {
    fn parts(self, state: State) -> (JobParts, Node) {
        let hosts: Hostlist =
            self.nodes.as_deref().and_then(|nodes| nodes.parse().ok()).unwrap_or_default();
        let host = self.node.unwrap_or_default();
        let rank = hosts.iter().position(|name| name == host).unwrap_or(0);
        let desc = JobDescriptor {
            group_id: self.group,
            partition: self.partition,
            spank_job_env: self.spank_job_env,
            user_id: self.user,
            user_name: self.user_name,
            work_dir: self.work_dir,
            ..JobDescriptor::default()
        };
        let document = desc.to_jobspec().unwrap_or_default();
        let jobspec = Jobspec::unvalidated(document);
        let mut parts = JobParts::new(JobId::new(self.id.into()), Uid(self.user), jobspec);
        parts.state = state;
        parts.resources = self.nodes.as_deref().map(job::resources).into();
        (parts, Node { rank: u32::try_from(rank).unwrap_or(0), host })
    }
}

/// Runs the handlers of slurmd's Prolog or Epilog, and waits for them. Returns a wait status: 0 is success.
pub fn on_node(plugins: &Plugins, part: Part, job: NodeJob) -> i32 {
    match node_end(plugins, part, job) {
        PrepEnd::Done => 0,
        _ => FAILED,
    }
}

/// Runs the handlers of slurmd's Prolog or Epilog, and waits for them.
pub(crate) fn node_end(plugins: &Plugins, part: Part, job: NodeJob) -> PrepEnd {
    let state = match part {
        Part::Prolog => State::Run,
        Part::Epilog => State::Cleanup,
    };
    let topics = topics(part, Where::Node);
    if !plugins.handles_any(topics) {
        return PrepEnd::Done;
    }
    let (id, limit) = (job.id, plugins.daemon().prep_timeout(part));
    let (job, node) = job.parts(state);
    let (sender, receiver) = channel();
    let key = plugins.prep_key();
    plugins.begin_prep(key, PrepCall { part, topics, job, node: Some(node) }, move |end| {
        let _ = sender.send(end);
    });
    let end = match limit {
        None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(limit) => receiver.recv_timeout(limit.saturating_add(GRACE)),
    };
    match end {
        Ok(Some(end)) => end,
        Ok(None) => PrepEnd::Failed("slurmd ends".to_owned()),
        Err(_) => {
            let text = format!("jobtap: {part:?}: job {id}: a handler does not return");
            plugins.daemon().log(Level::Error, &text);
            PrepEnd::TimedOut
        }
    }
}

/// Reports to slurmctld how its prologs and epilogs have ended, from a thread that holds none of slurmctld's locks.
pub struct Controller {
    watch: Sender<Watch>,
    serial: AtomicU64,
    stopped: Arc<AtomicBool>,
}

enum Watch {
    Began(Began),
    Ended { serial: u64, end: PrepEnd },
}

/// A prolog or epilog that has begun.
struct Began {
    serial: u64,
    part: Part,
    job: u32,
    until: Option<Instant>,
    /// Drops the work of a prolog. `None` for an epilog, and once it has been called.
    cancel: Option<Box<dyn FnOnce() + Send>>,
}

/// Drops the prologs of jobs that have ended.
fn cancel_those_over(open: &mut [Began], daemon: &dyn Daemon) {
    for began in open.iter_mut().filter(|began| began.cancel.is_some()) {
        if daemon.is_over(began.job)
            && let Some(cancel) = began.cancel.take()
        {
            cancel();
        }
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Controller")
    }
}

impl Controller {
    /// Starts the thread. It ends when this value is dropped and no prolog or epilog is open.
    ///
    /// # Errors
    /// When the thread can't be created.
    pub fn start(daemon: Arc<dyn Daemon>) -> std::io::Result<Self> {
        let (watch, watched) = channel();
        let stopped = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stopped);
        let thread = std::thread::Builder::new().name("jobtap-prep".to_owned());
        thread.spawn(move || {
            daemon.prepare_thread();
            let mut open: Vec<Began> = Vec::new();
            let mut asked = Instant::now();
            loop {
                let until = open.iter().filter_map(|began| began.until).min();
                let is_asked = open.iter().any(|began| began.cancel.is_some());
                let next = until.into_iter().chain(is_asked.then(|| asked + POLL)).min();
                let message = match next {
                    None => watched.recv().map_err(|_| RecvTimeoutError::Disconnected),
                    Some(until) => {
                        watched.recv_timeout(until.saturating_duration_since(Instant::now()))
                    }
                };
                let (serial, end) = match message {
                    Ok(Watch::Began(began)) => {
                        if open.is_empty() {
                            asked = Instant::now();
                        }
                        open.push(began);
                        continue;
                    }
                    Ok(Watch::Ended { serial, end }) => (serial, end),
                    Err(RecvTimeoutError::Timeout) => {
                        let now = Instant::now();
                        if is_asked && now >= asked + POLL && !is_stopped.load(Ordering::Relaxed) {
                            asked = now;
                            cancel_those_over(&mut open, &*daemon);
                        }
                        let is_late =
                            |began: &&Began| began.until.is_some_and(|until| until <= now);
                        let Some(late) = open.iter().find(is_late) else { continue };
                        (late.serial, PrepEnd::TimedOut)
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                // Don't report the end of one that has timed out a second time: slurmctld counts the reports.
                let Some(place) = open.iter().position(|began| began.serial == serial) else {
                    continue;
                };
                let Began { part, job, .. } = open.swap_remove(place);
                if !is_stopped.load(Ordering::Relaxed) {
                    daemon.controller_ended(part, job, &end);
                }
            }
        })?;
        Ok(Self { watch, serial: AtomicU64::new(1), stopped })
    }

    /// Stops reporting to slurmctld, which is ending and has freed its jobs.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Starts the handlers of slurmctld's PrologSlurmctld or EpilogSlurmctld. Returns whether there are any, which
    /// means that slurmctld has to wait: [`Daemon::controller_ended`] reports their end to it, once.
    ///
    /// # Errors
    /// When the job's record can't be read.
    pub fn begin(
        &self,
        plugins: &Plugins,
        part: Part,
        record: impl FnOnce() -> Result<JobRecord, Mismatch>,
    ) -> Result<bool, Mismatch> {
        let topics = topics(part, Where::Controller);
        if !plugins.handles_any(topics) {
            return Ok(false);
        }
        let record = record()?;
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let limit = plugins.daemon().prep_timeout(part);
        let until = limit.and_then(|limit| Instant::now().checked_add(limit.saturating_add(GRACE)));
        let job = record.job_id;
        let key = plugins.prep_key();
        let cancels = || Box::new(plugins.cancels_prep(key)) as Box<dyn FnOnce() + Send>;
        let cancel = (part == Part::Prolog).then(cancels);
        let began = Began { serial, part, job, until, cancel };
        if self.watch.send(Watch::Began(began)).is_err() {
            return Ok(false);
        }
        let mut parts = job::parts_of_record(&record);
        parts.state = match part {
            Part::Prolog => State::Run,
            Part::Epilog => State::Cleanup,
        };
        let watch = self.watch.clone();
        plugins.begin_prep(key, PrepCall { part, topics, job: parts, node: None }, move |end| {
            // `None` if the plugins have stopped. Then slurmctld ends too, and runs this again when it restarts.
            if let Some(end) = end {
                let _ = watch.send(Watch::Ended { serial, end });
            }
        });
        Ok(true)
    }
}
