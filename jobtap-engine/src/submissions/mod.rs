//! The part of the engine that owns what concerns requests on their way to the plugins: the checks before any plugin
//! sees a submission, the requests that wait, and what is known about their users.

pub(super) mod ingest;
pub(super) mod users;

use rustc_hash::FxHashMap;

use super::api::{HostCheck, ReplyTo};
use crate::job::{JobId, Uid};
use ingest::Ingest;
use users::Users;

/// What concerns submissions alone.
pub(super) struct Submissions {
    /// The changes and checks before any plugin sees a submission.
    pub(super) ingest: Ingest,
    pub(super) host_check: HostCheck,
    /// The requests that wait until their job has passed the gates.
    pub(super) submitters: FxHashMap<JobId, Submitter>,
    /// The requests to run a job again that wait until its successor is accepted, by the job.
    pub(super) requeues: FxHashMap<JobId, Requeuer>,
    /// The users of requests that plugins see in Slurm's terms.
    pub(super) users: Users,
}

/// A request that waits until its job has passed the gates.
pub(super) struct Submitter {
    pub(super) reply: ReplyTo,
    /// Messages from plugins to the user so far.
    pub(super) messages: Vec<String>,
    /// The job that this one replaces, if the manager submits a job again.
    pub(super) replaces: Option<JobId>,
}

impl Submitter {
    /// The user who waits for a new job.
    pub(super) fn new(reply: ReplyTo, messages: Vec<String>) -> Self {
        Self { reply, messages, replaces: None }
    }
}

/// A user who waits to learn whether a job is submitted again.
pub(super) struct Requeuer {
    pub(super) reply: ReplyTo,
    pub(super) userid: Uid,
    /// Whether the new job is held.
    pub(super) hold: bool,
}

impl Submissions {
    pub(super) fn new(ingest: Ingest, host_check: HostCheck) -> Self {
        Self {
            ingest,
            host_check,
            submitters: FxHashMap::default(),
            requeues: FxHashMap::default(),
            users: Users::default(),
        }
    }
}
