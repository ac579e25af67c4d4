//! What clients read: jobs with their attributes, statistics.

use serde_json::{Map, Value, json};

use super::Engine;
use super::annotations;
use super::api::{Cred, RequestError};
use super::record::{Record, field};
use super::selection::Selection;
use crate::eventlog::EventEntry;
use crate::job::{Job, JobId, JobResult, State, Timestamp, Uid};
use crate::resource::ResourceSet;

/// The least that must be known of a job before something of it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobBrief {
    /// Whose it is.
    pub userid: Uid,
    /// Where it stands.
    pub state: State,
}

/// How far a listing has come.
#[derive(Debug)]
pub struct Listing {
    selection: Selection,
    /// The active jobs still to be listed.
    active: std::vec::IntoIter<JobId>,
    /// The next of the jobs that were over when the listing began.
    over: Option<(Timestamp, JobId)>,
    /// How many jobs are listed at most.
    left: usize,
}

/// One step of a listing.
#[derive(Debug)]
pub enum Listed {
    /// The next job.
    Item(Value),
    /// A job was looked at that isn't asked for.
    Passed,
    /// That was all.
    End,
}

/// Jobs by state and result, counted as they move.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    states: [u64; 7],
    results: [u64; 4],
    purged: u64,
}

const STATES: [(State, &str); 7] = [
    (State::New, "new"),
    (State::Depend, "depend"),
    (State::Priority, "priority"),
    (State::Sched, "sched"),
    (State::Run, "run"),
    (State::Cleanup, "cleanup"),
    (State::Inactive, "inactive"),
];

const RESULTS: [(JobResult, &str); 4] = [
    (JobResult::Completed, "successful"),
    (JobResult::Failed, "failed"),
    (JobResult::Canceled, "canceled"),
    (JobResult::Timeout, "timeout"),
];

impl Tally {
    fn state(&mut self, state: State) -> Option<&mut u64> {
        let index = STATES.iter().position(|(s, _)| *s == state)?;
        self.states.get_mut(index)
    }

    fn result(&mut self, record: &Record) -> Option<&mut u64> {
        let result = record.result()?;
        let index = RESULTS.iter().position(|(r, _)| *r == result)?;
        self.results.get_mut(index)
    }

    pub(super) fn add(&mut self, record: &Record) {
        if let Some(count) = self.state(record.job.state) {
            *count += 1;
        }
        if let Some(count) = self.result(record) {
            *count += 1;
        }
    }

    /// How many jobs are in these states.
    pub(super) fn count(&self, states: &[State]) -> u64 {
        let all = STATES.iter().zip(self.states);
        all.filter(|((state, _), _)| states.contains(state)).map(|(_, count)| count).sum()
    }

    pub(super) fn leave(&mut self, state: State) {
        if let Some(count) = self.state(state) {
            *count = count.saturating_sub(1);
        }
    }

    /// Counts an inactive job out.
    pub(super) fn purge(&mut self, record: &Record) {
        if let Some(count) = self.result(record) {
            *count = count.saturating_sub(1);
        }
        self.leave(State::Inactive);
        self.purged += 1;
    }

    /// The counts, as `job-list.job-stats` has them.
    pub(super) fn to_json(&self) -> Map<String, Value> {
        let mut states = Map::new();
        let mut total = 0;
        for ((_, name), count) in STATES.iter().zip(self.states).skip(1) {
            states.insert((*name).to_owned(), count.into());
            total += count;
        }
        states.insert("total".to_owned(), total.into());
        let mut stats = Map::new();
        stats.insert("job_states".to_owned(), states.into());
        for ((_, name), count) in RESULTS.iter().zip(self.results) {
            stats.insert((*name).to_owned(), count.into());
        }
        stats.insert("inactive_purged".to_owned(), self.purged.into());
        stats
    }
}

impl Engine {
    /// Counts a job that is new here: accepted, or back from the store.
    pub(super) fn tally_new(&mut self, id: JobId) {
        if let Some(record) = self.jobs.get(&id) {
            self.tally.add(record);
        }
        self.queue_tally_new(id);
    }

    /// Counts an inactive job out.
    pub(super) fn tally_purged(&mut self, id: JobId) {
        if let Some(record) = self.jobs.get(&id) {
            self.tally.purge(record);
        }
        self.queue_tally_purged(id);
    }

    /// Follows a job's change of state, and gives back resources that became free.
    pub(super) fn tally_event(&mut self, id: JobId, entry: &EventEntry, left: Option<State>) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        if let Some(left) = left {
            self.tally.leave(left);
            self.tally.add(record);
        }
        if entry.name == "free"
            && !record.lost_resources
            && !record.bypass
            && let Some(resources) = record.held()
        {
            self.pool.release(resources);
            self.holding.remove(&id);
        }
        if let Some(left) = left {
            self.queue_tally_left(id, left);
        }
        if entry.name == "jobspec-update" {
            self.queue_tally_moved(id);
        }
    }

    /// A job's owner and state; `None` when it isn't known.
    pub fn job_exists(&self, id: JobId) -> Option<JobBrief> {
        let record = self.jobs.get(&id).filter(|r| r.unaccepted.is_none())?;
        Some(JobBrief { userid: record.job.userid, state: record.job.state })
    }

    /// A job as plugins see it.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id).map(|record| &record.job)
    }

    /// `job-list.list`: `{"jobs":[..]}`, pending jobs by priority, then running ones by start, then
    /// inactive ones by end.
    ///
    /// # Errors
    /// When the constraint can't be read.
    pub fn list(&self, payload: &Value, _cred: Cred) -> Result<Value, RequestError> {
        let mut listing = self.begin_list(payload)?;
        let mut jobs = Vec::new();
        loop {
            match self.next_listed(&mut listing) {
                Listed::Item(job) => jobs.push(job),
                Listed::Passed => {}
                Listed::End => return Ok(json!({ "jobs": jobs })),
            }
        }
    }

    /// Begins a listing that is read job by job, as [`list`](Self::list) does at once: so that neither
    /// its answer nor the work for it is larger than its reader can take. Each job is listed once, as it
    /// is when its turn comes, if it is one of those asked for then.
    ///
    /// # Errors
    /// When the constraint can't be read.
    pub fn begin_list(&self, payload: &Value) -> Result<Listing, RequestError> {
        let selection = Selection::read(payload)?;
        // Whether they are asked for is found out one by one: a constraint may be long.
        let mut active: Vec<(_, JobId)> =
            self.jobs.active().map(|record| (order(record), record.job.id)).collect();
        active.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        let active = active.into_iter().map(|(_, id)| id).collect::<Vec<_>>().into_iter();
        let left = selection.at_most();
        Ok(Listing { selection, active, over: self.inactive.newest(), left })
    }

    /// The next step of a listing.
    pub fn next_listed(&self, listing: &mut Listing) -> Listed {
        if listing.left == 0 {
            return Listed::End;
        }
        let job = if let Some(id) = listing.active.next() {
            if self.jobs.over(id).is_some() {
                // It has ended since the listing began.
                self.listed_over(&listing.selection, id)
            } else {
                let record = self.jobs.get(&id);
                let record = record.filter(|record| listing.selection.matches(record));
                record.map(|record| self.shown(record))
            }
        } else {
            let Some((end, id)) = listing.over else { return Listed::End };
            if !listing.selection.is_since(end) {
                return Listed::End;
            }
            listing.over = self.inactive.before(end, id);
            self.listed_over(&listing.selection, id)
        };
        match job {
            Some(job) => {
                listing.left -= 1;
                Listed::Item(job)
            }
            None => Listed::Passed,
        }
    }

    /// The ids of all active jobs, in order.
    pub fn active_jobs(&self) -> Vec<JobId> {
        let accepted = self.jobs.active().filter(|record| record.unaccepted.is_none());
        let mut ids: Vec<JobId> = accepted.map(|record| record.job.id).collect();
        ids.sort_unstable();
        ids
    }

    /// An active job with what is known of it, and when it will probably start.
    fn shown(&self, record: &Record) -> Value {
        let mut attributes = record.attributes();
        let waits = record.job.state == State::Sched;
        let start = if waits { self.start_estimate(record.job.id) } else { None };
        if let (Some(start), Some(map)) = (start, attributes.as_object_mut()) {
            let sched = json!({ "sched": { "t_estimate": start } });
            annotations::merge(map, &[("annotations".to_owned(), sched)].into_iter().collect());
        }
        attributes
    }

    /// A job that is over, unfolded, if it is asked for.
    fn listed_over(&self, selection: &Selection, id: JobId) -> Option<Value> {
        let over = self.jobs.over(id)?;
        if selection.matches_brief(&over.brief) == Some(false) {
            return None;
        }
        let record = over.unfolded(id)?;
        selection.matches(&record).then(|| record.attributes())
    }

    /// `job-list.list-id`: `{"job":{..}}`.
    ///
    /// # Errors
    /// ENOENT for an unknown job.
    pub fn list_id(&self, id: JobId, _cred: Cred) -> Result<Value, RequestError> {
        match self.jobs.get(&id) {
            Some(record) if record.unaccepted.is_none() => Ok(json!({ "job": self.shown(record) })),
            _ => Err(RequestError { errno: 2, text: String::new() }),
        }
    }

    /// `job-list.job-stats`.
    pub fn job_stats(&self) -> Value {
        let mut stats = self.tally.to_json();
        stats.insert("queues".to_owned(), self.queue_tallies.to_json());
        stats.into()
    }

    /// The resources that no job holds.
    pub fn free_resources(&self) -> &ResourceSet {
        self.pool.free()
    }

    /// `job-manager.getinfo`.
    pub fn getinfo(&self) -> Value {
        json!({ "max_jobid": self.max_jobid.map_or(0, JobId::as_u64) })
    }
}

/// Sort key of listings.
fn order(record: &Record) -> (u8, f64, u64) {
    let id = record.job.id.as_u64();
    let late = |time: Option<Timestamp>| -time.map_or(0.0, Timestamp::as_secs);
    match record.job.state {
        State::Run | State::Cleanup => (1, late(record.times.run.get()), id),
        State::Inactive => (2, late(record.times.inactive.get()), u64::MAX - id),
        _ => (0, -f64::from(record.job.priority.unwrap_or(0)), id),
    }
}

impl Record {
    /// How the job ended, as listings have it; `None` until it is inactive.
    pub(super) fn result(&self) -> Option<JobResult> {
        if self.job.state != State::Inactive {
            return None;
        }
        let fatal = self.exception.as_deref().filter(|e| severity(e) == Some(0));
        if self.wait_status == Some(0) && fatal.is_none() {
            return Some(JobResult::Completed);
        }
        Some(match fatal.and_then(|e| field(e, "type")).and_then(Value::as_str) {
            Some("cancel") => JobResult::Canceled,
            Some("timeout") => JobResult::Timeout,
            _ => JobResult::Failed,
        })
    }

    /// The attributes of the listing service that are known.
    pub(super) fn attributes(&self) -> Value {
        let mut map = Map::new();
        self.identity(&mut map);
        self.times_and_state(&mut map);
        self.resources_and_end(&mut map);
        Value::Object(map)
    }

    fn identity(&self, map: &mut Map<String, Value>) {
        let (job, spec) = (&self.job, self.job.jobspec.opened());
        let mut set = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        let counts = spec.counts();
        set("id", job.id.as_u64().into());
        set("userid", job.userid.0.into());
        set("urgency", job.urgency.value().into());
        if let Some(priority) = job.priority {
            set("priority", priority.into());
        }
        set("state", job.state.value().into());
        set("name", spec.display_name().into());
        for (key, value) in [("cwd", spec.cwd()), ("queue", spec.queue())] {
            if let Some(value) = value {
                set(key, value.into());
            }
        }
        for key in ["project", "bank"] {
            if let Some(value) = spec.attribute(key) {
                set(key, value.clone());
            }
        }
        set("ntasks", counts.ntasks.into());
        set("ncores", counts.ncores().into());
        set("duration", spec.duration().into());
        if counts.nnodes > 0 {
            set("nnodes", counts.nnodes.into());
        }
    }

    fn times_and_state(&self, map: &mut Map<String, Value>) {
        let times = &self.times;
        let all = [
            ("t_submit", Some(self.job.t_submit)),
            ("t_depend", times.depend.get()),
            ("t_priority", times.priority.get()),
            ("t_sched", times.sched.get()),
            ("t_run", times.run.get()),
            ("t_cleanup", times.cleanup.get()),
            ("t_inactive", times.inactive.get()),
        ];
        for (key, time) in all {
            if let Some(time) = time {
                map.insert(key.to_owned(), time.as_secs().into());
            }
        }
        if !self.job.annotations.is_empty() {
            map.insert("annotations".to_owned(), self.job.annotations().clone().into());
        }
        let dependencies: Vec<&str> = self.job.dependencies().collect();
        if !dependencies.is_empty() {
            map.insert("dependencies".to_owned(), dependencies.into());
        }
    }

    fn resources_and_end(&self, map: &mut Map<String, Value>) {
        let mut set = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        if let Some(r) = &*self.job.resources {
            set("nnodes", r.nnodes().into());
            set("ncores", r.ncores().into());
            set("ranks", r.ranks().to_string().into());
            set("nodelist", r.nodelist().to_string().into());
            if let Some(expiration) = r.expiration() {
                set("expiration", expiration.into());
            }
        }
        if let Some(status) = self.wait_status {
            set("waitstatus", status.into());
        }
        if let Some(result) = self.result() {
            set("result", result.value().into());
            set("success", (result == JobResult::Completed).into());
            set("exception_occurred", self.exception.is_some().into());
            if let Some(exception) = &*self.exception {
                for (key, name) in [("type", "exception_type"), ("note", "exception_note")] {
                    set(name, field(exception, key).cloned().unwrap_or_default());
                }
                set("exception_severity", severity(exception).unwrap_or(0).into());
            }
        }
    }
}

fn severity(entry: &EventEntry) -> Option<i64> {
    field(entry, "severity").and_then(Value::as_i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestJob, TestManager};

    fn rest(m: &TestManager, mut listing: Listing) -> Vec<(u64, u64)> {
        let mut jobs = Vec::new();
        loop {
            match m.engine().unwrap().next_listed(&mut listing) {
                Listed::Item(job) => {
                    let number = |key: &str| job.get(key).and_then(Value::as_u64).unwrap();
                    jobs.push((number("id"), number("state")));
                }
                Listed::Passed => {}
                Listed::End => return jobs,
            }
        }
    }

    #[test]
    fn jobs_that_end_during_a_listing_are_listed_once_as_they_are_then() {
        let mut m = TestManager::new().start();
        let submit = |m: &mut TestManager| m.submit(TestJob::new()).unwrap();
        let over = submit(&mut m);
        m.advance(1.0);
        m.cancel(over).unwrap();
        let ends = submit(&mut m);
        let begin = |m: &TestManager, payload| m.engine().unwrap().begin_list(&payload).unwrap();
        // Without a plugin that gives one, jobs wait for a priority.
        let waiting = json!({"constraint": {"states": [State::Priority.value()]}});
        let (all, waiting) = (begin(&m, json!({})), begin(&m, waiting));
        m.advance(1.0);
        m.cancel(ends).unwrap();
        let late = submit(&mut m);
        let inactive = u64::from(State::Inactive.value());
        assert_eq!(rest(&m, all), [(ends.as_u64(), inactive), (over.as_u64(), inactive)]);
        // It isn't one of those asked for any more.
        assert_eq!(rest(&m, waiting), []);
        assert_eq!(rest(&m, begin(&m, json!({"max_entries": 1}))).len(), 1);
        let ids: Vec<u64> = rest(&m, begin(&m, json!({}))).iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [late.as_u64(), ends.as_u64(), over.as_u64()]);
    }
}
