//! The shadows in a dispatch: each is called just before the live plugin of its name, or else after all live plugins.

use super::call::{Charge, Topic, call};
use super::notes::record;
use crate::agenda::{Cause, Frame, Purpose, Queued, Subject};
use crate::core::Core;
use crate::dispatch::schemes;
use crate::host::{BoundHandler, Fault, Outcome};
use crate::job::{Job, JobId, Timestamp};
use crate::jobs::Jobs;
use crate::plugins::Plugins;
use crate::shadows::Shadows;
use crate::shadows::calls::{ShadowCall, ShadowCalls};
use crate::shadows::compare::{Compared, LiveTranscript, compare};
use crate::topic::{OnFailure, TopicId};
use crate::transcript::{Transcript, fault_text};

/// The shadows that this dispatch concerns; `None` when it concerns no shadow.
pub(crate) fn begin(
    shadows: &Shadows,
    frame: &Frame,
    live: &[BoundHandler],
) -> Option<Box<ShadowCalls>> {
    if shadows.is_empty() {
        return None;
    }
    let mut calls = ShadowCalls::default();
    for shadow in shadows.iter().filter(|shadow| shadow.stopped.is_none()) {
        let (topic, id) = (frame.topic, frame.job);
        if topic == TopicId::JobEvent && !shadow.jobs.get(&id).is_some_and(|job| job.subscribed) {
            continue;
        }
        if shadow.has_refused(id) {
            continue;
        }
        let handlers = match member(frame) {
            Some(member) => shadow.stack.members(topic, member, |_| true),
            None => shadow.stack.handlers(topic).cloned().unwrap_or_default(),
        };
        if handlers.is_empty() {
            continue;
        }
        let name = shadow.plugin.name();
        let place = live.iter().position(|bound| bound.instance().name() == name);
        let own = place.and_then(|place| live.get(place)).map(BoundHandler::plugin);
        let (key, place) = (shadow.key(), place.unwrap_or(live.len()));
        calls.shadows.push(ShadowCall { key, handlers, place, own, transcript: None });
    }
    (!calls.shadows.is_empty()).then(|| Box::new(calls))
}

/// The member of a family of topics that is called.
fn member(frame: &Frame) -> Option<&str> {
    match &frame.subject {
        Subject::Cause(Cause::Event(entry)) => Some(&entry.name),
        Subject::Dependency(dependency) => Some(&dependency.scheme),
        Subject::UpdateRequest(request) => Some(&request.key),
        Subject::Cause(_) | Subject::Node(_) => None,
    }
}

/// Calls the shadows whose turn it is.
pub(crate) fn call_due(core: &mut Core, frame: &mut Frame) {
    let Some(mut calls) = frame.shadow_calls.take() else { return };
    let next = frame.progress.next;
    for shadow_call in &mut calls.shadows {
        // If a live plugin has ended the dispatch, the shadows after it are not called.
        if shadow_call.transcript.is_some() || shadow_call.place > next || next == usize::MAX {
            continue;
        }
        let mut transcript = Transcript::default();
        for bound in shadow_call.handlers.iter() {
            let trial: Option<&Job> = frame.trial.as_deref();
            let (topic, job, detail) = (frame.topic, Some(frame.job), frame.detail());
            let topic = Topic { topic, trial, job, detail };
            if let Some(called) = call(core, bound, topic, Charge::Yes) {
                transcript.add(called.transcript);
            }
        }
        shadow_call.transcript = Some(transcript);
    }
    frame.shadow_calls = Some(calls);
}

impl ShadowCalls {
    /// Notes the outcome of a live handler.
    pub(crate) fn note_outcome(&mut self, bound: &BoundHandler, outcome: &Outcome, job: JobId) {
        let mut transcript = Transcript::default();
        transcript.add_outcome(outcome, Some(job));
        self.live.push(LiveTranscript { plugin: bound.plugin(), transcript });
    }

    /// Notes what the last live handler asked for, and how it has failed.
    pub(crate) fn note_rest(&mut self, commands: &[Queued], fault: Option<&Fault>) {
        let Some(last) = self.live.last_mut() else { return };
        last.transcript.failed = fault.map(fault_text);
        commands.iter().for_each(|queued| last.transcript.add_command(&queued.command));
    }
}

impl Transcript {
    /// Adds the transcript of another handler of the same plugin.
    fn add(&mut self, later: Transcript) {
        self.failed = self.failed.take().or(later.failed);
        self.deferred |= later.deferred;
        if later.priority != Default::default() {
            self.priority = later.priority;
        }
        self.actions.extend(later.actions);
    }
}

/// Compares the answers of the shadows with those of the live plugins, once all of these were called.
pub(crate) fn finish(now: Timestamp, jobs: &Jobs, plugins: &mut Plugins, frame: &mut Frame) {
    let Some(calls) = frame.shadow_calls.take() else { return };
    let ShadowCalls { shadows, live } = *calls;
    let is_gate = matches!(frame.purpose, Purpose::Gate(_) | Purpose::Update);
    let is_gate = is_gate && frame.topic.on_failure() == OnFailure::Reject;
    let topic = frame.full_topic();
    let fixed_priority =
        jobs.job(frame.job).is_some_and(|job| job.kept().urgency.forced_priority().is_some());
    for shadow_call in shadows {
        let Some(transcript) = shadow_call.transcript else { continue };
        let unsupported = (is_gate && shadow_call.own.is_none())
            .then(|| unsupported(plugins, frame))
            .flatten()
            .filter(|_| shadow_call.handlers.iter().any(|bound| !bound.only_observes()));
        let comparison = compare(&Compared {
            job: Some(frame.job),
            live: &live,
            own: shadow_call.own,
            shadow: &transcript,
            is_gate,
            unsupported,
            fixed_priority,
        });
        let Some(shadow) = plugins.shadows.get_mut(shadow_call.key) else { continue };
        shadow.findings.compared += 1;
        shadow.findings.different += u64::from(!comparison.differences.is_empty());
        shadow.findings.undecided += u64::from(comparison.undecided);
        if matches!(frame.purpose, Purpose::Gate(_)) && is_gate && transcript.failed.is_some() {
            shadow.on_job(frame.job).refused = true;
        }
        record(now, jobs, &mut plugins.shadows, shadow_call.key, &topic, comparison.differences);
    }
}

/// The refusal of something that no live plugin supports.
fn unsupported(plugins: &Plugins, frame: &Frame) -> Option<String> {
    match &frame.subject {
        Subject::Dependency(dependency) if frame.progress.deciders == 0 => {
            Some(schemes::unsupported(plugins, &dependency.scheme))
        }
        _ => None,
    }
}
