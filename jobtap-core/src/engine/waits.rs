//! Requests that are answered once something has come about: the end of a waitable job, no active
//! job, no running job.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::Engine;
use super::api::{Cred, ReplyTo, Request, RequestError};
use super::record::{Record, field};
use super::requests::{owner_only, refused};
use crate::job::{Flags, JobId, State, WaitStatus};

const ECHILD: i32 = 10;
const ENOSYS: i32 = 38;

/// Who waits for what.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Active jobs that can be waited for.
    waitable: usize,
    /// How waitable jobs ended that nobody has waited for yet.
    zombies: BTreeMap<JobId, Value>,
    /// Those who wait for a certain job.
    by_id: FxHashMap<JobId, ReplyTo>,
    /// Those who take any job, by the number of their coming.
    any: BTreeMap<u64, ReplyTo>,
    /// What each of both waits for.
    awaited: FxHashMap<ReplyTo, Awaited>,
    /// How many came for any job so far.
    came: u64,
    /// Those who wait until there is no active job.
    drain: BTreeSet<ReplyTo>,
    /// Those who wait until no job runs.
    idle: BTreeSet<ReplyTo>,
}

#[derive(Debug, Clone, Copy)]
enum Awaited {
    Job(JobId),
    /// Any job; the number of the coming.
    Any(u64),
}

impl Waits {
    /// Nobody hears this answer any more.
    pub(super) fn forget(&mut self, reply: ReplyTo) {
        match self.awaited.remove(&reply) {
            Some(Awaited::Job(id)) => drop(self.by_id.remove(&id)),
            Some(Awaited::Any(number)) => drop(self.any.remove(&number)),
            None => {}
        }
        self.drain.remove(&reply);
        self.idle.remove(&reply);
    }

    fn insert_for(&mut self, id: JobId, reply: ReplyTo) {
        self.by_id.insert(id, reply);
        self.awaited.insert(reply, Awaited::Job(id));
    }

    fn insert_for_any(&mut self, reply: ReplyTo) {
        self.came += 1;
        self.any.insert(self.came, reply);
        self.awaited.insert(reply, Awaited::Any(self.came));
    }

    /// Who gets this job: the one who waits for it, or else the first of those who take any.
    fn take(&mut self, id: JobId) -> Option<ReplyTo> {
        let first = |any: &mut BTreeMap<_, _>| any.pop_first().map(|(_, reply)| reply);
        let reply = self.by_id.remove(&id).or_else(|| first(&mut self.any))?;
        self.awaited.remove(&reply);
        Some(reply)
    }

    /// The last who came for any job, who waits no more.
    fn take_last(&mut self) -> Option<ReplyTo> {
        let (_, reply) = self.any.pop_last()?;
        self.awaited.remove(&reply);
        Some(reply)
    }
}

impl Engine {
    /// `job-manager.wait`, `job-manager.drain` and `job-manager.idle`; answered when it is time.
    pub(super) fn waiting_request(&mut self, reply: ReplyTo, cred: Cred, request: &Request) {
        if let Err(error) = owner_only(cred) {
            return self.reply(reply, Err(error));
        }
        match request {
            Request::Wait { id: Some(id) } => self.wait_for(reply, *id),
            Request::Wait { id: None } => self.wait_for_any(reply),
            Request::Drain => drop(self.waits.drain.insert(reply)),
            _ => drop(self.waits.idle.insert(reply)),
        }
    }

    /// The manager ends: what these wait for won't come about any more.
    pub(super) fn refuse_waiters(&mut self) {
        let Waits { by_id, any, awaited, drain, idle, .. } = &mut self.waits;
        awaited.clear();
        let by_id = std::mem::take(by_id).into_values();
        let mut waiters: Vec<ReplyTo> = by_id.chain(std::mem::take(any).into_values()).collect();
        waiters.extend(std::mem::take(drain).into_iter().chain(std::mem::take(idle)));
        for waiter in waiters {
            self.reply(waiter, Err(refused(ENOSYS, "job-manager is unloading")));
        }
    }

    fn wait_for(&mut self, reply: ReplyTo, id: JobId) {
        if let Some(end) = self.waits.zombies.remove(&id) {
            return self.reply(reply, Ok(end));
        }
        if let Err(error) = self.may_wait(id) {
            return self.reply(reply, Err(error));
        }
        self.waits.insert_for(id, reply);
        self.refuse_vain_waiters();
    }

    fn may_wait(&self, id: JobId) -> Result<(), RequestError> {
        let unknown = "invalid job id, or job may be inactive and not waitable";
        let job = &self.known(id, ECHILD, unknown)?.job;
        if job.state == State::Inactive {
            return Err(refused(ECHILD, unknown));
        }
        if !job.flags.contains(Flags::WAITABLE) {
            return Err(refused(ECHILD, "job was not submitted with FLUX_JOB_WAITABLE"));
        }
        if self.waits.by_id.contains_key(&id) {
            return Err(refused(ECHILD, "job id already has a waiter"));
        }
        Ok(())
    }

    fn wait_for_any(&mut self, reply: ReplyTo) {
        if let Some((_, end)) = self.waits.zombies.pop_first() {
            return self.reply(reply, Ok(end));
        }
        self.waits.insert_for_any(reply);
        self.refuse_vain_waiters();
    }

    /// Each waiter takes one job: for those beyond the number of jobs nothing will ever come.
    fn refuse_vain_waiters(&mut self) {
        while self.waits.any.len() + self.waits.by_id.len() > self.waits.waitable {
            let Some(waiter) = self.waits.take_last() else {
                return;
            };
            let error = refused(ECHILD, "there are no more waitable jobs");
            self.reply(waiter, Err(error));
        }
    }

    /// A job is active from now on.
    pub(super) fn wait_begins(&mut self, id: JobId) {
        if self.is_waitable(id) {
            self.waits.waitable += 1;
        }
    }

    /// A job has become inactive: its end goes to one who waits, or is kept for one who will.
    pub(super) fn wait_ends(&mut self, id: JobId) {
        if !self.is_waitable(id) {
            return;
        }
        self.waits.waitable = self.waits.waitable.saturating_sub(1);
        let waiter = self.waits.take(id);
        match waiter.zip(self.jobs.get(&id).map(ending)) {
            Some((waiter, end)) => self.reply(waiter, Ok(end)),
            None => self.keep_zombie(id),
        }
        self.refuse_vain_waiters();
    }

    /// Keeps the end of an inactive job, if it is a waitable one.
    pub(super) fn keep_zombie(&mut self, id: JobId) {
        if self.is_waitable(id)
            && let Some(record) = self.jobs.get(&id)
        {
            let end = ending(record);
            self.waits.zombies.insert(id, end);
        }
    }

    fn is_waitable(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|record| record.job.flags.contains(Flags::WAITABLE))
    }

    /// Answers those for whom the jobs have come to rest.
    pub(super) fn tell_rest(&mut self) {
        if self.waits.drain.is_empty() && self.waits.idle.is_empty() {
            return;
        }
        let running = self.tally.count(&[State::Run, State::Cleanup]);
        let pending = self.tally.count(&[State::New, State::Depend, State::Priority, State::Sched]);
        if running > 0 {
            return;
        }
        if pending == 0 {
            for waiter in std::mem::take(&mut self.waits.drain) {
                self.reply(waiter, Ok(json!({})));
            }
        }
        if self.lanes.is_empty() {
            for waiter in std::mem::take(&mut self.waits.idle) {
                self.reply(waiter, Ok(json!({ "pending": pending })));
            }
        }
    }
}

/// What is told of a job's end.
fn ending(record: &Record) -> Value {
    let job = &record.job;
    let (success, text) = match job.end_event.as_deref() {
        Some(end) if end.name == "finish" => {
            let status = field(end, "status").and_then(Value::as_i64);
            let status = WaitStatus(status.and_then(|s| i32::try_from(s).ok()).unwrap_or(-1));
            (status.is_success(), status.text())
        }
        Some(end) => {
            let word = |key| field(end, key).and_then(Value::as_str).unwrap_or_default();
            (false, format!("Fatal exception type={} {}", word("type"), word("note")))
        }
        None => (false, "the job has ended without finish and without an exception".to_owned()),
    };
    json!({ "id": job.id, "success": success, "errstr": text })
}
