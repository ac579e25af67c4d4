//! Queues that only some users and groups may use: `policy.access` (RFC 33).
//!
//! The owner of the instance has access to all queues. For other users, [`Users`](crate::submissions::users::Users) must have looked
//! up the user's name and groups in the system before.

use crate::api::{Cred, RequestError, Requester};
use crate::core::Core;
use crate::host::errno::EPERM;
use crate::job::Uid;
use crate::jobspec::Jobspec;
use crate::queue::Queue;

/// Whether the queues that this request may use depend on its user.
pub(super) fn is_restricted(core: &Core, cred: Cred) -> bool {
    !cred.owner && core.alloc.queues.iter().any(|queue| !queue.access().is_open())
}

/// Refuses a job in a queue that its user may not use.
pub(super) fn check(core: &Core, cred: Cred, jobspec: &Jobspec) -> Result<(), RequestError> {
    match core.alloc.queues.of_job(jobspec) {
        Ok(queue) if !cred.owner => check_queue(core, cred.userid, queue),
        _ => Ok(()),
    }
}

fn check_queue(core: &Core, user: Uid, queue: Queue<'_>) -> Result<(), RequestError> {
    let requester = core.submissions.users.last_known(user);
    if requester.map_or_else(|| queue.access().is_open(), |requester| allows(queue, requester)) {
        return Ok(());
    }
    let name = requester.and_then(|requester| requester.name.clone());
    let name = name.unwrap_or_else(|| user.to_string());
    let of = queue.name().map(|queue| format!(" to queue {queue}")).unwrap_or_default();
    Err(RequestError::new(EPERM, format!("user {name} is not allowed to submit jobs{of}")))
}

/// Whether a user may use a queue.
pub(super) fn allows(queue: Queue<'_>, requester: &Requester) -> bool {
    queue.access().allows(requester.name.as_deref(), &requester.groups)
}
