//! Changes of a jobspec that users ask for: `job-manager.update`.
//!
//! Each key goes to the plugins that decide about it, then the changed jobspec through
//! `job.validate` and a check of feasibility as far as they want it. All keys are changed or none.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use super::frames::{Frame, Given, Then};
use super::requests::refused;
use super::{Cred, Engine, ReplyTo, RequestError, events};
use crate::eventlog::EventEntry;
use crate::host::{Bound, JobFlag, UpdateRequest};
use crate::job::{Job, JobId, State};
use crate::jobspec::path;
use crate::topic::TopicId;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EINVAL: i32 = 22;

/// The path whose change means a new end for a job that runs.
const DURATION: &str = "attributes.system.duration";

/// A request on its way.
#[derive(Debug)]
pub(super) struct Updating {
    reply: ReplyTo,
    cred: Cred,
    id: JobId,
    updates: Map<String, Value>,
    /// Keys that are still to be asked about.
    left: VecDeque<String>,
    /// Changes that plugins added.
    further: Map<String, Value>,
    /// All keys so far need no `job.validate`.
    validated: bool,
    feasibility: bool,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Keys,
    Validate,
}

impl Engine {
    pub(super) fn update_request(
        &mut self,
        reply: ReplyTo,
        cred: Cred,
        id: JobId,
        updates: Map<String, Value>,
    ) {
        if let Err(error) = self.may_update(cred, id, &updates) {
            return self.reply(reply, Err(error));
        }
        let left = updates.keys().cloned().collect();
        self.next_update(Box::new(Updating {
            reply,
            cred,
            id,
            updates,
            left,
            further: Map::new(),
            validated: true,
            feasibility: false,
            stage: Stage::Keys,
        }));
    }

    fn may_update(
        &self,
        cred: Cred,
        id: JobId,
        updates: &Map<String, Value>,
    ) -> Result<(), RequestError> {
        if updates.keys().any(|path| !path::is_updatable(path)) {
            return Err(refused(EINVAL, "one or more jobspec updates are invalid"));
        }
        let record = self.known(id, ENOENT, "unknown job id")?;
        if record.job.state == State::Inactive {
            return Err(refused(EINVAL, "job is inactive"));
        }
        if !cred.owner && record.job.userid != cred.userid {
            return Err(refused(EPERM, "guests may only update their own jobs"));
        }
        if !cred.owner && record.immutable {
            let text = "job is immutable due to previous instance owner update";
            return Err(refused(EPERM, text));
        }
        Ok(())
    }

    /// Asks about the next key, then about the whole.
    fn next_update(&mut self, mut updating: Box<Updating>) {
        let id = updating.id;
        let Some(key) = updating.left.pop_front() else {
            return self.check_updated(updating);
        };
        let topic = TopicId::JobUpdateKey;
        let handlers = self.plugins.stack.members(topic, &key, |_| true);
        if handlers.iter().all(Bound::watches) {
            let text = format!("update of {key} not supported");
            return self.reply(updating.reply, Err(refused(EINVAL, text)));
        }
        let value = updating.updates.get(&key).cloned().unwrap_or_default();
        let given = Given::UpdateRequest(UpdateRequest { cred: updating.cred, key, value });
        let updating = Some(updating);
        let frame = Frame { given, updating, ..Frame::new(topic, id, Then::Update) };
        self.stack_frame_of(frame, handlers);
    }

    /// All handlers of a key, or of `job.validate`, were called.
    pub(super) fn update_ended(&mut self, mut frame: Frame) {
        let Some(mut updating) = frame.updating.take() else {
            return;
        };
        if let Some(text) = frame.refusal {
            let text = match (text.is_empty(), updating.stage) {
                (false, _) => text,
                (true, _) => "update rejected by job-manager plugin".to_owned(),
            };
            return self.reply(updating.reply, Err(refused(EINVAL, text)));
        }
        if !frame.awaited.is_empty() {
            let id = frame.job;
            if self.suspended.contains_key(&id) {
                let text = "another update of this job waits for its validation";
                return self.reply(updating.reply, Err(refused(EINVAL, text)));
            }
            frame.updating = Some(updating);
            self.suspended.insert(id, frame);
            return;
        }
        if updating.stage == Stage::Validate {
            return self.apply_update(*updating);
        }
        let update = frame.progress.outcome.decisions().update.unwrap_or_default();
        updating.validated &= update.validated;
        updating.feasibility |= update.feasibility;
        updating.further.extend(update.further);
        self.next_update(updating);
    }

    /// The jobspec as it would be.
    fn check_updated(&mut self, mut updating: Box<Updating>) {
        let further = std::mem::take(&mut updating.further);
        updating.updates.extend(further);
        let trial = match self.trial(updating.id, &updating.updates) {
            Ok(trial) => trial,
            Err(error) => return self.reply(updating.reply, Err(error)),
        };
        if updating.feasibility
            && let Err(text) = self.pool.feasible(trial.jobspec())
        {
            return self.reply(updating.reply, Err(refused(EINVAL, text)));
        }
        if updating.validated {
            return self.apply_update(*updating);
        }
        updating.stage = Stage::Validate;
        let id = updating.id;
        let frame = Frame::new(TopicId::JobValidate, id, Then::Update);
        let (trial, updating) = (Some(Box::new(trial)), Some(updating));
        self.stack_frame(Frame { trial, updating, ..frame });
    }

    fn trial(&self, id: JobId, updates: &Map<String, Value>) -> Result<Job, RequestError> {
        let job = &self.known(id, ENOENT, "unknown job id")?.job;
        let mut jobspec = job.jobspec.clone();
        let changed = jobspec.update_all(updates);
        changed.map_err(|error| refused(EINVAL, error.to_string()))?;
        Ok(job.with_jobspec(jobspec))
    }

    /// Posts what was agreed to.
    fn apply_update(&mut self, updating: Updating) {
        let Updating { reply, cred, id, updates, validated, .. } = updating;
        if let Err(error) = self.may_update(cred, id, &updates) {
            // It went on while the answer was waited for.
            return self.reply(reply, Err(error));
        }
        let expiration = match self.new_expiration(id, &updates) {
            Ok(expiration) => expiration,
            Err(error) => return self.reply(reply, Err(error)),
        };
        let guest = self.seen(id).is_some_and(|job| job.userid() != cred.userid);
        if cred.owner && guest && validated {
            self.post(id, events::set_flags(self.now, JobFlag::Immutable.name()));
        }
        let name = "jobspec-update".into();
        self.post(id, EventEntry { timestamp: self.now, name, context: Some(updates) });
        if let Some(expiration) = expiration {
            let context = [("expiration", json!(expiration))];
            self.post(id, events::with(self.now, "resource-update", context));
        }
        self.reply(reply, Ok(json!({})));
    }

    /// When a job that runs ends by its new duration; `None` when nothing changes for it.
    fn new_expiration(
        &self,
        id: JobId,
        updates: &Map<String, Value>,
    ) -> Result<Option<f64>, RequestError> {
        let Some(duration) = updates.get(DURATION) else {
            return Ok(None);
        };
        let record = self.known(id, ENOENT, "unknown job id")?;
        if !matches!(record.job.state, State::Run | State::Cleanup) {
            return Ok(None);
        }
        let start = record.job.resources().and_then(|resources| resources.starttime());
        let start = start.ok_or_else(|| refused(EINVAL, "unable to get job starttime"))?;
        let duration = duration.as_f64().unwrap_or(0.0);
        if duration == 0.0 {
            self.stays_out_of_maintenance(record, f64::INFINITY)?;
            return Ok(Some(0.0));
        }
        let expiration = start + duration;
        if expiration < self.now.as_secs() {
            let text = "requested duration places job expiration in the past";
            return Err(refused(EINVAL, text));
        }
        self.stays_out_of_maintenance(record, expiration)?;
        Ok(Some(expiration))
    }

    /// The end of a job's time has moved.
    pub(super) fn rearm_expiry(&mut self, id: JobId) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        let (timer, start) = (record.expiry.take(), record.times.start.get());
        self.stop_timer(timer);
        if let Some(start) = start {
            self.arm_expiry(id, start);
        }
    }
}
