//! A submission: it is checked, gets an id, and is taken through the gates of the plugins, until the job is accepted or
//! removed.

use serde_json::{Value, json};

use super::access;
use super::slurm::begin;
use crate::agenda::{Agenda, Cause, Frame, Purpose, Subject, SubmissionStep, Work};
use crate::api::{Cred, ReplyTo, RequestError, Submission, Write};
use crate::arrays::{Arrays, make};
use crate::core::Core;
use crate::dispatch::{async_work, dependencies, pushing, resubmission, schemes};
use crate::eventlog::{Event, Submitted};
use crate::host::errno::{EINVAL, EPERM};
use crate::job::{Flags, JobId, Uid, Urgency};
use crate::jobs::waiters::Waiters;
use crate::jobs::{Admission, HeldBack, Jobs, Record};
use crate::jobspec::Jobspec;
use crate::plugins::Plugins;
use crate::submissions::ingest;
use crate::submissions::{Submissions, Submitter};
use crate::topic::TopicId;
use crate::turn::Turn;

/// The key of a job under which its environment is stored if a plugin has changed it at the submission: an
/// object of strings.
pub const ENVIRONMENT: &str = "environment";

fn invalid(text: impl Into<String>) -> RequestError {
    RequestError::new(EINVAL, text)
}

fn denied(text: &str) -> RequestError {
    RequestError::new(EPERM, text)
}

/// `job-ingest.submit`.
pub(super) fn submit(core: &mut Core, reply: ReplyTo, cred: Cred, submission: Submission) {
    match check_options(cred, &submission) {
        Err(error) => core.turn.effects.reply(reply, Err(error)),
        Ok((urgency, flags))
            // If queues are restricted, the request waits there until the user has been looked up.
            if core.plugins.stack.handles(TopicId::SlurmJobSubmit)
                || access::is_restricted(core, cred) =>
        {
            begin::begin_submit(core, reply, cred, Box::new(submission), urgency, flags);
        }
        Ok((urgency, flags)) => {
            let checked = Checked::new(submission, urgency, flags);
            take_to_gates(core, Submitter::new(reply, Vec::new()), cred, checked);
        }
    }
}

/// Submits again a job that was admitted before.
pub(super) fn resubmit(
    core: &mut Core,
    reply: ReplyTo,
    cred: Cred,
    of: JobId,
    submission: Result<Box<Submission>, RequestError>,
) {
    // The options were checked when the job was submitted; its owner may have raised the urgency since.
    let owner = Cred { owner: true, ..cred };
    let checked = submission.and_then(|submission| {
        let (urgency, flags) = check_options(owner, &submission)?;
        let checked = Checked::new(*submission, urgency, flags);
        Ok(Checked { admitted_before: true, ..checked })
    });
    let submitter = Submitter { replaces: Some(of), ..Submitter::new(reply, Vec::new()) };
    let is_wanted = core.submissions.requeues.contains_key(&of);
    let canceled = || invalid(resubmission::CANCELED);
    match if is_wanted { checked } else { Err(canceled()) } {
        Ok(checked) => take_to_gates(core, submitter, cred, checked),
        Err(error) => {
            let Core { turn, jobs, submissions, arrays, .. } = core;
            refused(turn, jobs, submissions, submitter, error);
            arrays.keep(jobs, of);
        }
    }
}

/// A submission whose options have been checked.
pub(crate) struct Checked {
    pub(super) submission: Submission,
    pub(crate) urgency: Urgency,
    pub(crate) flags: Flags,
    /// The environment of the jobspec differs from the submitted one.
    pub(super) new_environment: bool,
    /// The user had access to the queue when the job was first submitted.
    admitted_before: bool,
}

impl Checked {
    pub(super) const fn new(submission: Submission, urgency: Urgency, flags: Flags) -> Self {
        Self { submission, urgency, flags, new_environment: false, admitted_before: false }
    }
}

/// Makes the job, and takes it to the gates of the plugins; for an array, the job of its first element.
pub(super) fn take_to_gates(
    core: &mut Core,
    submitter: Submitter,
    cred: Cred,
    mut checked: Checked,
) {
    let begun = match checked.submission.elements.take() {
        Some(elements) => make::begin(core, submitter, cred, checked, elements),
        None => begin(core, submitter, cred, checked),
    };
    if let Err((submitter, error)) = begun {
        let Core { turn, jobs, submissions, arrays, .. } = core;
        let replaces = submitter.replaces;
        refused(turn, jobs, submissions, submitter, error);
        replaces.into_iter().for_each(|of| arrays.keep(jobs, of));
    }
}

fn begin(
    core: &mut Core,
    submitter: Submitter,
    cred: Cred,
    checked: Checked,
) -> Result<(), (Submitter, RequestError)> {
    let (urgency, flags) = (checked.urgency, checked.flags);
    match create(core, cred, checked) {
        Ok(id) => {
            core.submissions.submitters.insert(id, submitter);
            enter(core, id, cred.userid, urgency, flags);
            Ok(())
        }
        Err(error) => Err((submitter, error)),
    }
}

/// Takes a new job to the gates.
pub(crate) fn enter(core: &mut Core, id: JobId, userid: Uid, urgency: Urgency, flags: Flags) {
    let Core { turn, jobs, .. } = core;
    turn.agenda.push(Work::Submission(id, SubmissionStep::Create));
    // Posted after, so that it is applied before: the gates see the job's user and urgency.
    jobs.post(turn, id, Event::Submit(Submitted { userid, urgency, flags, is_versioned: true }));
}

/// Tells the submitter that there is no job, and the request that waits for it to replace another one.
fn refused(
    turn: &mut Turn,
    jobs: &mut Jobs,
    submissions: &mut Submissions,
    submitter: Submitter,
    error: RequestError,
) {
    let Submitter { reply, messages, replaces } = submitter;
    if let Some(of) = replaces {
        resubmission::refused(turn, jobs, submissions, of, messages.clone(), error.clone());
    }
    turn.effects.reply_with(reply, messages, Err(error));
}

/// Checks urgency and flags: some are for the owner of the instance only.
fn check_options(cred: Cred, submission: &Submission) -> Result<(Urgency, Flags), RequestError> {
    let flags = Flags::from_bits(submission.flags).map_err(|_| invalid("invalid job flags"))?;
    let guest = !cred.owner;
    if guest && flags.contains(Flags::NOVALIDATE) {
        return Err(denied("only the instance owner can submit with FLUX_JOB_NOVALIDATE"));
    }
    let urgency =
        Urgency::new(submission.urgency).map_err(|_| invalid("urgency range is [0:31]"))?;
    if guest && urgency > Urgency::DEFAULT {
        return Err(invalid("only the instance owner can submit with urgency >16"));
    }
    if guest && flags.contains(Flags::WAITABLE) {
        return Err(invalid("only the instance owner can submit with FLUX_JOB_WAITABLE"));
    }
    Ok((urgency, flags))
}

/// Makes the job, in state NEW. Nothing about it is stored before it is accepted.
fn create(core: &mut Core, cred: Cred, checked: Checked) -> Result<JobId, RequestError> {
    let Admitted { jobspec, signed, environment } = admit(core, cred, checked)?;
    let id = insert(core, jobspec)?;
    core.jobs.put(&mut core.turn.effects, id, "J", signed);
    if let Some(environment) = environment {
        // `J` stays as it was signed.
        core.jobs.put(&mut core.turn.effects, id, ENVIRONMENT, environment);
    }
    Ok(id)
}

/// A submission that may become a job.
pub(crate) struct Admitted {
    /// Completed, and without the environment.
    pub(crate) jobspec: Jobspec,
    pub(crate) signed: String,
    /// The environment, if plugins have changed it.
    pub(crate) environment: Option<String>,
}

/// Completes and checks a jobspec before any plugin sees it.
pub(crate) fn admit(core: &Core, cred: Cred, checked: Checked) -> Result<Admitted, RequestError> {
    let Checked { submission, flags, new_environment, admitted_before, .. } = checked;
    let jobspec = ingest::complete_and_check(
        &core.submissions.ingest,
        &core.alloc.queues,
        &core.alloc.pool,
        submission.jobspec,
        flags,
    )?;
    if !admitted_before {
        access::check(core, cred, &jobspec)?;
    }
    let environment = new_environment.then(|| {
        let variables = jobspec.environment().cloned().unwrap_or_default();
        Value::Object(variables).to_string()
    });
    // The environment is only in `J`: it is long, and only execution needs it.
    let jobspec = jobspec.into_redacted();
    Ok(Admitted { jobspec, signed: submission.signed, environment })
}

/// Adds a job in state NEW, with its jobspec.
///
/// # Errors
/// There are no more ids.
pub(crate) fn insert(core: &mut Core, jobspec: Jobspec) -> Result<JobId, RequestError> {
    let id = next_id(core)?;
    let text = jobspec.text().to_owned();
    core.jobs.insert_active(Box::new(Record::submitted(id, jobspec)));
    core.jobs.put(&mut core.turn.effects, id, "jobspec", text);
    Ok(id)
}

/// A new id, of a job or of an array.
///
/// # Errors
/// There are no more ids.
pub(crate) fn next_id(core: &mut Core) -> Result<JobId, RequestError> {
    // Whole milliseconds. If the clock is set back the generator goes on from the last id.
    let elapsed = ((core.turn.clock.now - core.turn.clock.started_at) * 1000.0).max(0.0) as u64;
    core.jobs.next_id(elapsed).map_err(|error| invalid(error.to_string()))
}

/// Takes a submission to its next step.
pub(crate) fn step(core: &mut Core, id: JobId, step: SubmissionStep) {
    let Core { turn, jobs, plugins, waiters, submissions, arrays, .. } = &mut *core;
    match step {
        SubmissionStep::Create => {
            gate(&mut turn.agenda, plugins, id, TopicId::JobCreate, SubmissionStep::Validate)
        }
        SubmissionStep::Validate => {
            gate(
                &mut turn.agenda,
                plugins,
                id,
                TopicId::JobValidate,
                SubmissionStep::Dependency(0),
            );
        }
        SubmissionStep::Dependency(index) => ask_dependency(core, id, index),
        SubmissionStep::New if submissions.is_unwanted(id) || arrays.is_unwanted(id) => {
            let text = resubmission::CANCELED.to_owned();
            reject(core, id, text, false);
        }
        SubmissionStep::New => {
            turn.agenda.push(Work::Submission(id, SubmissionStep::Accept));
            plugins.notify(&mut turn.agenda, TopicId::JobNew, id, Cause::None);
        }
        SubmissionStep::Accept => accept(turn, jobs, waiters, submissions, arrays, id),
    }
}

fn gate(agenda: &mut Agenda, plugins: &Plugins, id: JobId, topic: TopicId, next: SubmissionStep) {
    pushing::push(agenda, plugins, Frame::new(topic, id, Purpose::Gate(next)));
}

fn ask_dependency(core: &mut Core, id: JobId, index: usize) {
    let Core { turn, jobs, plugins, .. } = &mut *core;
    let Some(record) = jobs.get(id) else {
        return;
    };
    match record.job.kept().jobspec.dependency(index) {
        Err(error) => reject(core, id, error.to_string(), true),
        Ok(None) => turn.agenda.push(Work::Submission(id, SubmissionStep::New)),
        Ok(Some(dependency)) => {
            let purpose = Purpose::Gate(SubmissionStep::Dependency(index + 1));
            dependencies::push(turn, jobs, plugins, id, dependency, purpose, None);
        }
    }
}

/// Handles the end of a gate: all of its handlers were called.
pub(crate) fn finish_gate(core: &mut Core, frame: Frame, next: SubmissionStep) {
    let Core { turn, plugins, .. } = &mut *core;
    let id = frame.job;
    if let Some(text) = frame.refusal {
        let by_dependency = matches!(frame.subject, Subject::Dependency(_));
        return reject(core, id, text, by_dependency);
    }
    if !frame.awaited.is_empty() {
        return plugins.suspend(id, frame);
    }
    match &frame.subject {
        Subject::Dependency(dependency) if frame.progress.deciders == 0 => {
            let text = schemes::unsupported(plugins, &dependency.scheme);
            reject(core, id, text, true);
        }
        _ => turn.agenda.push(Work::Submission(id, next)),
    }
}

/// Accepts a job: its writes go out, and the response with them.
fn accept(
    turn: &mut Turn,
    jobs: &mut Jobs,
    waiters: &mut Waiters,
    submissions: &mut Submissions,
    arrays: &mut Arrays,
    id: JobId,
) {
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    // An array is stored before the job of its first element, which shares its keys. Who submits it learns its id.
    let array = arrays.accepted(&mut turn.effects, turn.clock.now, id);
    let submitted = array.unwrap_or(id);
    let admission = std::mem::replace(&mut record.admission, Admission::Accepted);
    if let Admission::Pending(held_back) = admission {
        let HeldBack { writes, events } = *held_back;
        turn.effects.writes.extend(writes);
        turn.effects.writes.push(Write::Accepted { id });
        for (log, seq, entry) in events {
            turn.effects.publish(id, log, seq, &entry);
        }
    }
    waiters.count_active(record);
    jobs.count_new(id);
    if let Some(Submitter { reply, messages, replaces }) = submissions.submitters.remove(&id) {
        if let Some(of) = replaces {
            arrays.replace(turn.clock.now, of, id);
            resubmission::accepted(turn, jobs, submissions, of, id, messages.clone());
        }
        turn.effects.reply_with(reply, messages, Ok(json!({ "id": submitted })));
    }
    jobs.post(turn, id, Event::Validate);
    // The urgency of the array may have changed while the element was at the gates.
    if let Some(urgency) = arrays.urgency_of(id)
        && jobs.get(id).is_some_and(|record| record.job.urgency() != urgency)
    {
        jobs.post(turn, id, Event::Urgency { userid: None, urgency });
    }
}

/// Rejects a job: once `job.destroy` has seen it, nothing but the response is left.
fn reject(core: &mut Core, id: JobId, text: String, by_dependency: bool) {
    let Core { turn, jobs, plugins, submissions, arrays, .. } = core;
    let text = if text.is_empty() { "rejected by plugin".to_owned() } else { text };
    let dropped = arrays.refused(turn.clock.now, id, &text, by_dependency);
    if let Some(submitter) = submissions.submitters.remove(&id) {
        let replaces = submitter.replaces;
        refused(turn, jobs, submissions, submitter, invalid(text));
        replaces.into_iter().for_each(|of| arrays.keep(jobs, of));
    }
    if let Some(array) = dropped {
        dependencies::recheck_for_array(turn, jobs, plugins, arrays, array);
    }
    if let Some(record) = jobs.get_mut(id) {
        async_work::abort_all(record);
        record.admission = Admission::Rejected;
    }
    // Below `job.destroy`, which still sees the job.
    turn.agenda.push(Work::RemoveRecord(id));
    plugins.notify(&mut turn.agenda, TopicId::JobDestroy, id, Cause::None);
}
