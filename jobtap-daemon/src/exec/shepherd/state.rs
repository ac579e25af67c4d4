//! The state of the shepherd: its jobs and their processes, its claims, and its manager.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jobtap_core::job::JobId;
use rustix::process::Pid;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::ahead::Ahead;
use super::claims::Claims;
use super::files::jobdir::JobDirs;
use super::forker::Forker;
use super::helpers::AllHelpers;
use super::job::Job;
use super::manager_process::ManagerProcess;
use super::message::Message;
use super::pmi;
use crate::exec::job_files::JobFiles;
use crate::exec::protocol::ShepherdMessage;
use crate::open_files::OpenFiles;

/// How long the process of a task may take until it executes its program. By then it has the ids of the job's user,
/// who can stop it, and the program may be in a file system that doesn't answer.
const PATIENCE: Duration = Duration::from_secs(300);

/// The connection to which events are sent.
pub(super) struct Manager {
    pub(super) number: u64,
    pub(super) outbox: UnboundedSender<ShepherdMessage>,
}

pub(super) struct Shepherd {
    pub(super) state_dir: PathBuf,
    /// The manager's process, if the instance is temporary: its jobs end when that process is gone. `None`
    /// if the jobs outlive the manager.
    pub(super) manager_process: Option<ManagerProcess>,
    pub(super) job_dirs: JobDirs,
    /// The output of the tasks of jobs.
    pub(super) output: Arc<JobFiles>,
    /// The input of jobs whose clients send it.
    pub(super) input: JobFiles,
    /// Distinguishes processes of this shepherd from those of others, by their environment.
    pub(super) nonce: String,
    pub(super) open_files: &'static OpenFiles,
    pub(super) pmi: pmi::Service,
    /// The parent of the tasks.
    pub(super) forker: Forker,
    /// Threads that wait for tasks.
    pub(super) helpers: AllHelpers,
    pub(super) inbox: UnboundedSender<Message>,
    pub(super) manager: Option<Manager>,
    pub(super) claims: Claims,
    pub(super) jobs: BTreeMap<JobId, Job>,
    /// Jobs to be begun after others.
    pub(super) ahead: Ahead,
    /// Claimed jobs whose tasks are being started, in the order of their next slice.
    pub(super) starting: VecDeque<JobId>,
    /// The jobs whose output is held, each with the end of that time. Sorted, since all are held for the same time.
    pub(super) holding_output: VecDeque<(Instant, JobId)>,
    /// The jobs whose tasks left processes in their groups.
    pub(super) jobs_with_groups: HashSet<JobId>,
    /// Tasks not yet reaped, with their jobs.
    pub(super) tasks: HashMap<Pid, JobId>,
    /// When to look for processes that jobs left behind.
    pub(super) sweep_at: Option<Instant>,
    /// Orphans that were killed and are not reaped yet.
    pub(super) killed_orphans: HashSet<Pid>,
    /// Whether this shepherd has taken the place of another one, whose jobs may have processes that aren't its
    /// children.
    pub(super) is_successor: bool,
    /// Whether processes of jobs that are lost can't be killed.
    pub(super) lost_jobs_run_on: bool,
    /// How long the process of a task may take until it executes its program.
    pub(super) patience: Duration,
    pub(super) shutdown: bool,
    pub(super) ending: Ending,
}

/// How far the end of the shepherd has come.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// Whether all jobs were canceled, on SIGTERM or because no manager can continue them.
    pub(super) begun: bool,
    /// When to stop waiting for acknowledgements; set once all jobs have ended.
    pub(super) deadline: Option<Instant>,
}

impl Shepherd {
    pub(super) fn new(
        state_dir: PathBuf,
        nonce: String,
        open_files: &'static OpenFiles,
        forker: Forker,
        inbox: UnboundedSender<Message>,
    ) -> io::Result<Self> {
        let claims_inbox = inbox.clone();
        let report = move |claimed| drop(claims_inbox.send(Message::Claimed(claimed)));
        Ok(Self {
            claims: Claims::start(&state_dir, report)?,
            job_dirs: JobDirs::open(&state_dir)?,
            output: Arc::new(JobFiles::open(&state_dir, "output")?),
            input: JobFiles::open(&state_dir, "input")?,
            pmi: pmi::Service::new(&state_dir),
            state_dir,
            manager_process: None,
            nonce,
            open_files,
            forker,
            helpers: AllHelpers::default(),
            inbox,
            manager: None,
            jobs: BTreeMap::new(),
            ahead: Ahead::default(),
            starting: VecDeque::new(),
            holding_output: VecDeque::new(),
            jobs_with_groups: HashSet::new(),
            tasks: HashMap::new(),
            sweep_at: None,
            killed_orphans: HashSet::new(),
            is_successor: false,
            lost_jobs_run_on: false,
            patience: PATIENCE,
            shutdown: false,
            ending: Ending::default(),
        })
    }

    /// The channel to the manager, if one is connected.
    pub(super) fn outbox(&self) -> Option<UnboundedSender<ShepherdMessage>> {
        self.manager.as_ref().map(|manager| manager.outbox.clone())
    }
}
