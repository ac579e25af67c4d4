//! What a test can see of the manager, and assert.

use std::fmt::Write as _;

use serde_json::Value;

use super::job::TestJob;
use super::manager::TestManager;
use crate::engine::{Cred, Engine, Level, Log};
use crate::eventlog::EventEntry;
use crate::job::{Job, JobId, State};
use crate::resource::ResourceSet;

impl TestManager {
    /// A job.
    ///
    /// # Panics
    /// When there is none of this id.
    #[track_caller]
    pub fn job(&self, id: JobId) -> &Job {
        match self.engine().and_then(|engine| engine.job(id)) {
            Some(job) => job,
            None => panic!("{}", self.missing(id)),
        }
    }

    /// A job's eventlog as it was committed.
    pub fn eventlog(&self, id: JobId) -> Vec<EventEntry> {
        let lines = self.store.log(id, Log::Main);
        lines.iter().filter_map(|line| EventEntry::decode(line).ok()).collect()
    }

    /// The log of a job's execution as it was committed.
    pub fn exec_eventlog(&self, id: JobId) -> Vec<EventEntry> {
        let lines = self.store.log(id, Log::Exec);
        let entries = lines.iter().map(|line| EventEntry::decode(line));
        entries.filter_map(Result::ok).collect()
    }

    /// The names of a job's events.
    pub fn events(&self, id: JobId) -> Vec<String> {
        self.eventlog(id).into_iter().map(|entry| entry.name.into_owned()).collect()
    }

    /// The manager's log so far.
    pub fn log(&self) -> impl Iterator<Item = (Level, &str)> {
        self.log.iter().map(|line| (line.level, &*line.text))
    }

    /// Asserts a job's state.
    ///
    /// # Panics
    /// When it is another one; the message shows eventlog and log.
    #[track_caller]
    pub fn assert_state(&self, id: JobId, state: State) {
        let now = self.job(id).state();
        assert!(now == state, "job {id} is in {now}, not in {state}\n{}", self.history(id));
    }

    /// Asserts the names of a job's events, in order and complete.
    ///
    /// # Panics
    /// When they are others; the message shows eventlog and log.
    #[track_caller]
    pub fn assert_events(&self, id: JobId, names: &str) {
        let events = self.events(id).join(" ");
        let names = names.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            events == names,
            "events of job {id}\n  expected: {names}\n  found:    {events}\n{}",
            self.history(id)
        );
    }

    /// Asserts a job's priority.
    ///
    /// # Panics
    /// When it is another one, or none was set yet; the message shows eventlog and log.
    #[track_caller]
    pub fn assert_priority(&self, id: JobId, priority: u32) {
        let now = self.job(id).priority();
        let found = now.map_or_else(|| "none".to_owned(), |now| now.to_string());
        assert!(
            now == Some(priority),
            "the priority of job {id} is {found}, not {priority}\n{}",
            self.history(id)
        );
    }

    /// Asserts that a line of the manager's log contains this text.
    ///
    /// # Panics
    /// When none does; the message shows the log.
    #[track_caller]
    pub fn assert_logged(&self, text: &str) {
        let lines: Vec<&str> = self.log.iter().map(|line| line.text.as_str()).collect();
        let found = lines.iter().any(|line| line.contains(text));
        assert!(found, "nothing with {text:?} was logged\nlog:\n  {}", lines.join("\n  "));
    }

    /// Asserts that a job has an exception of this type whose note contains this text.
    ///
    /// # Panics
    /// When it has none; the message shows eventlog and log.
    #[track_caller]
    pub fn assert_exception(&self, id: JobId, kind: &str, note: &str) {
        let is = |entry: &EventEntry| {
            let context = entry.context.as_ref();
            let text = |key: &str| context.and_then(|c| c.get(key)?.as_str()).unwrap_or_default();
            entry.name == "exception" && text("type") == kind && text("note").contains(note)
        };
        assert!(
            self.eventlog(id).iter().any(is),
            "job {id} has no exception {kind:?} with {note:?}\n{}",
            self.history(id)
        );
    }

    /// What a job waits for, one sentence a reason: what `jobtap job why` prints.
    pub fn why(&self, id: JobId) -> Vec<String> {
        let cred = Cred { userid: TestJob::OWNER, owner: true };
        let answer = self.engine().and_then(|engine| engine.why(id, cred).ok()).unwrap_or_default();
        let reasons = answer.get("reasons").and_then(Value::as_array);
        let text = |reason: &Value| reason.get("text").and_then(Value::as_str).map(str::to_owned);
        reasons.into_iter().flatten().filter_map(text).collect()
    }

    /// Why a job isn't found.
    fn missing(&self, id: JobId) -> String {
        if self.is_dead() {
            return "the manager is dead: `crash_and_restart()` brings it back".to_owned();
        }
        let jobs: Vec<String> = self.jobs().iter().map(JobId::to_string).collect();
        format!("there is no job {id}, only these: {}", jobs.join(" "))
    }

    /// What a failed assertion shows.
    pub(super) fn history(&self, id: JobId) -> String {
        let mut text = format!("eventlog of {id}:\n");
        for line in self.store.log(id, Log::Main) {
            let _ = write!(text, "  {line}");
        }
        text.push_str("log:\n");
        for line in &self.log {
            let _ = writeln!(text, "  {}: {}", line.level.name(), line.text);
        }
        text
    }

    /// The jobs that were committed, in id order.
    pub fn jobs(&self) -> Vec<JobId> {
        self.store.ids().collect()
    }

    /// A job as listings have it (`job-list.list-id`); null when there is no such job, or the manager is
    /// dead.
    pub fn listed(&self, id: JobId) -> Value {
        let answer = self.engine().map(|engine| engine.list_id(id));
        let job = answer.and_then(Result::ok).and_then(|answer| answer.get("job").cloned());
        job.unwrap_or_default()
    }

    /// The jobs that a listing asks for, in its order: `job-list.list` with this payload.
    ///
    /// ```
    /// # use jobtap_core::testing::{TestJob, TestManager};
    /// # use serde_json::json;
    /// let mut m = TestManager::new().start();
    /// m.submit(TestJob::new().name("a")).unwrap();
    /// m.submit(TestJob::new().name("b")).unwrap();
    /// let jobs = m.list(json!({"constraint": {"name": ["b"]}})).unwrap();
    /// assert_eq!(jobs.len(), 1);
    /// ```
    ///
    /// # Errors
    /// What the client would be answered when the payload asks for nothing that exists, and while the
    /// manager is dead.
    pub fn list(&self, payload: Value) -> Result<Vec<Value>, String> {
        let engine = self.engine().ok_or("the manager is dead")?;
        let answer = engine.list(&payload).map_err(|error| error.text)?;
        Ok(answer.get("jobs").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// The answer to `job-list.job-stats`; null while the manager is dead.
    pub fn job_stats(&self) -> Value {
        self.engine().map(Engine::job_stats).unwrap_or_default()
    }

    /// What is known of the nodes, as `resource.status` answers; null while the manager is dead.
    pub fn resource_status(&self) -> Value {
        self.engine().map(Engine::resource_status).unwrap_or_default()
    }

    /// The log of nodes, as it was committed.
    pub fn resource_log(&self) -> Vec<EventEntry> {
        crate::eventlog::decode_log(self.store.resource_log()).unwrap_or_default()
    }

    /// The resources that no job holds; none while the manager is dead.
    pub fn free_resources(&self) -> Option<&ResourceSet> {
        self.engine().map(Engine::free_resources)
    }

    /// Whether [`crash_in`](Self::crash_in) has struck.
    pub fn is_dead(&self) -> bool {
        self.engine().is_none()
    }
}
