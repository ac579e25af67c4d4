//! What passes between the engine and the executor: reports one way, commands the other.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::RaisedException;
use crate::eventlog::EventEntry;
use crate::job::{JobId, Reach, Signal, Uid};
use crate::jobspec::Jobspec;
use crate::resource::{Idset, ResourceSet};

/// What the executor reports about a job.
///
/// A job that was handed over [ahead of its turn](ExecStart::after) is [`Begun`](Self::Begun), right before the job
/// before it is [`Released`](Self::Released), or [`Recalled`](Self::Recalled); what follows on `Begun` is as for any job.
///
/// For a new job the executor reports, in this order: [`Log`](Self::Log) entries `init` and `starting`,
/// [`Started`](Self::Started), more log entries, [`Finished`](Self::Finished), [`Released`](Self::Released). If the job
/// cannot start, an [`Exception`](Self::Exception) takes the place of the start and the finish; if its command cannot
/// be run, there is one between them. For a lost job, [`Lost`](Self::Lost) takes the place of everything that has not
/// been reported. For a reattached job, [`Reattached`](Self::Reattached) comes first, then everything that was missed,
/// then [`CaughtUp`](Self::CaughtUp). The release is always reported, and nothing after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ExecEvent {
    /// The executor has begun a job [after](ExecStart::after) another one.
    Begun {
        /// The job.
        id: JobId,
    },
    /// The executor has not begun the job, and won't: the response to [`ExecCommand::Recall`]. For a job that it has begun,
    /// the response is [`Begun`](Self::Begun) once more.
    Recalled {
        /// The job.
        id: JobId,
    },
    /// An entry for `guest.exec.eventlog` (RFC 50).
    Log {
        /// The job.
        id: JobId,
        /// The entry.
        entry: EventEntry,
    },
    /// Everything that the tasks of a job have printed, if the job has ended and printed little. An executor keeps the
    /// output of other jobs.
    Output {
        /// The job.
        id: JobId,
        /// The entries of `guest.output` (RFC 24).
        text: String,
    },
    /// All tasks have started.
    Started {
        /// The job.
        id: JobId,
    },
    /// A job that ran before a restart was found again. What it did meanwhile is reported next.
    Reattached {
        /// The job.
        id: JobId,
    },
    /// Everything that a reattached job did meanwhile has been reported, up to its last report if there is one.
    CaughtUp {
        /// The job.
        id: JobId,
    },
    /// Something went wrong in execution.
    Exception {
        /// The job.
        id: JobId,
        /// Type, severity and note.
        exception: RaisedException,
    },
    /// The job is lost, and its nodes may be unusable: they are drained, and the job ends.
    Lost {
        /// The job.
        id: JobId,
        /// For the job's user: the note of the `exec` exception.
        note: String,
        /// For the administrator: why the nodes are drained.
        reason: String,
    },
    /// The job does not end although it was killed several times: its nodes are drained, and it is
    /// killed again and again.
    Unkillable {
        /// The job.
        id: JobId,
        /// The ranks on which it still has processes.
        ranks: Idset,
        /// For the administrator: why the nodes are drained.
        reason: String,
    },
    /// All tasks have exited.
    Finished {
        /// The job.
        id: JobId,
        /// The wait status, as in wait(2).
        status: i32,
    },
    /// The job has nothing left on these ranks, which are free for other jobs, but still runs on others.
    PartlyReleased {
        /// The job.
        id: JobId,
        /// The ranks; no rank is reported twice.
        ranks: Idset,
    },
    /// The job has nothing left at all. This is the last report.
    Released {
        /// The job.
        id: JobId,
    },
}

impl ExecEvent {
    /// The job that the event is about.
    pub fn id(&self) -> JobId {
        match *self {
            Self::Log { id, .. }
            | Self::Output { id, .. }
            | Self::Begun { id }
            | Self::Recalled { id }
            | Self::Reattached { id }
            | Self::CaughtUp { id }
            | Self::Started { id }
            | Self::Exception { id, .. }
            | Self::Lost { id, .. }
            | Self::Unkillable { id, .. }
            | Self::Finished { id, .. }
            | Self::PartlyReleased { id, .. }
            | Self::Released { id } => id,
        }
    }
}

/// A request to the executor.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecCommand {
    /// Start a job, or reattach to it.
    Start(ExecStart),
    /// Send one signal to the job's tasks.
    Signal {
        /// The job.
        id: JobId,
        /// The signal.
        signal: Signal,
        /// Which processes get it.
        reach: Reach,
    },
    /// End the job: with this signal first, then with SIGKILL (or `exec.kill-signal`) until nothing is
    /// left of it.
    Cancel {
        /// The job.
        id: JobId,
        /// `exec.term-signal` (SIGTERM), or SIGALRM when its time is up.
        signal: Signal,
    },
    /// Give back a job that was handed over [ahead of its turn](ExecStart::after).
    Recall {
        /// The job.
        id: JobId,
    },
    /// The end of the job is durable, so that the executor need not keep its status any longer.
    Ack {
        /// The job.
        id: JobId,
    },
}

impl ExecCommand {
    /// The job that the command is about.
    pub fn id(&self) -> JobId {
        match *self {
            Self::Start(ExecStart { id, .. })
            | Self::Signal { id, .. }
            | Self::Cancel { id, .. }
            | Self::Recall { id }
            | Self::Ack { id } => id,
        }
    }
}

/// A job to start, or to reattach to. Its environment is in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecStart {
    /// The job.
    pub id: JobId,
    /// Its user.
    pub userid: Uid,
    /// Its jobspec with all updates, without the environment.
    pub jobspec: Jobspec,
    /// Its resources. A job that is started has some.
    pub resources: Option<Arc<ResourceSet>>,
    /// The job was executed under an earlier manager: the executor reattaches to it and never starts
    /// it. Set if the eventlog has `start`, and for a job in CLEANUP whose release was not reported,
    /// which may have ended before `start` was logged.
    ///
    /// Otherwise the executor starts the job, unless it knows it already: an earlier manager may have
    /// stopped after it requested the start and before it logged `start`.
    pub reattach: bool,
    /// The job is handed over ahead of its turn: it is begun, without a further request, when this job has nothing left on
    /// their common resources. It is not begun if the executor doesn't know this job, or the manager has gone.
    pub after: Option<JobId>,
}
