//! Requests that are answered when jobs are inactive: `job-manager.wait`, `drain` and `idle`.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::owner_only;
use crate::engine::api::{Cred, ReplyTo, RequestError};
use crate::engine::core::Core;
use crate::engine::events::{field, text_field};
use crate::engine::jobs::{Jobs, Record};
use crate::job::{Flags, JobId, State, WaitStatus};

const ECHILD: i32 = 10;
const ENOSYS: i32 = 38;

/// The waiters, and the jobs that can be waited for.
#[derive(Debug, Default)]
pub(in crate::engine) struct Waits {
    /// How many active jobs can be waited for.
    waitable: usize,
    /// How inactive jobs came out that no client has waited for yet.
    zombies: BTreeMap<JobId, Value>,
    /// The waiters for a certain job.
    by_id: FxHashMap<JobId, ReplyTo>,
    /// The waiters for any job, in the order in which they came.
    any: BTreeMap<u64, ReplyTo>,
    /// What each of both waits for.
    awaited: FxHashMap<ReplyTo, Awaited>,
    /// How many waiters for any job came so far.
    arrivals: u64,
    /// The waiters until no job is active.
    drain: BTreeSet<ReplyTo>,
    /// The waiters until no job runs.
    idle: BTreeSet<ReplyTo>,
}

#[derive(Debug, Clone, Copy)]
enum Awaited {
    Job(JobId),
    /// Any job; the number by which the waiter came.
    Any(u64),
}

impl Waits {
    /// Removes a waiter whose client has gone.
    pub(in crate::engine) fn abandon(&mut self, reply: ReplyTo) {
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
        self.arrivals += 1;
        self.any.insert(self.arrivals, reply);
        self.awaited.insert(reply, Awaited::Any(self.arrivals));
    }

    /// Takes the waiter that gets this job: the one for this very job, or else the first one for any.
    fn take(&mut self, id: JobId) -> Option<ReplyTo> {
        let first = |any: &mut BTreeMap<_, _>| any.pop_first().map(|(_, reply)| reply);
        let reply = self.by_id.remove(&id).or_else(|| first(&mut self.any))?;
        self.awaited.remove(&reply);
        Some(reply)
    }

    /// Takes the last waiter for any job.
    fn take_last(&mut self) -> Option<ReplyTo> {
        let (_, reply) = self.any.pop_last()?;
        self.awaited.remove(&reply);
        Some(reply)
    }

    /// Takes all waiters.
    fn take_all(&mut self) -> Vec<ReplyTo> {
        self.awaited.clear();
        let by_id = std::mem::take(&mut self.by_id).into_values();
        let any = std::mem::take(&mut self.any).into_values();
        let drain = std::mem::take(&mut self.drain).into_iter();
        by_id.chain(any).chain(drain).chain(std::mem::take(&mut self.idle)).collect()
    }

    /// Counts a restored job that is inactive, if it can be waited for.
    pub(in crate::engine) fn restore_inactive(&mut self, record: &Record) {
        if is_waitable(record) {
            self.zombies.insert(record.job.id, ending(record));
        }
    }
}

fn is_waitable(record: &Record) -> bool {
    record.job.flags.contains(Flags::WAITABLE)
}

/// `job-manager.wait`.
pub(super) fn wait(core: &mut Core, reply: ReplyTo, cred: Cred, id: Option<JobId>) {
    if let Err(error) = owner_only(cred) {
        return core.reply(reply, Err(error));
    }
    let zombie = match id {
        Some(id) => core.waits.zombies.remove(&id),
        None => core.waits.zombies.pop_first().map(|(_, ending)| ending),
    };
    if let Some(ending) = zombie {
        return core.reply(reply, Ok(ending));
    }
    match id {
        None => core.waits.insert_for_any(reply),
        Some(id) => match check_waitable(core, id) {
            Ok(()) => core.waits.insert_for(id, reply),
            Err(error) => return core.reply(reply, Err(error)),
        },
    }
    refuse_excess(core);
}

fn check_waitable(core: &Core, id: JobId) -> Result<(), RequestError> {
    let refuse = |text: &str| Err(RequestError::new(ECHILD, text));
    let unknown = "invalid job id, or job may be inactive and not waitable";
    let record = core.known(id, ECHILD, unknown)?;
    if record.job.state == State::Inactive {
        return refuse(unknown);
    }
    if !is_waitable(record) {
        return refuse("job was not submitted with FLUX_JOB_WAITABLE");
    }
    if core.waits.by_id.contains_key(&id) {
        return refuse("job id already has a waiter");
    }
    Ok(())
}

/// Refuses the waiters for which no job is left: each waiter takes one job.
fn refuse_excess(core: &mut Core) {
    while core.waits.any.len() + core.waits.by_id.len() > core.waits.waitable {
        let Some(waiter) = core.waits.take_last() else {
            return;
        };
        let error = RequestError::new(ECHILD, "there are no more waitable jobs");
        core.reply(waiter, Err(error));
    }
}

/// `job-manager.drain`.
pub(super) fn drain(core: &mut Core, reply: ReplyTo, cred: Cred) {
    match owner_only(cred) {
        Ok(()) => drop(core.waits.drain.insert(reply)),
        Err(error) => core.reply(reply, Err(error)),
    }
}

/// `job-manager.idle`.
pub(super) fn idle(core: &mut Core, reply: ReplyTo, cred: Cred) {
    match owner_only(cred) {
        Ok(()) => drop(core.waits.idle.insert(reply)),
        Err(error) => core.reply(reply, Err(error)),
    }
}

/// Refuses all waiters, since the manager ends.
pub(in crate::engine) fn refuse_all(core: &mut Core) {
    for waiter in core.waits.take_all() {
        core.reply(waiter, Err(RequestError::new(ENOSYS, "job-manager is unloading")));
    }
}

/// Counts a job that is active from now on, if it can be waited for.
pub(in crate::engine) fn begin(core: &mut Core, id: JobId) {
    if core.jobs.get(id).is_some_and(is_waitable) {
        core.waits.waitable += 1;
    }
}

/// Answers the waiter for a job that has become inactive, or keeps its ending for a later one.
pub(in crate::engine) fn end(core: &mut Core, id: JobId) {
    let Some(ending) = waitable_ending(&core.jobs, id) else {
        return;
    };
    let waits = &mut core.waits;
    waits.waitable = waits.waitable.saturating_sub(1);
    match waits.take(id) {
        Some(waiter) => core.reply(waiter, Ok(ending)),
        None => drop(waits.zombies.insert(id, ending)),
    }
    refuse_excess(core);
}

fn waitable_ending(jobs: &Jobs, id: JobId) -> Option<Value> {
    jobs.get(id).filter(|record| is_waitable(record)).map(ending)
}

/// Answers the `drain` and `idle` requests if there is nothing left to wait for.
pub(in crate::engine) fn answer_idle(core: &mut Core) {
    if core.waits.drain.is_empty() && core.waits.idle.is_empty() {
        return;
    }
    let counts = &core.jobs.counts.all;
    let running = counts.count(&[State::Run, State::Cleanup]);
    let pending = counts.count(&[State::New, State::Depend, State::Priority, State::Sched]);
    if running > 0 {
        return;
    }
    if pending == 0 {
        for waiter in std::mem::take(&mut core.waits.drain) {
            core.reply(waiter, Ok(json!({})));
        }
    }
    if core.alloc.alloc_queues.is_empty() {
        for waiter in std::mem::take(&mut core.waits.idle) {
            core.reply(waiter, Ok(json!({ "pending": pending })));
        }
    }
}

/// How a job came out, as the response to `job-manager.wait`.
fn ending(record: &Record) -> Value {
    let job = &record.job;
    let (success, text) = match job.end_event.as_deref() {
        Some(end) if end.name == "finish" => {
            let status = field(end, "status").and_then(Value::as_i64);
            let status = WaitStatus(status.and_then(|s| i32::try_from(s).ok()).unwrap_or(-1));
            (status.is_success(), status.text())
        }
        Some(end) => {
            let (kind, note) = (text_field(end, "type"), text_field(end, "note"));
            (false, format!("Fatal exception type={kind} {note}"))
        }
        None => (false, "the job has ended without finish and without an exception".to_owned()),
    };
    json!({ "id": job.id, "success": success, "errstr": text })
}
