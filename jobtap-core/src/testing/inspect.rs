//! What a test can inspect in the manager, and assertions.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::job::TestJob;
use super::manager::TestManager;
use super::refused::Refused;
use crate::engine::{Cred, ENVIRONMENT, Engine, JobLog, Level};
use crate::eventlog::EventEntry;
use crate::job::{Job, JobId, State, Uid};
use crate::resource::{Idset, ResourceSet};

impl TestManager {
    /// The job with this id.
    ///
    /// # Panics
    /// If there is no such job.
    #[track_caller]
    pub fn job(&self, id: JobId) -> &Job {
        match self.engine().and_then(|engine| engine.job(id)) {
            Some(job) => job,
            None => panic!("{}", self.missing(id)),
        }
    }

    /// The committed eventlog of a job.
    pub fn eventlog(&self, id: JobId) -> Vec<EventEntry> {
        let lines = self.store.log(id, JobLog::Main);
        lines.iter().filter_map(|line| EventEntry::decode(line).ok()).collect()
    }

    /// The committed `exec.eventlog` of a job.
    pub fn exec_eventlog(&self, id: JobId) -> Vec<EventEntry> {
        let lines = self.store.log(id, JobLog::Exec);
        let entries = lines.iter().map(|line| EventEntry::decode(line));
        entries.filter_map(Result::ok).collect()
    }

    /// What a plugin has stored below the job's `guest` directory, by
    /// [`Cx::guest_put`](crate::plugin::Cx::guest_put).
    pub fn guest_value(&self, id: JobId, key: &str) -> Option<Value> {
        self.store.value(id, &format!("guest.{key}"))
    }

    /// The environment of a job's tasks if a plugin has changed it in `slurm.job_submit`; `None` if they get the
    /// one that was submitted.
    pub fn changed_environment(&self, id: JobId) -> Option<Value> {
        self.store.value(id, ENVIRONMENT)
    }

    /// The names of the events of a job.
    pub fn events(&self, id: JobId) -> Vec<String> {
        self.eventlog(id).into_iter().map(|entry| entry.name.into()).collect()
    }

    /// The lines that the manager has logged.
    pub fn log(&self) -> impl Iterator<Item = (Level, &str)> {
        self.log.iter().map(|line| (line.level, &*line.text))
    }

    /// Asserts the state of a job.
    ///
    /// # Panics
    /// If the job is in another state. The message shows the eventlog and the log.
    #[track_caller]
    pub fn assert_state(&self, id: JobId, state: State) {
        let now = self.job(id).state();
        assert!(now == state, "job {id} is in {now}, not in {state}\n{}", self.history(id));
    }

    /// Asserts the names of all events of a job, in order and separated by spaces.
    ///
    /// # Panics
    /// If the events differ. The message shows the eventlog and the log.
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

    /// Asserts the priority of a job.
    ///
    /// # Panics
    /// If the priority differs or has not been set. The message shows the eventlog and the log.
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
    /// If no line does. The message shows the log.
    #[track_caller]
    pub fn assert_logged(&self, text: &str) {
        let lines: Vec<&str> = self.log.iter().map(|line| line.text.as_str()).collect();
        let found = lines.iter().any(|line| line.contains(text));
        assert!(found, "nothing with {text:?} was logged\nlog:\n  {}", lines.join("\n  "));
    }

    /// Asserts that a job has an exception of this type whose note contains this text.
    ///
    /// # Panics
    /// If there is no such exception. The message shows the eventlog and the log.
    #[track_caller]
    pub fn assert_exception(&self, id: JobId, kind: &str, note: &str) {
        let is = |entry: &EventEntry| {
            entry.exception().is_some_and(|seen| seen.kind == kind && seen.note.contains(note))
        };
        assert!(
            self.eventlog(id).iter().any(is),
            "job {id} has no exception {kind:?} with {note:?}\n{}",
            self.history(id)
        );
    }

    /// The reasons why a job is pending, in one sentence each, as `jobtap job why` prints them.
    pub fn why(&self, id: JobId) -> Vec<String> {
        self.reasons(id, Cred { userid: TestJob::OWNER, owner: true })
    }

    /// What a guest sees in place of [`why`](Self::why).
    pub fn why_as(&self, user: u32, id: JobId) -> Vec<String> {
        self.reasons(id, Cred { userid: Uid(user), owner: false })
    }

    /// What a job waits for in one word, as lists show it: the kind of the first of the reasons of [`why`](Self::why).
    /// `None` if it waits for nothing.
    pub fn waits_for(&self, id: JobId) -> Option<&'static str> {
        Some(self.engine()?.waits_for(id)?.word())
    }

    fn reasons(&self, id: JobId, cred: Cred) -> Vec<String> {
        let answer = self.engine().and_then(|engine| engine.why(id, cred).ok()).unwrap_or_default();
        let reasons = answer.get("reasons").and_then(Value::as_array);
        let text = |reason: &Value| reason.get("text").and_then(Value::as_str).map(str::to_owned);
        reasons.into_iter().flatten().filter_map(text).collect()
    }

    /// The message that a job doesn't exist.
    fn missing(&self, id: JobId) -> String {
        if self.is_dead() {
            return "the manager is dead: `crash_and_restart()` brings it back".to_owned();
        }
        let jobs: Vec<String> = self.jobs().iter().map(JobId::to_string).collect();
        format!("there is no job {id}, only these: {}", jobs.join(" "))
    }

    /// The eventlog and the log, for the message of a failed assertion.
    pub(super) fn history(&self, id: JobId) -> String {
        let mut text = format!("eventlog of {id}:\n");
        for line in self.store.log(id, JobLog::Main) {
            let _ = write!(text, "  {line}");
        }
        text.push_str("log:\n");
        for line in &self.log {
            let _ = writeln!(text, "  {}: {}", line.level.name(), line.text);
        }
        text
    }

    /// The ids of all committed jobs, in ascending order.
    pub fn jobs(&self) -> Vec<JobId> {
        self.store.ids().collect()
    }

    /// The response of `job-list.list-id` for a job; null if there is no such job or if the manager has
    /// crashed.
    pub fn listed(&self, id: JobId) -> Value {
        let answer = self.engine().map(|engine| engine.list_id(id));
        let job = answer.and_then(Result::ok).and_then(|answer| answer.get("job").cloned());
        job.unwrap_or_default()
    }

    /// The annotations of a job, as its user sees them; an empty object if it has none.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # use jobtap_core::testing::{TestJob, TestManager};
    /// # #[derive(Default)]
    /// # struct Estimate;
    /// # #[jobtap_plugin(name = "estimate")]
    /// # impl Estimate {
    /// #     #[on("job.state.depend")]
    /// #     fn depend(&self) -> Annotations {
    /// #         Annotations::new().with("estimate", json!({"hours": 2}))
    /// #     }
    /// # }
    /// let mut m = TestManager::new().plugin::<Estimate>().start();
    /// let id = m.submit(TestJob::new()).unwrap();
    /// assert_eq!(m.annotations(id)["estimate"], json!({"hours": 2}));
    /// ```
    pub fn annotations(&self, id: JobId) -> Value {
        let annotations = self.listed(id).get("annotations").cloned();
        annotations.unwrap_or_else(|| Value::Object(Map::new()))
    }

    /// The jobs of the response of `job-list.list` to this payload.
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
    /// The message of the error response, for instance for a malformed constraint, or if the manager has
    /// crashed.
    pub fn list(&self, payload: Value) -> Result<Vec<Value>, Refused> {
        let engine = self.engine().ok_or(Refused::Dead)?;
        let answer = engine.list(&payload)?;
        Ok(answer.get("jobs").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// What has become of the elements of an array, as of [`Engine::array`](crate::engine::Engine::array).
    ///
    /// # Panics
    /// If there is no such array.
    #[track_caller]
    pub fn array(&self, id: JobId) -> Value {
        match self.engine().map(|engine| engine.array(id)) {
            Some(Ok(array)) => array,
            Some(Err(error)) => panic!("array {id}: {error}"),
            None => panic!("array {id}: the manager has crashed"),
        }
    }

    /// The arrays with elements that aren't jobs yet, each as of [`array`](Self::array).
    pub fn arrays(&self) -> Vec<Value> {
        let open = self.engine().map(|engine| engine.arrays(None)).unwrap_or_default();
        open.get("arrays").and_then(Value::as_array).cloned().unwrap_or_default()
    }

    /// The job of the element with this index, if it is one.
    pub fn element(&self, array: JobId, index: u32) -> Option<JobId> {
        let jobs = self.engine()?.elements(array, Some(&Idset::from(index..=index)), false).ok()?;
        jobs.pointer(&format!("/jobs/{index}"))?.as_u64().map(JobId::new)
    }

    /// The response of `job-list.job-stats`; null if the manager has crashed.
    pub fn job_stats(&self) -> Value {
        self.engine().map(Engine::job_stats).unwrap_or_default()
    }

    /// The response of `resource.status`; null if the manager has crashed.
    pub fn resource_status(&self) -> Value {
        self.engine().map(Engine::resource_status).unwrap_or_default()
    }

    /// The committed `resource.eventlog`.
    pub fn resource_log(&self) -> Vec<EventEntry> {
        crate::eventlog::decode_log(self.store.resource_log()).unwrap_or_default()
    }

    /// The free resources; `None` if the manager has crashed.
    pub fn free_resources(&self) -> Option<&ResourceSet> {
        self.engine().map(Engine::free_resources)
    }

    /// Whether the manager has crashed because of [`crash_in`](Self::crash_in).
    pub fn is_dead(&self) -> bool {
        self.engine().is_none()
    }
}
