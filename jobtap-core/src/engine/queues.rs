//! What clients ask of queues, and what becomes of the jobs in them.

use serde_json::{Map, Value, json};

use super::api::{Cred, RequestError};
use super::requests::{owner_only, refused};
use super::{Engine, StartError, events};
use crate::job::{Flags, Fsd, JobId, State};
use crate::jobspec::Jobspec;
use crate::queue::{JobSize, Limits, Queue, QueueError, Queues, Target};
use crate::resource::{Constraint, ResourceSet};

const EINVAL: i32 = 22;

/// Whether queues that were started are stopped at a restart.
const STOP_AT_RESTART: &str = "job-manager.stop-queues-on-restart";

impl From<QueueError> for RequestError {
    fn from(error: QueueError) -> Self {
        refused(EINVAL, error.to_string())
    }
}

/// The value of [`STOP_AT_RESTART`].
pub(super) fn stop_at_restart(config: &Value) -> Result<bool, StartError> {
    match config.pointer("/job-manager/stop-queues-on-restart") {
        None => Ok(false),
        Some(Value::Bool(stop)) => Ok(*stop),
        Some(_) => Err(StartError(format!("{STOP_AT_RESTART}: must be a boolean"))),
    }
}

impl Engine {
    /// The queues.
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    /// What the job's queue makes of a submission: defaults and required properties, then the checks
    /// that the configuration asks for, and whether the queue takes jobs.
    pub(super) fn queued(&self, jobspec: Jobspec, flags: Flags) -> Result<Jobspec, RequestError> {
        let jobspec = self.frobnicated(jobspec)?;
        self.validated(&jobspec, flags)?;
        self.queues.lookup(jobspec.queue())?.admits()?;
        Ok(jobspec)
    }

    /// `job-manager.queue-enable`.
    pub(super) fn enable_queue(
        &mut self,
        cred: Cred,
        target: &Target,
        enable: bool,
        reason: Option<&str>,
    ) -> Result<Value, RequestError> {
        owner_only(cred)?;
        match enable {
            true => self.queues.enable(target)?,
            false => self.queues.disable(target, reason)?,
        }
        self.keep_queues();
        Ok(json!({}))
    }

    /// `job-manager.queue-start`.
    pub(super) fn start_queue(
        &mut self,
        cred: Cred,
        target: &Target,
        start: bool,
        reason: Option<&str>,
        nocheckpoint: bool,
    ) -> Result<Value, RequestError> {
        owner_only(cred)?;
        match start {
            true => self.queues.start(target, !nocheckpoint)?,
            false => self.queues.stop(target, reason, !nocheckpoint)?,
        }
        self.keep_queues();
        self.enqueue_all();
        Ok(json!({}))
    }

    /// What was acknowledged outlives a crash.
    fn keep_queues(&mut self) {
        let checkpoint = self.checkpoint();
        self.effects.writes.extend(checkpoint);
    }

    /// A job in SCHED waits for resources when it has a priority and its queue is started.
    pub(super) fn enqueue(&mut self, id: JobId) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let priority = record.job.priority.filter(|priority| *priority > 0);
        let queue = self.queues.of_job(&record.job.jobspec);
        match (priority, queue) {
            (Some(priority), Ok(queue)) if queue.is_started() && !record.bypass => {
                if self.lanes.insert(&queue, id, priority) {
                    self.post_debug(id, "debug.alloc-request");
                }
            }
            _ => self.lanes.leave(id),
        }
    }

    /// An event that only jobs with the debug flag have.
    pub(super) fn post_debug(&mut self, id: JobId, name: &'static str) {
        if self.jobs.get(&id).is_some_and(|record| record.job.flags.contains(Flags::DEBUG)) {
            self.post(id, events::bare(self.now, name));
        }
    }

    /// The same for all jobs, after a change of queues.
    pub(super) fn enqueue_all(&mut self) {
        let waits =
            |id: &&JobId| self.jobs.get(id).is_some_and(|record| record.job.state == State::Sched);
        let waiting: Vec<JobId> = self.active.iter().filter(waits).copied().collect();
        for id in waiting {
            self.enqueue(id);
        }
    }

    /// `job-manager.queue-list`: `{"queues":[NAME,..]}`, empty for the anonymous queue.
    pub fn queue_names(&self) -> Value {
        json!({ "queues": self.queues.iter().filter_map(|q| q.name()).collect::<Vec<_>>() })
    }

    /// `job-manager.queue-status`: the status object of RFC 33 of one queue.
    ///
    /// # Errors
    /// EINVAL for an unknown queue, or when none is named and there are named queues.
    pub fn queue_status(&self, name: Option<&str>) -> Result<Value, RequestError> {
        Ok(Value::Object(self.status_of(&self.queues.lookup(name)?)))
    }

    fn status_of(&self, queue: &Queue<'_>) -> Map<String, Value> {
        let mut status = queue.status();
        if queue.is_started() && self.lanes.is_offline(queue) {
            status.insert("start".to_owned(), false.into());
            status.insert("blocked".to_owned(), "scheduler".into());
            status.insert("stop_reason".to_owned(), "Scheduler is offline".into());
        }
        status
    }

    /// `job-manager.alloc-query`: `{"queue_length","alloc_pending","running"}`. The scheduler looks at
    /// all jobs that wait, so none is queued before it.
    pub fn alloc_query(&self) -> Value {
        let running = self.tally.count(&[State::Run, State::Cleanup]);
        json!({ "queue_length": 0, "alloc_pending": self.lanes.len(), "running": running })
    }

    /// `job-manager.queue-overview`: `{"queues":[{..}]}`, each queue with its status, defaults, limits,
    /// scheduler and resources, in the order of their names.
    pub fn queue_overview(&self) -> Value {
        let allocated = self.pool.allocated();
        let one = |queue: Queue<'_>| self.overview(&queue, &allocated);
        json!({ "queues": self.queues.iter().map(one).collect::<Vec<_>>() })
    }

    fn overview(&self, queue: &Queue<'_>, allocated: &ResourceSet) -> Value {
        let mut row = Map::new();
        if let Some(name) = queue.name() {
            row.insert("name".to_owned(), name.into());
        }
        let default = self.queues.default_name();
        row.insert("default".to_owned(), json!(default.is_some() && default == queue.name()));
        row.extend(self.status_of(queue));
        let timelimit = queue.default_duration();
        row.insert("defaults".to_owned(), json!({ "timelimit": limit_text(timelimit) }));
        row.insert("limits".to_owned(), limits(queue.limits()));
        row.insert("requires".to_owned(), json!(queue.requires()));
        row.insert("scheduler".to_owned(), json!(self.lanes.scheduler_of(queue)));
        row.insert("resources".to_owned(), self.resources_of(queue, allocated));
        Value::Object(row)
    }

    /// The resources that a queue's jobs can get, by what they are at present.
    fn resources_of(&self, queue: &Queue<'_>, allocated: &ResourceSet) -> Value {
        // A constraint of the configuration is one: it was checked when it was read.
        let constraint = queue.constraint().and_then(|value| Constraint::from_value(&value).ok());
        let of = |set: &ResourceSet| match &constraint {
            None => set.clone(),
            Some(constraint) => set.matching(constraint),
        };
        let (all, down) = (of(self.pool.all()), self.pool.down());
        let up = all.without_ranks(down);
        json!({
            "all": counts(&all),
            "up": counts(&up),
            "down": counts(&all.with_ranks(down)),
            "allocated": counts(&all.intersection(allocated)),
            "free": counts(&up.difference(allocated)),
        })
    }
}

fn counts(set: &ResourceSet) -> Value {
    json!({ "nnodes": set.nnodes(), "ncores": set.ncores(), "ngpus": set.ngpus() })
}

/// A limit of time in seconds; null is no limit.
fn limit_text(limit: Option<Fsd>) -> Option<f64> {
    limit.map(Fsd::as_secs).filter(|seconds| *seconds > 0.0 && seconds.is_finite())
}

fn limits(limits: Limits) -> Value {
    let size = |size: JobSize| {
        let said = |number: Option<i64>| number.filter(|number| *number >= 0);
        json!({
            "nnodes": said(size.nnodes),
            "ncores": said(size.ncores),
            "ngpus": said(size.ngpus),
        })
    };
    json!({
        "timelimit": limit_text(limits.duration),
        "min": size(limits.min),
        "max": size(limits.max),
    })
}
