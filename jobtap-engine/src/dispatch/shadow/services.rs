//! Requests for the service of a live plugin, which a shadow of its name sees too. Only the live plugin responds.

use std::cell::Cell;

use super::call::{Charge, Topic, call};
use super::notes::record;
use crate::core::Core;
use crate::dispatch::call::Called;
use crate::host::{BoundHandler, Detail, PluginKey, ServiceRequest};
use crate::job::Timestamp;
use crate::jobs::Jobs;
use crate::shadows::Shadows;
use crate::shadows::compare::{Compared, LiveTranscript, compare};
use crate::topic::TopicId;
use crate::transcript::{Transcript, fault_text};

/// What a shadow has answered to a request.
pub(crate) struct Answered {
    key: PluginKey,
    transcript: Transcript,
}

/// Shows a request to the shadow of this plugin's name, if there is one.
pub(crate) fn show(
    core: &mut Core,
    live: &BoundHandler,
    request: &ServiceRequest,
) -> Option<Answered> {
    let shadow = core.plugins.shadows.find(live.instance().name())?;
    let key = shadow.key();
    let same = |bound: &&BoundHandler| {
        (bound.entry().topic, bound.entry().key) == (live.entry().topic, live.entry().key)
    };
    let handlers = shadow.stack.handlers(TopicId::Unlisted)?;
    let bound = handlers.iter().find(same)?.clone();
    let ServiceRequest { cred, to, streaming, .. } = *request;
    let payload = request.payload.clone();
    let copy = ServiceRequest { cred, payload, to, streaming, taken: Cell::new(false) };
    let detail = Detail::Request(&copy);
    let topic = Topic { topic: TopicId::Unlisted, trial: None, job: None, detail };
    let transcript = call(core, &bound, topic, Charge::Yes)?.transcript;
    Some(Answered { key, transcript })
}

/// Compares the shadow's answer with that of the live plugin.
pub(crate) fn finish(
    now: Timestamp,
    jobs: &Jobs,
    shadows: &mut Shadows,
    answered: Option<Answered>,
    live: &BoundHandler,
    called: &Called,
) {
    let Some(Answered { key, transcript: shadow }) = answered else { return };
    let mut transcript = Transcript::default();
    match &called.result {
        Ok(outcome) => transcript.add_outcome(outcome, None),
        Err(fault) => transcript.failed = Some(fault_text(fault)),
    }
    called.commands.iter().for_each(|queued| transcript.add_command(&queued.command));
    let comparison = compare(&Compared {
        job: None,
        live: &[LiveTranscript { plugin: live.plugin(), transcript }],
        own: Some(live.plugin()),
        shadow: &shadow,
        is_gate: true,
        unsupported: None,
        fixed_priority: true,
    });
    let Some(shadow) = shadows.get_mut(key) else { return };
    shadow.findings.compared += 1;
    shadow.findings.different += u64::from(!comparison.differences.is_empty());
    let topic = format!("service {}", live.entry().key);
    record(now, jobs, shadows, key, topic.trim_end(), comparison.differences);
}
