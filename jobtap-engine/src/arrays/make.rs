//! How elements become jobs: the first one when the array is submitted, the others when there is room for them.

use std::sync::Arc;

use serde_json::Value;

use super::ArrayKey;
use super::array::{Array, DEPENDENCIES, Origin, is_of_array};
use crate::api::{Cred, RequestError};
use crate::array::{Elements, ElementsError};
use crate::core::Core;
use crate::host::errno::{EAGAIN, EINVAL};
use crate::job::JobId;
use crate::jobspec::{Jobspec, JobspecError, path};
use crate::requests::submit;
use crate::submissions::Submitter;
use crate::timers::Due;

/// How many elements of an array are pending jobs at least, as long as others wait. Schedulers look at so many jobs, and
/// they are the supply of a node that runs short jobs one after the other.
const AHEAD: usize = 1024;

/// How many are at most, however many cores there are: they are made before other requests are served.
const MOST_AHEAD: usize = 8192;

/// How many bytes the jobspecs of those of one array have together, but for one of them.
const MOST_BYTES: usize = 64 << 20;

/// How many bytes the texts of all elements of a user's arrays may have, as long as not all of them are jobs. They stay in
/// memory.
const MOST_TEXTS: usize = 256 << 20;

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
    let open = core.arrays.open().filter(|array| array.userid() == cred.userid);
    let texts = open.map(|array| array.elements().bytes()).sum::<usize>();
    if texts + elements.bytes() > MOST_TEXTS {
        let text = format!(
            "the texts of this user's waiting arrays have {texts} bytes, and those of this array {}; {MOST_TEXTS} are \
             allowed together: submit it when others have started",
            elements.bytes()
        );
        return Err(RequestError::new(EAGAIN, text));
    }
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
    if !array.depends()
        && let Some(all) = path::get(&value, DEPENDENCIES).and_then(Value::as_array)
    {
        // The jobs that these name may be gone.
        let left: Vec<Value> = all.iter().filter(|one| !is_of_array(one)).cloned().collect();
        path::set(&mut value, DEPENDENCIES, left.into())?;
    }
    match template.is_validated() {
        true => Jobspec::from_value(value),
        false => Ok(Jobspec::unvalidated(value)),
    }
}

/// Makes jobs of elements where arrays have room for them.
pub(crate) fn fill(core: &mut Core) -> Filled {
    let cores = core.alloc.pool.inventory().ncores();
    let ahead = cores.saturating_mul(4).clamp(AHEAD, MOST_AHEAD);
    let mut left = PART;
    for id in core.arrays.take_ready() {
        while left > 0 && has_room(core, id, ahead) && make(core, id).is_ok() {
            left -= 1;
        }
        if left == 0 {
            // What it could still have, it gets in the next part.
            core.arrays.ready.insert(id);
        }
    }
    match left {
        PART => Filled::None,
        0 => Filled::Part,
        _ => Filled::Some,
    }
}

/// Whether an element of an array may become a job now. The arrays of a user share what may be ahead, so that many arrays
/// make no more jobs than one; each may have one.
fn has_room(core: &Core, id: JobId, ahead: usize) -> bool {
    let Some(array) = core.arrays.get(id) else { return false };
    let length = array.jobspec().text().len().max(1);
    let ahead = ahead.min(MOST_BYTES / length).max(1);
    let of_user = core.arrays.ahead_of(array.userid());
    let is_first = array.ahead() == 0;
    array.room(core.turn.clock.now, ahead) > 0 && (is_first || of_user < ahead)
}

/// Sets the timer for the first element that is to be tried again, if none is set.
pub(crate) fn time_refused(core: &mut Core) {
    let Core { turn, arrays, timers, .. } = core;
    if arrays.is_timed || arrays.refused.is_empty() {
        return;
    }
    let refused = arrays.refused.iter().filter_map(|id| arrays.get(*id));
    let next = refused.filter_map(|array| Some(array.refusal()?.next));
    let later = next.filter(|next| *next > turn.clock.now);
    let Some(first) = later.reduce(|a, b| if b < a { b } else { a }) else { return };
    arrays.is_timed = true;
    timers.start(&mut turn.effects, first, Due::RefusedElements);
}
