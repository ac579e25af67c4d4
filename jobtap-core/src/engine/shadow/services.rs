//! Requests for the service of a live plugin, which a shadow of its name sees too. The live plugin answers.

use std::cell::Cell;

use super::call::{Charge, Topic, call};
use super::compare::{Compared, LiveAnswer, compare};
use super::notes::record;
use crate::engine::agenda::Queued;
use crate::engine::core::Core;
use crate::engine::dispatch::answer::{Answer, fault_text};
use crate::host::{BoundHandler, Detail, Fault, Outcome, PluginKey, ServiceRequest};
use crate::topic::TopicId;

/// What a shadow has answered to a request.
pub(in crate::engine) struct Answered {
    key: PluginKey,
    answer: Answer,
}

/// Shows a request to the shadow of this plugin's name, if there is one.
pub(in crate::engine) fn show(
    core: &mut Core,
    live: &BoundHandler,
    request: &ServiceRequest,
) -> Option<Answered> {
    let shadow = core.plugins.shadows.find(live.instance().name())?;
    let key = shadow.key();
    let same = |bound: &&BoundHandler| {
        (bound.entry().topic, bound.entry().key) == (live.entry().topic, live.entry().key)
    };
    let handlers = shadow.stack.handlers(TopicId::Own)?;
    let bound = handlers.iter().find(same)?.clone();
    let ServiceRequest { cred, to, streaming, .. } = *request;
    let payload = request.payload.clone();
    let copy = ServiceRequest { cred, payload, to, streaming, taken: Cell::new(false) };
    let detail = Detail::Request(&copy);
    let topic = Topic { topic: TopicId::Own, trial: None, job: None, detail };
    let answer = call(core, &bound, topic, Charge::Yes)?.answer;
    Some(Answered { key, answer })
}

/// Compares its answer with that of the live plugin.
pub(in crate::engine) fn finish(
    core: &mut Core,
    answered: Option<Answered>,
    live: &BoundHandler,
    (result, commands): (&Result<Outcome, Fault>, &[Queued]),
) {
    let Some(Answered { key, answer: shadow }) = answered else { return };
    let mut answer = Answer::default();
    match result {
        Ok(outcome) => answer.add_outcome(outcome, None),
        Err(fault) => answer.failed = Some(fault_text(fault)),
    }
    commands.iter().for_each(|queued| answer.add_command(&queued.command));
    let comparison = compare(&Compared {
        job: None,
        live: &[LiveAnswer { plugin: live.plugin(), answer }],
        own: Some(live.plugin()),
        shadow: &shadow,
        is_gate: true,
        unsupported: None,
        fixed_priority: true,
    });
    let now = core.clock.now;
    let Some(shadow) = core.plugins.shadows.get_mut(key) else { return };
    shadow.record.compared += 1;
    shadow.record.different += u64::from(!comparison.differences.is_empty());
    let topic = format!("service {}", live.entry().key);
    record(core, key, topic.trim_end(), comparison.differences, now);
}
