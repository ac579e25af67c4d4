//! What passes between the engine and whatever runs the jobs: what was seen there, and what is to be done.

use super::api::Exception;
use crate::eventlog::EventEntry;
use crate::job::{JobId, Uid};
use crate::resource::Idset;

/// What the execution system reports about a job.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecEvent {
    /// An entry for `guest.exec.eventlog` (RFC 50).
    Log {
        /// The job.
        id: JobId,
        /// The entry.
        entry: EventEntry,
    },
    /// All tasks were started.
    Started {
        /// The job.
        id: JobId,
    },
    /// A job that was handed over again after a restart is found: what it did meanwhile follows.
    Reattached {
        /// The job.
        id: JobId,
    },
    /// All was told that such a job did meanwhile, up to its last report if there was one.
    CaughtUp {
        /// The job.
        id: JobId,
    },
    /// Something went wrong in execution.
    Exception {
        /// The job.
        id: JobId,
        /// Type, severity and note.
        exception: Exception,
    },
    /// The job is lost, and its nodes may be of no use: they are drained, and the job ends.
    Lost {
        /// The job.
        id: JobId,
        /// For the job's user: the note of the `exec` exception.
        note: String,
        /// For the administrator: why the nodes are drained.
        reason: String,
    },
    /// The job doesn't end although it was killed time and again: its nodes are drained, and it goes
    /// on to be killed.
    Unkillable {
        /// The job.
        id: JobId,
        /// Where processes of it are left.
        ranks: Idset,
        /// For the administrator: why the nodes are drained.
        reason: String,
    },
    /// All tasks have ended.
    Finished {
        /// The job.
        id: JobId,
        /// In the form of wait(2).
        status: i32,
    },
    /// Nothing of the job is left on these ranks, while others go on: they are free for other jobs.
    PartlyReleased {
        /// The job.
        id: JobId,
        /// The ranks, of which none is reported twice.
        ranks: Idset,
    },
    /// The execution system is done with the job; the last report.
    Released {
        /// The job.
        id: JobId,
    },
}

/// A request to the execution system.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecCommand {
    /// Start the job; its jobspec, environment and R are in the store.
    Start {
        /// The job.
        id: JobId,
        /// Its user.
        userid: Uid,
        /// It may run already: find it again, don't start it twice.
        reattach: bool,
    },
    /// Send one signal to the job's tasks.
    Signal {
        /// The job.
        id: JobId,
        /// The signal's number.
        signum: i32,
    },
    /// End the job: this signal first, then SIGKILL or what stands for it until nothing is left.
    Cancel {
        /// The job.
        id: JobId,
        /// `exec.term-signal` (SIGTERM), or SIGALRM when its time is up.
        signum: i32,
    },
    /// The job's end is durable: its status may be forgotten.
    Ack {
        /// The job.
        id: JobId,
    },
}
