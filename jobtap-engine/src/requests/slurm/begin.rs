//! Asks plugins about a request.

use serde_json::{Map, Value};

use super::{changed, fields, from_fields};
use crate::agenda::{Agenda, Chain, ChainPurpose, Progress};
use crate::api::{Cred, Effect, ReplyTo, Requester, Submission};
use crate::arrays::Array;
use crate::core::Core;
use crate::dispatch::chains;
use crate::host::{Handlers, SlurmRequest};
use crate::job::{Flags, JobId, Uid, Urgency};
use crate::jobspec::Jobspec;
use crate::jobspec::path::remove;
use crate::plugins::Plugins;
use crate::queue::Queues;
use crate::requests::access;
use crate::slurm::{
    INFINITE, JobDescriptor, NO_VAL, NO_VAL16, USE_DEFAULT_ACCT, USE_DEFAULT_PART, USE_DEFAULT_QOS,
    USE_DEFAULT_WCKEY,
};
use crate::submissions::users::Unasked;
use crate::topic::TopicId;

/// Asks the plugins about a submission.
pub(crate) fn begin_submit(
    core: &mut Core,
    reply: ReplyTo,
    cred: Cred,
    submission: Box<Submission>,
    urgency: Urgency,
    flags: Flags,
) {
    let mut descriptor = describe(&submission.jobspec, cred.userid);
    descriptor.set_urgency(urgency);
    let purpose = ChainPurpose::Submit { submission, urgency, flags };
    let (topic, user) = (TopicId::SlurmJobSubmit, cred.userid);
    begin(core, Unasked { topic, reply, cred, user, descriptor, purpose });
}

/// Asks the plugins about a change to a jobspec.
pub(crate) fn begin_update(
    core: &mut Core,
    reply: ReplyTo,
    cred: Cred,
    id: JobId,
    updates: Map<String, Value>,
) {
    match changed(&core.jobs, id, &updates) {
        Ok((old, new)) => {
            let described = |jobspec: &Value| JobDescriptor::from_jobspec(jobspec);
            let after = described(new.value());
            let mut descriptor = differing(&described(old.value()), &after);
            // The description has what the user names, even if the job has the same value already.
            let mut rest = new.value().clone();
            updates.keys().for_each(|key| remove(&mut rest, key));
            let named = fields(&differing(&described(&rest), &after));
            let mut all = fields(&descriptor);
            let unset = fields(&unchanged());
            all.extend(named.into_iter().filter(|(name, value)| unset.get(name) != Some(value)));
            descriptor = from_fields(all);
            if new.duration() == 0.0 && old.duration() != 0.0 {
                // Asking for no time limit is more than asking for nothing.
                descriptor.time_limit = Some(INFINITE);
            }
            let purpose = ChainPurpose::Update { id, updates };
            begin_modify(core, reply, cred, id, descriptor, purpose);
        }
        Err(error) => core.turn.effects.reply(reply, Err(error)),
    }
}

/// Asks the plugins about a change of the urgency.
pub(crate) fn begin_urgency(
    core: &mut Core,
    reply: ReplyTo,
    cred: Cred,
    id: JobId,
    urgency: Urgency,
) {
    let priority = Some(urgency.value().into());
    let descriptor = JobDescriptor { priority, ..unchanged() };
    let purpose = ChainPurpose::Urgency { id, urgency };
    begin_modify(core, reply, cred, id, descriptor, purpose);
}

/// Takes a request about the urgency of an array to the plugins. They see it as one about the job that was made last.
pub(crate) fn begin_array_urgency(
    core: &mut Core,
    reply: ReplyTo,
    cred: Cred,
    array: JobId,
    urgency: Urgency,
) {
    let shown = core.arrays.get(array).and_then(Array::last_job).unwrap_or(array);
    let priority = Some(urgency.value().into());
    let descriptor = JobDescriptor { priority, ..unchanged() };
    let purpose = ChainPurpose::ArrayUrgency { array, shown, urgency };
    begin_modify(core, reply, cred, shown, descriptor, purpose);
}

/// Asks the plugins about a change. Its description names the job's owner as its user, even when another user requests
/// the change.
fn begin_modify(
    core: &mut Core,
    reply: ReplyTo,
    cred: Cred,
    id: JobId,
    descriptor: JobDescriptor,
    purpose: ChainPurpose,
) {
    let user = core.jobs.job(id).map_or(cred.userid, |job| job.userid());
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

/// Asks the plugins at once, or once the system has been asked about the user.
fn begin(core: &mut Core, request: Unasked) {
    let user = request.user;
    match core.submissions.users.known(user, core.turn.clock.now) {
        Some(requester) => {
            ask(&mut core.turn.agenda, &mut core.plugins, &core.alloc.queues, request, &requester)
        }
        None => {
            if core.submissions.users.wait(request) {
                core.turn.effects.after.push(Effect::LookUp { user });
            }
        }
    }
}

/// Asks the plugins about the requests that have waited for what the system knows about their user.
pub(crate) fn identified(core: &mut Core, user: Uid, requester: Requester) {
    let waiting = core.submissions.users.learn(user, requester.clone(), core.turn.clock.now);
    // The agenda is a stack: the first request is pushed last.
    for request in waiting.into_iter().rev() {
        ask(&mut core.turn.agenda, &mut core.plugins, &core.alloc.queues, request, &requester);
    }
}

fn ask(
    agenda: &mut Agenda,
    plugins: &mut Plugins,
    queues: &Queues,
    request: Unasked,
    requester: &Requester,
) {
    let Unasked { topic, reply, cred, user: _, mut descriptor, purpose } = request;
    descriptor.user_name.clone_from(&requester.name);
    if topic == TopicId::SlurmJobSubmit {
        descriptor.group_id = requester.group.unwrap_or(0);
    }
    descriptor.alloc_node.clone_from(&requester.host);
    let handlers = plugins.stack.handlers(topic).map(Handlers::clone).unwrap_or_default();
    let before = Box::new(descriptor.clone());
    let mut request = SlurmRequest::new(plugins.next_request(), cred.userid, descriptor);
    if !cred.owner {
        let hidden = queues.iter().filter(|queue| !access::allows(*queue, requester));
        request.hidden_queues =
            hidden.filter_map(|queue| queue.name()).map(str::to_owned).collect();
    }
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
    chains::begin(agenda, plugins, chain);
}

/// Describes a jobspec of this user.
fn describe(jobspec: &Jobspec, user: Uid) -> JobDescriptor {
    JobDescriptor { user_id: user.as_u32(), ..JobDescriptor::from_jobspec(jobspec.value()) }
}

/// The fields of the second description that differ from the first, with all others unset: what the user wants to
/// change.
fn differing(old: &JobDescriptor, new: &JobDescriptor) -> JobDescriptor {
    let old = fields(old);
    let differ = fields(new).into_iter().filter(|(name, value)| old.get(name) != Some(value));
    let mut all = fields(&unchanged());
    all.extend(differ);
    from_fields(all)
}
