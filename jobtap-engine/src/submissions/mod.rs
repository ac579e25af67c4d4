//! The part of the engine that owns what concerns requests on their way to the plugins: the checks before any plugin
//! sees a submission, the requests that wait, and what is known about their users.

pub(super) mod ingest;
pub(super) mod users;

use rustc_hash::FxHashMap;

use super::api::{HostCheck, ReplyTo};
use crate::job::JobId;
use ingest::Ingest;
use users::Users;

/// What concerns submissions alone.
pub(super) struct Submissions {
    /// The changes and checks before any plugin sees a submission.
    pub(super) ingest: Ingest,
    pub(super) host_check: HostCheck,
    /// The requests that wait until their job has passed the gates.
    pub(super) submitters: FxHashMap<JobId, Submitter>,
    /// The users of requests that plugins see in Slurm's terms.
    pub(super) users: Users,
}

/// A request that waits until its job has passed the gates.
pub(super) struct Submitter {
    pub(super) reply: ReplyTo,
    /// Messages from plugins to the user so far.
    pub(super) messages: Vec<String>,
}

impl Submissions {
    pub(super) fn new(ingest: Ingest, host_check: HostCheck) -> Self {
        Self { ingest, host_check, submitters: FxHashMap::default(), users: Users::default() }
    }
}
