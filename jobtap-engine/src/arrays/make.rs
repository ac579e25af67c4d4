//! How elements become jobs: the first one when the array is submitted, the others when there is room for them.

use std::sync::Arc;

use super::ArrayKey;
use super::array::{Array, Origin};
use crate::api::{Cred, RequestError};
use crate::array::{Elements, ElementsError};
use crate::core::Core;
use crate::host::errno::EINVAL;
use crate::job::JobId;
use crate::jobspec::{Jobspec, JobspecError};
use crate::requests::submit;
use crate::submissions::Submitter;
use crate::timers::Due;

/// How many elements of an array are pending jobs at least, as long as others wait. Schedulers look at so many jobs, and
/// they are the supply of a node that runs short jobs one after the other.
const AHEAD: usize = 1024;

/// The number of elements that become jobs before what has happened so far is made durable.
const PART: usize = 128;

/// What was done for the arrays that have room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// No element could become a job.
    None,
    /// Some are at the gates.
    Some,
    /// As many as a part of the work may have.
    Part,
}

/// Begins an array: takes its first element to the gates, as whose job it is accepted or refused.
///
/// # Errors
/// The elements and the jobspec don't fit.
pub(crate) fn begin(
    core: &mut Core,
    submitter: Submitter,
    cred: Cred,
    checked: submit::Checked,
    elements: Arc<Elements>,
) -> Result<(), (Submitter, RequestError)> {
    let (id, array) = match prepare(core, cred, checked, elements) {
        Ok(prepared) => prepared,
        Err(error) => return Err((submitter, error)),
    };
    core.arrays.begin(array);
    match make(core, id) {
        Ok(job) => {
            core.submissions.submitters.insert(job, submitter);
            Ok(())
        }
        Err(error) => {
            core.arrays.refuse(id);
            Err((submitter, error))
        }
    }
}

fn prepare(
    core: &mut Core,
    cred: Cred,
    checked: submit::Checked,
    elements: Arc<Elements>,
) -> Result<(JobId, Array), RequestError> {
    let refuse = |error: ElementsError| RequestError::new(EINVAL, error.to_string());
    let of_request = (checked.urgency, checked.flags);
    let submit::Admitted { jobspec, signed, environment } = submit::admit(core, cred, checked)?;
    elements.check(jobspec.value()).map_err(refuse)?;
    let id = submit::next_id(core)?;
    let origin = Origin { signed, environment };
    Ok((id, Array::new(id, cred.userid, of_request, (jobspec, elements), origin)))
}

/// Takes the next element of an array to the gates; returns its job.
fn make(core: &mut Core, id: JobId) -> Result<JobId, RequestError> {
    let none = || RequestError::new(EINVAL, "no element of the array waits");
    let array = core.arrays.get_mut(id).ok_or_else(none)?;
    let position = array.next().ok_or_else(none)?;
    let (userid, urgency, flags) = (array.userid(), array.urgency(), array.flags());
    let has_new_environment = array.has_new_environment();
    let jobspec = jobspec_of(array, position);
    let inserted = jobspec
        .map_err(|error| RequestError::new(EINVAL, error.to_string()))
        .and_then(|jobspec| submit::insert(core, jobspec));
    if let Err(error) = &inserted
        && let Some(array) = core.arrays.get_mut(id)
    {
        array.refused(core.turn.clock.now, position, &error.text);
    }
    let job = inserted?;
    let effects = &mut core.turn.effects;
    core.jobs.share(effects, job, "J", ArrayKey::Request.of(id));
    if has_new_environment {
        core.jobs.share(effects, job, submit::ENVIRONMENT, ArrayKey::Environment.of(id));
    }
    core.arrays.note_made(id, position, job);
    submit::enter(core, job, userid, urgency, flags);
    Ok(job)
}

/// The jobspec of an element.
fn jobspec_of(array: &Array, position: u32) -> Result<Jobspec, JobspecError> {
    let template = array.jobspec();
    let mut value = template.opened().value().clone();
    array.elements().fill(&mut value, array.id(), position)?;
    match template.is_validated() {
        true => Jobspec::from_value(value),
        false => Ok(Jobspec::unvalidated(value)),
    }
}

/// Makes jobs of elements where arrays have room for them.
pub(crate) fn fill(core: &mut Core) -> Filled {
    if core.arrays.open.is_empty() {
        return Filled::None;
    }
    let now = core.turn.clock.now;
    let ahead = AHEAD.max(core.alloc.pool.inventory().ncores().saturating_mul(4));
    let mut left = PART;
    for id in core.arrays.open.iter().copied().collect::<Vec<JobId>>() {
        let room = core.arrays.get(id).map_or(0, |array| array.room(now, ahead));
        for _ in 0..room.min(left) {
            if make(core, id).is_err() {
                break;
            }
            left -= 1;
        }
    }
    match left {
        PART => Filled::None,
        0 => Filled::Part,
        _ => Filled::Some,
    }
}

/// Sets the timer for the first element that is to be tried again, if none is set.
pub(crate) fn time_refused(core: &mut Core) {
    let Core { turn, arrays, timers, .. } = core;
    if arrays.is_timed {
        return;
    }
    let next = arrays.open().filter_map(|array| Some(array.refusal()?.next));
    let later = next.filter(|next| *next > turn.clock.now);
    let Some(first) = later.reduce(|a, b| if b < a { b } else { a }) else { return };
    arrays.is_timed = true;
    timers.start(&mut turn.effects, first, Due::RefusedElements);
}
