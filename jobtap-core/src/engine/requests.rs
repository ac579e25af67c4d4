//! What clients ask for beside submissions: exceptions, signals, urgency, scheduling, plugins.

use serde_json::json;

use super::api::{Cred, Exception, ReplyTo, Request, RequestError};
use super::notices::Cause;
use super::record::{Exec, Record};
use super::work::Work;
use super::{Effect, Engine, ExecCommand, Write, events};
use crate::job::{JobId, State, StateSet, Uid, Urgency};
use crate::topic::TopicId;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EINVAL: i32 = 22;
const EPROTO: i32 = 71;

/// The highest signal number of this platform's kind (Linux), inclusive.
const SIGNALS: std::ops::RangeInclusive<i64> = 1..=64;

pub(super) fn refused(errno: i32, text: impl Into<String>) -> RequestError {
    RequestError { errno, text: text.into() }
}

impl Engine {
    /// [`Input::Request`](super::Input::Request).
    pub(super) fn request(&mut self, reply: ReplyTo, cred: Cred, request: Request) {
        let result = match request {
            Request::Submit(submission) => return self.submit(reply, cred, *submission),
            Request::Plugins { .. }
            | Request::PluginReload { .. }
            | Request::PluginQuery { .. }
            | Request::Configure { .. } => {
                return match owner_only(cred) {
                    Ok(()) => self.plugins_request(reply, request),
                    Err(error) => self.reply(reply, Err(error)),
                };
            }
            Request::PurgeId { id } => {
                owner_only(cred).and_then(|()| self.purge(id)).map(|()| json!({ "count": 1 }))
            }
            Request::Update { id, updates } => {
                return self.update_request(reply, cred, id, updates);
            }
            Request::Service { topic, payload, streaming } => {
                return self.service_request(reply, cred, &topic, payload, streaming);
            }
            Request::Raise { id, exception } => {
                self.raise_request(cred, id, &exception).map(|()| json!({}))
            }
            Request::RaiseAll { dry_run, userid, states, exception } => {
                self.raise_all(cred, dry_run, userid, states, &exception)
            }
            Request::Kill { id, signum } => self.kill(cred, id, signum).map(|()| json!({})),
            Request::Urgency { id, urgency } => {
                self.set_urgency(cred, id, urgency).map(|old| json!({ "old_urgency": old.value() }))
            }
            Request::QueueStart { start, reason } => owner_only(cred).map(|()| {
                self.scheduling.stopped = !start;
                self.scheduling.reason = reason.filter(|_| !start);
                // What was acknowledged outlives a crash.
                let checkpoint = self.checkpoint();
                self.effects.writes.extend(checkpoint);
                json!({})
            }),
            Request::QueueStatus => Ok(self.queue_status()),
        };
        self.reply(reply, result);
    }

    /// Forgets an inactive job, once the plugins have heard of it.
    fn purge(&mut self, id: JobId) -> Result<(), RequestError> {
        let record = self.known(id, ENOENT, "id not found")?;
        if record.job.state != State::Inactive {
            return Err(refused(EINVAL, "cannot purge active job"));
        }
        self.tally_purged();
        self.effects.writes.push(Write::Remove { id });
        self.work.push(Work::Forget(id));
        self.notify(TopicId::JobInactiveRemove, id, Cause::None);
        Ok(())
    }

    fn raise_request(
        &mut self,
        cred: Cred,
        id: JobId,
        exception: &Exception,
    ) -> Result<(), RequestError> {
        let severity = check_exception(exception)?;
        let record = self.known(id, ENOENT, "unknown job id")?;
        if record.job.state == State::Inactive {
            return Err(refused(ENOENT, "job is inactive"));
        }
        if !cred.owner && record.job.userid != cred.userid {
            let text = "guests can only raise exceptions on their own jobs";
            return Err(refused(EPERM, text));
        }
        self.post_exception(cred.userid, id, severity, exception);
        Ok(())
    }

    /// A job that clients can know of.
    pub(super) fn known(&self, id: JobId, errno: i32, text: &str) -> Result<&Record, RequestError> {
        match self.jobs.get(&id) {
            Some(record) if record.unaccepted.is_none() => Ok(record),
            _ => Err(refused(errno, text)),
        }
    }

    fn post_exception(&mut self, userid: Uid, id: JobId, severity: u8, exception: &Exception) {
        let note = &exception.note;
        let entry = events::exception(self.now, &exception.kind, severity, note, userid);
        self.post(id, entry);
    }

    fn raise_all(
        &mut self,
        cred: Cred,
        dry_run: bool,
        userid: Option<Uid>,
        states: StateSet,
        exception: &Exception,
    ) -> Result<serde_json::Value, RequestError> {
        let severity = check_exception(exception)?;
        if !cred.owner && userid != Some(cred.userid) {
            let text = "guests can only raise exceptions on their own jobs";
            return Err(refused(EPERM, text));
        }
        let matches = |id: &&JobId| {
            self.jobs.get(id).is_some_and(|record| {
                record.unaccepted.is_none()
                    && states.contains(record.job.state)
                    && userid.is_none_or(|userid| record.job.userid == userid)
            })
        };
        let ids: Vec<JobId> = self.active.iter().filter(matches).copied().collect();
        if !dry_run {
            // One job's end may already end another that waits for it.
            for id in ids.iter().rev() {
                self.post_exception(cred.userid, *id, severity, exception);
            }
        }
        Ok(json!({ "count": ids.len(), "errors": 0 }))
    }

    fn kill(&mut self, cred: Cred, id: JobId, signum: i64) -> Result<(), RequestError> {
        if !SIGNALS.contains(&signum) {
            return Err(refused(EINVAL, "Invalid signal number"));
        }
        let record = self.known(id, EINVAL, "unknown job id")?;
        if record.job.state == State::Inactive {
            return Err(refused(EINVAL, "job is inactive"));
        }
        if !cred.owner && record.job.userid != cred.userid {
            return Err(refused(EPERM, "guests may only send signals to their own jobs"));
        }
        if !matches!(record.job.state, State::Run | State::Cleanup) {
            return Err(refused(EINVAL, "job is not running"));
        }
        let executing = matches!(record.exec, Exec::Open | Exec::Ending);
        if executing && record.simulated.is_none() {
            let signum = i32::try_from(signum).unwrap_or(0);
            self.effects.after.push(Effect::Exec(ExecCommand::Signal { id, signum }));
        }
        Ok(())
    }

    fn set_urgency(&mut self, cred: Cred, id: JobId, value: i64) -> Result<Urgency, RequestError> {
        let urgency =
            Urgency::new(value).map_err(|_| refused(EINVAL, "urgency value is out of range"))?;
        let record = self.known(id, EINVAL, "unknown job")?;
        let old = record.job.urgency;
        if record.job.state == State::Inactive {
            return Err(refused(EINVAL, "job is inactive"));
        }
        if !cred.owner && record.job.userid != cred.userid {
            return Err(refused(EPERM, "guests can only reprioritize their own jobs"));
        }
        if !cred.owner && urgency > old.max(Urgency::DEFAULT) {
            return Err(refused(EPERM, "guests can only adjust urgency <= default"));
        }
        if record.holds || matches!(record.job.state, State::Run | State::Cleanup) {
            let text = "urgency cannot be changed once resources are allocated";
            return Err(refused(EINVAL, text));
        }
        self.post(id, events::urgency(self.now, cred.userid, urgency));
        Ok(old)
    }

    fn queue_status(&self) -> serde_json::Value {
        let mut status = json!({ "enable": true, "start": !self.scheduling.stopped });
        if let (Some(reason), Some(table)) = (&self.scheduling.reason, status.as_object_mut()) {
            table.insert("stop_reason".to_owned(), json!(reason));
        }
        status
    }
}

pub(super) fn owner_only(cred: Cred) -> Result<(), RequestError> {
    if cred.owner { Ok(()) } else { Err(refused(EPERM, "Request requires owner credentials")) }
}

/// Severity and type as RFC 21 has them.
fn check_exception(exception: &Exception) -> Result<u8, RequestError> {
    let severity = u8::try_from(exception.severity)
        .ok()
        .filter(|severity| *severity <= 7)
        .ok_or_else(|| refused(EPROTO, "invalid exception severity"))?;
    let kind = &exception.kind;
    if kind.is_empty() || kind.contains(|c: char| c == '=' || c.is_whitespace()) {
        return Err(refused(EPROTO, "invalid exception type"));
    }
    Ok(severity)
}
