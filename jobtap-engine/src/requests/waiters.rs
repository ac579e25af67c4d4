//! Requests that wait for jobs: `job-manager.wait`, `drain` and `idle`.

use super::owner_only;
use crate::api::{Cred, Effects, ReplyTo, RequestError};
use crate::host::errno::ECHILD;
use crate::job::{JobId, State};
use crate::jobs::Jobs;
use crate::jobs::waiters::{Waiters, is_waitable};

/// `job-manager.wait`.
pub(super) fn wait(
    effects: &mut Effects,
    jobs: &Jobs,
    waiters: &mut Waiters,
    reply: ReplyTo,
    cred: Cred,
    id: Option<JobId>,
) {
    if let Err(error) = owner_only(cred) {
        return effects.reply(reply, Err(error));
    }
    let unclaimed = match id {
        Some(id) => waiters.unclaimed_results.remove(&id),
        None => waiters.unclaimed_results.pop_first().map(|(_, ending)| ending),
    };
    if let Some(ending) = unclaimed {
        return effects.reply(reply, Ok(ending));
    }
    match id {
        None => waiters.insert_for_any(reply),
        Some(id) => match check_waitable(jobs, waiters, id) {
            Ok(()) => waiters.insert_for(id, reply),
            Err(error) => return effects.reply(reply, Err(error)),
        },
    }
    waiters.refuse_excess(effects);
}

fn check_waitable(jobs: &Jobs, waiters: &Waiters, id: JobId) -> Result<(), RequestError> {
    let refuse = |text: &str| Err(RequestError::new(ECHILD, text));
    let unknown = "invalid job id, or job may be inactive and not waitable";
    let record = jobs.accepted(id, ECHILD, unknown)?;
    if record.job.state() == State::Inactive {
        return refuse(unknown);
    }
    if !is_waitable(record) {
        return refuse("job was not submitted with FLUX_JOB_WAITABLE");
    }
    if waiters.by_id.contains_key(&id) {
        return refuse("job id already has a waiter");
    }
    Ok(())
}

/// `job-manager.drain`.
pub(super) fn drain(effects: &mut Effects, waiters: &mut Waiters, reply: ReplyTo, cred: Cred) {
    match owner_only(cred) {
        Ok(()) => drop(waiters.drain.insert(reply)),
        Err(error) => effects.reply(reply, Err(error)),
    }
}

/// `job-manager.idle`.
pub(super) fn idle(effects: &mut Effects, waiters: &mut Waiters, reply: ReplyTo, cred: Cred) {
    match owner_only(cred) {
        Ok(()) => drop(waiters.idle.insert(reply)),
        Err(error) => effects.reply(reply, Err(error)),
    }
}
