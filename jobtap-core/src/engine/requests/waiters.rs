//! Requests that wait for jobs: `job-manager.wait`, `drain` and `idle`.

use super::owner_only;
use crate::engine::api::{Cred, ReplyTo, RequestError};
use crate::engine::core::Core;
use crate::engine::jobs::waiters::is_waitable;
use crate::engine::life_cycle::waiters::refuse_excess;
use crate::host::errno::ECHILD;
use crate::job::{JobId, State};

/// `job-manager.wait`.
pub(super) fn wait(core: &mut Core, reply: ReplyTo, cred: Cred, id: Option<JobId>) {
    if let Err(error) = owner_only(cred) {
        return core.reply(reply, Err(error));
    }
    let unclaimed = match id {
        Some(id) => core.waiters.unclaimed_results.remove(&id),
        None => core.waiters.unclaimed_results.pop_first().map(|(_, ending)| ending),
    };
    if let Some(ending) = unclaimed {
        return core.reply(reply, Ok(ending));
    }
    match id {
        None => core.waiters.insert_for_any(reply),
        Some(id) => match check_waitable(core, id) {
            Ok(()) => core.waiters.insert_for(id, reply),
            Err(error) => return core.reply(reply, Err(error)),
        },
    }
    refuse_excess(core);
}

fn check_waitable(core: &Core, id: JobId) -> Result<(), RequestError> {
    let refuse = |text: &str| Err(RequestError::new(ECHILD, text));
    let unknown = "invalid job id, or job may be inactive and not waitable";
    let record = core.accepted_or(id, ECHILD, unknown)?;
    if record.job.state == State::Inactive {
        return refuse(unknown);
    }
    if !is_waitable(record) {
        return refuse("job was not submitted with FLUX_JOB_WAITABLE");
    }
    if core.waiters.by_id.contains_key(&id) {
        return refuse("job id already has a waiter");
    }
    Ok(())
}

/// `job-manager.drain`.
pub(super) fn drain(core: &mut Core, reply: ReplyTo, cred: Cred) {
    match owner_only(cred) {
        Ok(()) => drop(core.waiters.drain.insert(reply)),
        Err(error) => core.reply(reply, Err(error)),
    }
}

/// `job-manager.idle`.
pub(super) fn idle(core: &mut Core, reply: ReplyTo, cred: Cred) {
    match owner_only(cred) {
        Ok(()) => drop(core.waiters.idle.insert(reply)),
        Err(error) => core.reply(reply, Err(error)),
    }
}
