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
    /// The jobs that are submitted again and whose successors are neither accepted nor refused.
    pub(super) requeues: FxHashMap<JobId, Requeue>,
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

/// Why a job is submitted again.
pub(super) enum Requeue {
    /// A user has asked for it.
    Asked(Requeuer),
    /// Something went wrong with it.
    Failed(Failed),
    /// Something went wrong with it after a user had asked for it.
    Both(Requeuer, Failed),
}

impl Requeue {
    /// Takes the two reasons apart.
    pub(super) fn into_parts(self) -> (Option<Requeuer>, Option<Failed>) {
        match self {
            Self::Asked(asked) => (Some(asked), None),
            Self::Failed(failed) => (None, Some(failed)),
            Self::Both(asked, failed) => (Some(asked), Some(failed)),
        }
    }
}

/// What went wrong with a job: its prolog has failed, or its nodes are gone. The job ends once it is known whether it has a
/// successor.
pub(super) struct Failed {
    /// The type of the exception that ends the job.
    pub(super) kind: &'static str,
    /// What failed, and where.
    pub(super) why: String,
    /// Whether the new job is held, so that an administrator looks at it first.
    pub(super) held: bool,
    /// The description of the prolog, if it is still open. Until it is finished, the job doesn't start.
    pub(super) description: Option<String>,
}

/// A user who waits to learn whether a job is submitted again.
pub(super) struct Requeuer {
    pub(super) reply: ReplyTo,
    pub(super) userid: Uid,
    /// Whether the new job is held.
    pub(super) hold: bool,
}

impl Submissions {
    /// Whether a job, which isn't accepted yet, would replace one that was canceled meanwhile.
    pub(super) fn is_unwanted(&self, id: JobId) -> bool {
        let replaced = self.submitters.get(&id).and_then(|submitter| submitter.replaces);
        replaced.is_some_and(|of| !self.requeues.contains_key(&of))
    }

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
