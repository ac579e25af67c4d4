//! Requests that plugins see in Slurm's terms first: submissions and changes of jobs.
//!
//! Only a manager with a plugin that handles `slurm.job_submit` or `slurm.job_modify` comes here. A request is
//! described as Slurm would, the plugins read and change the description one after the other, and what they have
//! changed is brought into the jobspec. Then the request goes the way of any other.

use serde_json::{Map, Value};

use super::ingest::Submitter;
use super::submit::Checked;
use super::users::Unasked;
use super::{jobs, submit, update};
use crate::engine::agenda::{Chain, ChainPurpose, Progress};
use crate::engine::api::{
    Cred, Effect, HostCheck, Level, ReplyTo, RequestError, Requester, Submission,
};
use crate::engine::core::Core;
use crate::engine::dispatch::chains;
use crate::host::errno::EINVAL;
use crate::host::{Handlers, SlurmRequest};
use crate::job::{Flags, JobId, Uid, Urgency};
use crate::jobspec::{Jobspec, path};
use crate::slurm::{
    INFINITE, JobDescriptor, NO_VAL, NO_VAL16, USE_DEFAULT_ACCT, USE_DEFAULT_PART, USE_DEFAULT_QOS,
    USE_DEFAULT_WCKEY, apply_changes, updates_between,
};
use crate::topic::TopicId;

fn invalid(text: impl std::fmt::Display) -> RequestError {
    RequestError::new(EINVAL, text.to_string())
}

/// Asks the plugins about a submission.
pub(super) fn begin_submit(
    core: &mut Core,
    reply: ReplyTo,
    cred: Cred,
    submission: Box<Submission>,
    (urgency, flags): (Urgency, Flags),
) {
    let mut descriptor = describe(&submission.jobspec, cred.userid);
    descriptor.set_urgency(urgency);
    let purpose = ChainPurpose::Submit { submission, urgency, flags };
    let (topic, user) = (TopicId::SlurmJobSubmit, cred.userid);
    begin(core, Unasked { topic, reply, cred, user, descriptor, purpose });
}

/// Asks the plugins about a change of a jobspec.
pub(super) fn begin_update(
    core: &mut Core,
    reply: ReplyTo,
    cred: Cred,
    id: JobId,
    updates: Map<String, Value>,
) {
    match changed(core, id, &updates) {
        Ok((old, new)) => {
            let described = |jobspec: &Jobspec| JobDescriptor::from_jobspec(jobspec.value());
            let mut descriptor = differing(&described(&old), &described(&new));
            if new.duration() == 0.0 && old.duration() != 0.0 {
                // To ask for no time limit is more than to ask for nothing.
                descriptor.time_limit = Some(INFINITE);
            }
            let purpose = ChainPurpose::Update { id, updates };
            begin_modify(core, (reply, cred), id, descriptor, purpose);
        }
        Err(error) => core.reply(reply, Err(error)),
    }
}

/// Asks the plugins about a change of the urgency.
pub(super) fn begin_urgency(
    core: &mut Core,
    reply: ReplyTo,
    cred: Cred,
    id: JobId,
    urgency: Urgency,
) {
    let priority = Some(urgency.value().into());
    let descriptor = JobDescriptor { priority, ..unchanged() };
    let purpose = ChainPurpose::Urgency { id, urgency };
    begin_modify(core, (reply, cred), id, descriptor, purpose);
}

/// The user in the description of a change is that of the job, whoever asks for it.
fn begin_modify(
    core: &mut Core,
    (reply, cred): (ReplyTo, Cred),
    id: JobId,
    descriptor: JobDescriptor,
    purpose: ChainPurpose,
) {
    let user = core.job(id).map_or(cred.userid, |job| job.userid());
    let left_open = [
        (descriptor.account.is_none(), USE_DEFAULT_ACCT),
        (descriptor.partition.is_none(), USE_DEFAULT_PART),
        (descriptor.qos.is_none(), USE_DEFAULT_QOS),
        (descriptor.wckey.is_none(), USE_DEFAULT_WCKEY),
    ];
    let flags = left_open.iter().filter(|(is_open, _)| *is_open).map(|(_, flag)| flag);
    let bitflags = flags.fold(descriptor.bitflags, |all, flag| all | flag);
    let descriptor = JobDescriptor { user_id: user.as_u32(), bitflags, ..descriptor };
    begin(core, Unasked { topic: TopicId::SlurmJobModify, reply, cred, user, descriptor, purpose });
}

/// The description of a change that asks for nothing. Numbers that have no unset value in a submission have one
/// here, as in Slurm.
fn unchanged() -> JobDescriptor {
    JobDescriptor {
        contiguous: NO_VAL16,
        group_id: NO_VAL,
        het_job_offset: Some(0),
        mail_type: NO_VAL16,
        ..JobDescriptor::default()
    }
}

/// Asks the plugins at once, or when it is known who the user is.
fn begin(core: &mut Core, request: Unasked) {
    let user = request.user;
    match core.submissions.users.known(user, core.clock.now) {
        Some(requester) => ask(core, request, &requester),
        None => {
            if core.submissions.users.wait(request) {
                core.effects.after.push(Effect::LookUp { user });
            }
        }
    }
}

/// Asks the plugins about the requests that have waited for what the system knows of their user.
pub(crate) fn identified(core: &mut Core, user: Uid, requester: Requester) {
    let waiting = core.submissions.users.learn(user, requester.clone(), core.clock.now);
    // The agenda is a stack: the first request is pushed last.
    for request in waiting.into_iter().rev() {
        ask(core, request, &requester);
    }
}

fn ask(core: &mut Core, request: Unasked, requester: &Requester) {
    let Unasked { topic, reply, cred, user: _, mut descriptor, purpose } = request;
    descriptor.user_name.clone_from(&requester.name);
    if topic == TopicId::SlurmJobSubmit {
        descriptor.group_id = requester.group.unwrap_or(0);
    }
    descriptor.alloc_node.clone_from(&requester.host);
    let handlers = core.plugins.stack.handlers(topic).map(Handlers::clone).unwrap_or_default();
    let before = Box::new(descriptor.clone());
    let request = SlurmRequest::new(core.plugins.next_request(), cred.userid, descriptor);
    let progress = Progress::default();
    let (awaited, abort, messages, refusal) = Default::default();
    let chain = Chain {
        topic,
        reply,
        cred,
        request,
        before,
        handlers,
        progress,
        awaited,
        abort,
        messages,
        refusal,
        purpose,
    };
    chains::begin(core, chain);
}

/// Goes on with a request that all plugins have accepted, or refuses it.
pub(crate) fn finish(core: &mut Core, chain: Chain) {
    let Chain { reply, cred, request, before, messages, refusal, purpose, .. } = chain;
    if let Some(error) = refusal {
        return core.reply_with(reply, messages, Err(error));
    }
    let after = request.descriptor.into_inner();
    let changes = (after != *before).then_some((&*before, &after));
    let refused = match purpose {
        ChainPurpose::Submit { submission, urgency, flags } => {
            let check = &core.submissions.host_check;
            match rewrite_submission(changes, *submission, (urgency, flags), check) {
                Ok(rewritten) => {
                    let submitter = Submitter { reply, messages };
                    return submit::admit(core, submitter, cred, rewritten);
                }
                Err(error) => error,
            }
        }
        ChainPurpose::Update { id, updates } => match rewrite_updates(core, changes, id, updates) {
            Ok((updates, added)) => {
                return update::ask_plugins(core, (reply, messages), cred, id, (updates, added));
            }
            Err(error) => error,
        },
        ChainPurpose::Urgency { id, urgency } => {
            let urgency = rewrite_urgency(core, changes, id, urgency);
            let done = jobs::post_urgency(core, cred, id, urgency);
            return core.reply_with(reply, messages, done);
        }
    };
    core.reply_with(reply, messages, Err(refused));
}

/// What plugins have made of a request: the description before and after.
type Changes<'a> = Option<(&'a JobDescriptor, &'a JobDescriptor)>;

/// Brings what plugins have changed into a submission.
fn rewrite_submission(
    changes: Changes<'_>,
    submission: Submission,
    (urgency, flags): (Urgency, Flags),
    host_check: &HostCheck,
) -> Result<Checked, RequestError> {
    let mut checked = Checked { submission, urgency, flags, new_environment: false };
    if let Some((before, after)) = changes {
        let jobspec = &mut checked.submission.jobspec;
        *jobspec = rewrite(jobspec, before, after)?;
        host_check.check(jobspec).map_err(invalid)?;
        checked.new_environment = after.environment != before.environment;
        checked.urgency = new_urgency(before, after, urgency);
    }
    Ok(checked)
}

/// The urgency that the plugins have chosen by the priority.
fn new_urgency(before: &JobDescriptor, after: &JobDescriptor, urgency: Urgency) -> Urgency {
    match after.priority {
        _ if after.priority == before.priority => urgency,
        None => Urgency::DEFAULT,
        // Slurm's priorities go further than urgencies; such a number is kept in the jobspec.
        Some(_) => after.urgency().unwrap_or(urgency),
    }
}

/// The new values that the user wants, with what plugins have changed of them; and new values that the plugins
/// have added.
type Updates = (Map<String, Value>, Map<String, Value>);

fn rewrite_updates(
    core: &Core,
    changes: Changes<'_>,
    id: JobId,
    mut updates: Map<String, Value>,
) -> Result<Updates, RequestError> {
    let Some((before, after)) = changes else { return Ok((updates, Map::new())) };
    let (_, new) = changed(core, id, &updates)?;
    // The plugins saw only what the user wants to change, and a jobspec is made of all.
    let whole = JobDescriptor::from_jobspec(new.value());
    let rewritten = rewrite(&new, &whole, &overlaid(&whole, before, after))?;
    for (path, value) in &mut updates {
        *value = path::get(rewritten.value(), path).cloned().unwrap_or_default();
    }
    let wanted = |path: &str| updates.keys().any(|wanted| is_within(path, wanted));
    let differences = updates_between(new.value(), rewritten.value());
    let added = differences.into_iter().filter(|(path, _)| !wanted(path)).collect();
    Ok((updates, added))
}

/// Whether a path is this one or leads further into it.
fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Only the priority is what such a request is about.
fn rewrite_urgency(core: &mut Core, changes: Changes<'_>, id: JobId, urgency: Urgency) -> Urgency {
    let Some((before, after)) = changes else { return urgency };
    let others = JobDescriptor { priority: before.priority, ..after.clone() };
    if others != *before {
        let text = format!(
            "job {id}: slurm.job_modify: a request about the urgency can change the priority only; the \
             other changes of plugins are dropped"
        );
        core.log(Level::Warning, text);
    }
    new_urgency(before, after, urgency)
}

/// The jobspec of a job as it is, and as a user wants it.
fn changed(
    core: &Core,
    id: JobId,
    updates: &Map<String, Value>,
) -> Result<(Jobspec, Jobspec), RequestError> {
    let job = core.job(id).ok_or_else(|| invalid("unknown job id"))?;
    let old = job.jobspec().clone();
    let mut new = old.clone();
    new.update_all(updates).map_err(invalid)?;
    Ok((old, new))
}

/// Describes a jobspec of this user.
fn describe(jobspec: &Jobspec, user: Uid) -> JobDescriptor {
    JobDescriptor { user_id: user.as_u32(), ..JobDescriptor::from_jobspec(jobspec.value()) }
}

/// Brings the changes of a description into the jobspec.
fn rewrite(
    jobspec: &Jobspec,
    before: &JobDescriptor,
    after: &JobDescriptor,
) -> Result<Jobspec, RequestError> {
    let invalid =
        |error| invalid(format!("what plugins have made of the request is no valid job: {error}"));
    let document = apply_changes(before, after, jobspec.value()).map_err(invalid)?;
    match jobspec.is_validated() {
        true => Jobspec::from_value(document).map_err(invalid),
        false => Ok(Jobspec::unvalidated(document)),
    }
}

/// What differs of the second description, with all else unset: what the user wants to change.
fn differing(old: &JobDescriptor, new: &JobDescriptor) -> JobDescriptor {
    let old = fields(old);
    let differ = fields(new).into_iter().filter(|(name, value)| old.get(name) != Some(value));
    let mut all = fields(&unchanged());
    all.extend(differ);
    from_fields(all)
}

/// A description with the changes that were made to another one.
fn overlaid(whole: &JobDescriptor, before: &JobDescriptor, after: &JobDescriptor) -> JobDescriptor {
    let (mut whole, before) = (fields(whole), fields(before));
    let changed = |(name, value): &(String, Value)| before.get(name) != Some(value);
    whole.extend(fields(after).into_iter().filter(changed));
    from_fields(whole)
}

fn fields(descriptor: &JobDescriptor) -> Map<String, Value> {
    match serde_json::to_value(descriptor) {
        Ok(Value::Object(fields)) => fields,
        // Impossible: a description is written as an object.
        _ => Map::new(),
    }
}

fn from_fields(fields: Map<String, Value>) -> JobDescriptor {
    // The values were written from a description.
    serde_json::from_value(Value::Object(fields)).unwrap_or_default()
}
