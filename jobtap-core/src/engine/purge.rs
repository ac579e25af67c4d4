//! Inactive jobs that are forgotten: on request, and by the limits of the configuration.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::api::{Cred, Request, RequestError, TimerId, Write};
use super::notices::Cause;
use super::requests::{owner_only, refused};
use super::work::Work;
use super::{Engine, Level};
use crate::job::{Fsd, JobId, State, Timestamp};
use crate::queue::kind;
use crate::topic::TopicId;

const ENOENT: i32 = 2;
const EINVAL: i32 = 22;

/// Seconds between two looks at what is over the configured limits.
const HEARTBEAT: f64 = 2.0;

/// Jobs forgotten at once, at most: the manager has other work too.
const AT_ONCE: usize = 100;

/// Seconds until more are forgotten when that was not enough. So a site may run far more jobs than
/// [`AT_ONCE`] in a heartbeat, and the limits still hold.
const NEXT_LOT: f64 = 0.02;

const AGE_LIMIT: &str = "job-manager.inactive-age-limit";
const NUM_LIMIT: &str = "job-manager.inactive-num-limit";

/// How old inactive jobs may be, and how many there may be. No limit if not said.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Limits {
    /// Seconds.
    age: Option<f64>,
    count: Option<usize>,
}

/// The inactive jobs, in the order of their end.
#[derive(Debug, Default)]
pub(super) struct Inactive {
    /// Times are positive, so their bits are in the order of their values.
    by_end: BTreeSet<(u64, JobId)>,
    limits: Limits,
    heartbeat: Option<TimerId>,
}

impl Inactive {
    /// A job has ended, or came back from the store ended.
    pub(super) fn add(&mut self, id: JobId, end: Timestamp) {
        self.by_end.insert((end.as_secs().to_bits(), id));
    }

    /// The last to end, with its end.
    pub(super) fn newest(&self) -> Option<(Timestamp, JobId)> {
        self.by_end.last().copied().map(with_end)
    }

    /// The one that ended before this one, with its end.
    pub(super) fn before(&self, end: Timestamp, id: JobId) -> Option<(Timestamp, JobId)> {
        let this = (end.as_secs().to_bits(), id);
        self.by_end.range(..this).next_back().copied().map(with_end)
    }

    /// The jobs over a limit, those that ended first in front.
    fn over(&self, now: Timestamp, limits: Limits) -> impl Iterator<Item = JobId> {
        let excess = limits.count.map_or(0, |count| self.by_end.len().saturating_sub(count));
        let is_old =
            move |end: u64| limits.age.is_some_and(|age| now.as_secs() - f64::from_bits(end) > age);
        let over =
            move |&(index, (end, _)): &(usize, &(u64, JobId))| index < excess || is_old(*end);
        self.by_end.iter().enumerate().take_while(over).map(|(_, (_, id))| *id)
    }
}

fn with_end((end, id): (u64, JobId)) -> (Timestamp, JobId) {
    (Timestamp::from_secs(f64::from_bits(end)), id)
}

impl Engine {
    /// `job-manager.purge` and `job-manager.purge-id`.
    pub(super) fn purge_request(
        &mut self,
        cred: Cred,
        request: &Request,
    ) -> Result<Value, RequestError> {
        owner_only(cred)?;
        let count = match *request {
            Request::PurgeId { id, force } => self.purge_one(id, force)?,
            Request::Purge { age_limit, num_limit, batch, force } => {
                self.purge_many(age_limit, num_limit, batch, force)?
            }
            _ => 0,
        };
        Ok(json!({ "count": count }))
    }

    fn purge_one(&mut self, id: JobId, force: bool) -> Result<usize, RequestError> {
        let record = self.known(id, ENOENT, "id not found")?;
        if record.job.state != State::Inactive {
            return Err(refused(EINVAL, "cannot purge active job"));
        }
        if force {
            self.purge(&[id]);
        }
        Ok(1)
    }

    fn purge_many(
        &mut self,
        age: f64,
        count: i64,
        batch: i64,
        force: bool,
    ) -> Result<usize, RequestError> {
        let unlimited = age == -1.0;
        if !unlimited && (age < 0.0 || age.is_nan()) {
            return Err(refused(EINVAL, "if set, age limit must be >= 0"));
        }
        let count = match count {
            -1 => None,
            count => Some(
                usize::try_from(count)
                    .map_err(|_| refused(EINVAL, "if set, num limit must be >= 0"))?,
            ),
        };
        let batch = usize::try_from(batch).ok().filter(|batch| (1..=AT_ONCE).contains(batch));
        let batch =
            batch.ok_or_else(|| refused(EINVAL, format!("batch must be >= 1 and <= {AT_ONCE}")))?;
        let limits = Limits { age: (!unlimited).then_some(age), count };
        if !force {
            return Ok(self.inactive.over(self.now, limits).count());
        }
        Ok(self.purge_over(limits, batch))
    }

    fn purge_over(&mut self, limits: Limits, most: usize) -> usize {
        let ids: Vec<JobId> = self.inactive.over(self.now, limits).take(most).collect();
        self.purge(&ids);
        ids.len()
    }

    /// Forgets inactive jobs, once the plugins have heard of it.
    fn purge(&mut self, ids: &[JobId]) {
        // The stack gives back the last first.
        for &id in ids.iter().rev() {
            let end = self.jobs.get(&id).and_then(|record| record.times.inactive.get());
            if let Some(end) = end {
                self.inactive.by_end.remove(&(end.as_secs().to_bits(), id));
            }
            self.tally_purged(id);
            self.effects.writes.push(Write::Remove { id });
            self.work.push(Work::Forget(id));
            self.notify(TopicId::JobInactiveRemove, id, Cause::None);
        }
        if self.max_jobid.is_some_and(|newest| ids.contains(&newest)) {
            // No log tells any more that this id was used.
            let checkpoint = self.checkpoint();
            self.effects.writes.extend(checkpoint);
        }
    }

    /// Takes the limits from the configuration.
    pub(super) fn read_purge_limits(&mut self) -> Result<(), String> {
        let table = self.config.get("job-manager");
        let value = |key: &str| {
            let key = key.rsplit('.').next().unwrap_or_default();
            table.and_then(|table| table.get(key)).cloned()
        };
        let age = match value(AGE_LIMIT) {
            None => None,
            Some(value) => {
                let text = value.as_str().ok_or_else(|| wrong_type("string", &value))?;
                let fsd: Result<Fsd, _> = text.parse();
                Some(fsd.map_err(|_| format!("{AGE_LIMIT}: invalid FSD"))?.as_secs())
            }
        };
        let count = match value(NUM_LIMIT) {
            None => None,
            // As in a request, and as Flux takes it.
            Some(value) if value.as_i64() == Some(-1) => None,
            Some(value) if !(value.is_i64() || value.is_u64()) => {
                return Err(wrong_type("integer", &value));
            }
            Some(value) => {
                let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
                Some(count.ok_or_else(|| format!("{NUM_LIMIT}: must be >= 0"))?)
            }
        };
        self.inactive.limits = Limits { age, count };
        Ok(())
    }

    /// Looks at the limits from time to time, as long as there are any.
    pub(super) fn arm_heartbeat(&mut self) {
        let limited = self.inactive.limits != Limits::default();
        match self.inactive.heartbeat {
            Some(_) if !limited => {
                let timer = self.inactive.heartbeat.take();
                self.stop_timer(timer);
            }
            None if limited => {
                self.inactive.heartbeat = Some(self.heartbeat_at(self.now + HEARTBEAT));
            }
            _ => {}
        }
    }

    /// Forgets what is over the configured limits.
    pub(super) fn heartbeat(&mut self) {
        let count = self.purge_over(self.inactive.limits, AT_ONCE);
        if count > 0 {
            self.log(Level::Debug, format!("purged {count} inactive jobs"));
        }
        self.inactive.heartbeat = None;
        if count == AT_ONCE {
            self.inactive.heartbeat = Some(self.heartbeat_at(self.now + NEXT_LOT));
        } else {
            self.arm_heartbeat();
        }
    }
}

fn wrong_type(wanted: &str, value: &Value) -> String {
    format!("job-manager.max-inactive-*: Expected {wanted}, got {}", kind(value))
}
