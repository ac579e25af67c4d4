//! What clients ask for beside submissions: exceptions, signals, urgency, memos, scheduling.

use serde_json::{Map, Value, json};

use super::api::{Cred, Exception, ReplyTo, Request, RequestError};
use super::record::{Exec, Record};
use super::{Effect, Engine, ExecCommand, events};
use crate::job::{JobId, Signal, State, StateSet, Uid, Urgency};

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EINVAL: i32 = 22;
const EPROTO: i32 = 71;

/// Bytes of JSON that one memo, and all notes of users on one job together, may have: they stay in memory and
/// in each listing as long as the job.
const MAX_MEMO: usize = 64 * 1024;

/// Refuses a memo that is too long, or with which the notes of users on its job would be.
fn check_memo(
    annotations: &Map<String, Value>,
    memo: &Map<String, Value>,
) -> Result<(), RequestError> {
    let mut notes = annotations.get("user").and_then(Value::as_object).cloned().unwrap_or_default();
    super::annotations::merge(&mut notes, memo);
    for (what, notes) in [("it", memo), ("the memo of the job", &notes)] {
        let length = json!(notes).to_string().len();
        if length > MAX_MEMO {
            let text = format!("memo: {what} would have {length} bytes, {MAX_MEMO} are allowed");
            return Err(refused(EINVAL, text));
        }
    }
    Ok(())
}

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
            Request::PurgeId { .. } | Request::Purge { .. } => self.purge_request(cred, &request),
            Request::Wait { .. } | Request::Drain | Request::Idle => {
                return self.waiting_request(reply, cred, &request);
            }
            Request::Update { id, updates } => {
                return self.update_request(reply, cred, id, updates);
            }
            Request::Service { topic, payload, streaming } => {
                return self.service_request(reply, cred, &topic, payload, streaming);
            }
            Request::Nodes(request) => return self.node_request(reply, cred, request),
            Request::Raise { id, exception } => {
                self.raise_request(cred, id, &exception).map(|()| json!({}))
            }
            Request::RaiseAll { dry_run, userid, states, exception } => {
                self.raise_all(cred, dry_run, userid, states, &exception)
            }
            Request::Kill { id, signum } => self.kill(cred, id, signum).map(|()| json!({})),
            Request::Override { id, event, status } => {
                self.override_simulation(cred, id, &event, status).map(|()| json!({}))
            }
            Request::KillAll { dry_run, userid, signum } => {
                self.kill_all(cred, dry_run, userid, signum)
            }
            Request::Memo { id, volatile, memo } => {
                self.memo(cred, id, volatile, memo).map(|()| json!({}))
            }
            Request::Urgency { id, urgency } => {
                self.set_urgency(cred, id, urgency).map(|old| json!({ "old_urgency": old.value() }))
            }
            Request::QueueEnable { target, enable, reason } => {
                self.enable_queue(cred, &target, enable, reason.as_deref())
            }
            Request::QueueStart { target, start, reason, nocheckpoint } => {
                self.start_queue(cred, &target, start, reason.as_deref(), nocheckpoint)
            }
        };
        self.reply(reply, result);
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
    ) -> Result<Value, RequestError> {
        let severity = check_exception(exception)?;
        if !cred.owner && userid != Some(cred.userid) {
            let text = "guests can only raise exceptions on their own jobs";
            return Err(refused(EPERM, text));
        }
        let ids = self.matching(states, userid);
        if !dry_run {
            // One job's end may already end another that waits for it.
            for id in ids.iter().rev() {
                self.post_exception(cred.userid, *id, severity, exception);
            }
        }
        Ok(json!({ "count": ids.len(), "errors": 0 }))
    }

    /// The active jobs in these states, of this user or of all.
    fn matching(&self, states: StateSet, userid: Option<Uid>) -> Vec<JobId> {
        let matches = |id: &&JobId| {
            self.jobs.get(id).is_some_and(|record| {
                record.unaccepted.is_none()
                    && states.contains(record.job.state)
                    && userid.is_none_or(|userid| record.job.userid == userid)
            })
        };
        self.active.iter().filter(matches).copied().collect()
    }

    fn kill(&mut self, cred: Cred, id: JobId, signum: i64) -> Result<(), RequestError> {
        let signum = check_signal(signum)?;
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
        self.signal(id, signum);
        Ok(())
    }

    fn kill_all(
        &mut self,
        cred: Cred,
        dry_run: bool,
        userid: Option<Uid>,
        signum: i64,
    ) -> Result<Value, RequestError> {
        let signum = check_signal(signum)?;
        if !cred.owner && userid != Some(cred.userid) {
            return Err(refused(EPERM, "guests can only kill their own jobs"));
        }
        let ids = self.matching(StateSet::RUNNING, userid);
        if !dry_run {
            for id in &ids {
                self.signal(*id, signum);
            }
        }
        Ok(json!({ "count": ids.len(), "errors": 0 }))
    }

    /// Sends a signal to the tasks of a job, if it has any.
    pub(super) fn signal(&mut self, id: JobId, signum: i32) {
        let has_tasks = |record: &Record| {
            matches!(record.exec, Exec::Open | Exec::Ending) && record.simulated.is_none()
        };
        if self.jobs.get(&id).is_some_and(has_tasks) {
            self.effects.after.push(Effect::Exec(ExecCommand::Signal { id, signum }));
        }
    }

    fn memo(
        &mut self,
        cred: Cred,
        id: JobId,
        volatile: bool,
        memo: Map<String, Value>,
    ) -> Result<(), RequestError> {
        let record = self.known(id, ENOENT, "unknown job id")?;
        if record.job.state == State::Inactive {
            return Err(refused(ENOENT, "job is inactive"));
        }
        if !cred.owner && record.job.userid != cred.userid {
            return Err(refused(EPERM, "guests can only add a memo to their own jobs"));
        }
        check_memo(&record.job.annotations, &memo)?;
        if volatile {
            let notes = [("user".to_owned(), Value::Object(memo))].into_iter().collect();
            self.annotate(id, &notes, true);
        } else {
            self.post(id, events::given(self.now, "memo", Some(memo)));
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
}

pub(super) fn owner_only(cred: Cred) -> Result<(), RequestError> {
    if cred.owner { Ok(()) } else { Err(refused(EPERM, "Request requires owner credentials")) }
}

fn check_signal(signum: i64) -> Result<i32, RequestError> {
    let signal = Signal::from_number(signum);
    let signal = signal.ok_or_else(|| refused(EINVAL, "Invalid signal number"))?;
    let sendable = signal.sendable().map_err(|error| refused(EINVAL, error.to_string()))?;
    Ok(sendable.number())
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
