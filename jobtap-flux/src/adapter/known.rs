//! The adapter's mirror of the jobs.
//!
//! Flux tells a plugin little about a job: not its dependencies, annotations or events, nor what was open
//! before a restart. So the adapter subscribes to all jobs and applies their events to a mirror. For a job
//! that existed before the file was loaded, it reads the eventlog.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jobtap_core::engine::JobNow;
use jobtap_core::eventlog::{Event, EventEntry, decode_log};
use jobtap_core::host::{BoundHandler, Detail, JobParts, Lent, OnRestart};
use jobtap_core::job::{Encoding, Job, JobId, State, Timestamp, Uid, Urgency};
use jobtap_core::jobspec::{Jobspec, LentDocument};
use jobtap_core::plugin::{Level, Perilog, Priority};
use jobtap_core::resource::ResourceSet;
use jobtap_core::topic::TopicId;
use serde::Deserialize;
use serde_json::Value;

use super::frame::Subject;
use super::{Adapter, Left};
use crate::flux::{Flux, Lend, ReadError};

/// The numbers of a job that Flux passes with each call.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Numbers {
    id: JobId,
    userid: u32,
    urgency: i64,
    state: u64,
    /// -1 until it is set; -2 if a plugin doesn't know it yet.
    priority: i64,
    t_submit: f64,
}

impl Numbers {
    fn now(&self) -> JobNow {
        JobNow {
            state: State::from_value(self.state).unwrap_or(State::New),
            urgency: Urgency::new(self.urgency).unwrap_or(Urgency::DEFAULT),
            priority: u32::try_from(self.priority).ok(),
        }
    }
}

/// Whether a lent jobspec was read as a whole, instead of only some members.
pub(super) type Opened = Arc<AtomicBool>;

/// Returns the jobspec in a call's arguments, which isn't read until a handler asks for it.
pub(super) fn lent_jobspec<J: Lend>(input: &J, opened: &Opened) -> Jobspec {
    match input.get("jobspec") {
        Some(jobspec) => Jobspec::lent(LentJobspec(jobspec, Arc::clone(opened))),
        None => Jobspec::unvalidated(Value::Null),
    }
}

/// A jobspec that Flux lends.
struct LentJobspec<J>(J, Opened);

impl<J: Lend> LentDocument for LentJobspec<J> {
    fn whole(&self) -> Value {
        self.1.store(true, Ordering::Relaxed);
        self.0.read().unwrap_or_default()
    }

    fn part(&self, path: &[&str]) -> Option<Value> {
        let (first, rest) = path.split_first()?;
        let part = rest.iter().try_fold(self.0.get(first)?, |part, key| part.get(key))?;
        part.read().ok()
    }
}

/// Returns the R in a call's arguments, if the job has one.
fn lent_resources<J: Lend>(input: &J) -> Option<Lent<Option<ResourceSet>>> {
    let resources = input.get("R")?;
    Some(Lent::later(move || resources.read::<ResourceSet>().ok()))
}

/// Returns the parts of a job that a call's arguments contain.
fn parts<J: Lend>(numbers: &Numbers, input: &J, opened: &Opened) -> JobParts {
    let now = numbers.now();
    let jobspec = lent_jobspec(input, opened);
    let end = input.get("end_event").map(|end| Lent::later(move || end.read::<EventEntry>().ok()));
    JobParts {
        state: now.state,
        urgency: now.urgency,
        priority: now.priority,
        t_submit: Timestamp(numbers.t_submit),
        resources: lent_resources(input).unwrap_or_default(),
        end_event: end.unwrap_or_default(),
        ..JobParts::new(numbers.id, Uid(numbers.userid), jobspec)
    }
}

impl<F: Flux> Adapter<F> {
    /// Looks up a job that the mirror doesn't have, which is an inactive one.
    pub(super) fn look_up(&self, id: JobId) -> Option<Job> {
        let input = self.flux.job_lookup(id).ok()?;
        let numbers: Numbers = input.read().ok()?;
        Some(parts(&numbers, &input, &self.opened).into_job())
    }

    /// Returns a job that the mirror doesn't have, as in the arguments of a call.
    pub(super) fn job_of(&self, input: &F::Json) -> Option<Job> {
        let numbers: Numbers = input.read().ok()?;
        Some(parts(&numbers, input, &self.opened).into_job())
    }

    /// Adds the job of a call to the mirror if it isn't there. Returns false for an inactive job, which isn't added.
    ///
    /// # Errors
    /// When the arguments aren't those of a job.
    pub(super) fn know(&self, id: JobId, input: &F::Json) -> Result<bool, ReadError> {
        if self.mirror.borrow().job(id).is_some() {
            return Ok(true);
        }
        let numbers: Numbers = input.read()?;
        match numbers.now().state {
            State::Inactive => return Ok(false),
            State::New => {
                self.mirror.borrow_mut().submitted(parts(&numbers, input, &self.opened));
                self.store.borrow_mut().begin(id);
            }
            _ => self.restore(&numbers, input),
        }
        if let Err(errno) = self.flux.job_subscribe(id) {
            self.log(Level::Error, &format!("job {id}: flux_jobtap_job_subscribe: {errno}"));
        }
        self.open.borrow_mut().seen = Some(id);
        Ok(true)
    }

    /// Updates the mirror from the arguments of a call. Returns the job's state.
    ///
    /// The mirror knows everything but R from the events, unless the state differs: then it has missed an event.
    pub(super) fn refresh(&self, id: JobId, input: &F::Json) -> State {
        let mut mirror = self.mirror.borrow_mut();
        let mirrored = mirror.job(id).map_or(State::New, Job::state);
        let state = input.integer(c"state").and_then(|state| u64::try_from(state).ok());
        let state = state.and_then(State::from_value).unwrap_or(mirrored);
        // See `hold`.
        let is_held = state == State::New && mirrored == State::Depend;
        if state != mirrored
            && !is_held
            && let Ok(numbers) = input.read::<Numbers>()
        {
            mirror.refresh(id, numbers.now());
        }
        if state >= State::Run
            && !mirror.has_resources(id)
            && let Some(resources) = lent_resources(input)
        {
            mirror.set_resources(id, resources);
        }
        state
    }

    /// Holds back the commands for an accepted job, which stays in NEW until Flux has stored its submission.
    ///
    /// Our engine puts such a job into DEPEND at once, and plugins rely on that: a timer that was set in
    /// `job.dependency.*` finds an active job. Here the timer may fire while the job is still in NEW. So plugins see
    /// the job in DEPEND, and their commands are carried out when it really is: Flux refuses a fatal exception in NEW,
    /// for example.
    pub(super) fn hold(&self, id: JobId) {
        self.open.borrow_mut().held.insert(id, Vec::new());
        let mut mirror = self.mirror.borrow_mut();
        if let Some(job) = mirror.job(id) {
            let now =
                JobNow { state: State::Depend, urgency: job.urgency(), priority: job.priority() };
            mirror.refresh(id, now);
        }
    }

    /// Adds a job that existed before the plugins were loaded.
    fn restore(&self, numbers: &Numbers, input: &F::Json) {
        let id = numbers.id;
        let key = format!("{}.eventlog", id.encode(Encoding::Kvs));
        let log = match self.flux.kvs_lookup(&key) {
            Ok(text) => decode_log(&text.unwrap_or_default()).unwrap_or_default(),
            Err(error) => {
                self.log(Level::Error, &format!("{key}: {error}"));
                Vec::new()
            }
        };
        let left = self.left_open(&log);
        if !left.is_empty() {
            self.open.borrow_mut().left.insert(id, left);
        }
        let mut mirror = self.mirror.borrow_mut();
        // The log contains updates of the jobspec, but Flux lends the jobspec with all updates. Applying them again
        // changes nothing.
        let failed = mirror.restored(parts(numbers, input, &self.opened), log);
        if let Some(resources) = lent_resources(input) {
            mirror.set_resources(id, resources);
        }
        drop(mirror);
        for error in failed {
            self.log(Level::Debug, &format!("job {id}: eventlog: {error}"));
        }
    }

    /// Returns the prologs and epilogs in an eventlog that plugins of this file have started but not finished.
    fn left_open(&self, log: &[EventEntry]) -> Vec<Left> {
        let mut open: Vec<Left> = Vec::new();
        for entry in log {
            let (kind, what, has_ended) = match entry.event() {
                Ok(Event::PrologStart { description }) => (Perilog::Prolog, description, false),
                Ok(Event::EpilogStart { description }) => (Perilog::Epilog, description, false),
                Ok(Event::PrologFinish { description, .. }) => (Perilog::Prolog, description, true),
                Ok(Event::EpilogFinish { description, .. }) => (Perilog::Epilog, description, true),
                _ => continue,
            };
            let known = open.iter().position(|left| left.kind == kind && left.what == what);
            match (has_ended, known) {
                (true, Some(index)) => drop(open.remove(index)),
                (true, None) => {}
                (false, _) => {
                    // Only events of this adapter have this member; see `post_start`.
                    let plugin = entry.context.as_ref().and_then(|context| context.get("plugin"));
                    if let Some(plugin) = plugin.and_then(Value::as_str) {
                        let (what, plugin) = (what.to_owned(), plugin.to_owned());
                        open.push(Left { kind, what, plugin });
                    }
                }
            }
        }
        let stack = self.stack.borrow();
        open.retain(|left| stack.find(&left.plugin).is_some());
        open
    }

    /// Continues the work for a job that existed before the file was loaded. Called after its `job.new`.
    pub(super) fn take_up(&self, id: JobId, state: State) {
        if state == State::Priority {
            // Flux doesn't call job.state.priority again, but the job may be waiting for a plugin that was computing
            // its priority.
            let handlers = self.stack.borrow().handlers(TopicId::JobStatePriority).cloned();
            let detail = Detail::State { prev: None, entry: None };
            let subject = Subject::Mirrored(id);
            if let Some(handlers) = handlers.filter(|handlers| !handlers.is_empty()) {
                let dispatched =
                    self.dispatch(TopicId::JobStatePriority, &handlers, subject, detail);
                if let Priority::Set(priority) = dispatched.outcome.priority {
                    // Fails if the job has left PRIORITY meanwhile.
                    let _ = self.flux.reprioritize_job(id, priority);
                }
            }
        }
        if state == State::Depend {
            self.take_up_dependencies(id);
        }
        let left = self.open.borrow_mut().left.remove(&id).unwrap_or_default();
        for Left { kind, what, plugin } in left {
            self.take_up_perilog(id, kind, &what, &plugin);
        }
    }

    /// Restarts the work of asynchronous `job.state.depend` handlers, which Flux doesn't call after a restart.
    fn take_up_dependencies(&self, id: JobId) {
        let handlers = self.stack.borrow().handlers(TopicId::JobStateDepend).cloned();
        let (mut again, mut failed) = (Vec::new(), Vec::new());
        {
            let mirror = self.mirror.borrow();
            let Some(job) = mirror.job(id) else { return };
            for bound in handlers.iter().flat_map(|list| list.iter()) {
                let what = bound.work_description(None);
                if bound.entry().policy.is_none() || job.dependency(&what).is_none() {
                    continue;
                }
                match reruns(bound, true) {
                    true => again.push(bound.clone()),
                    false => failed.push(what),
                }
            }
        }
        for what in failed {
            let note =
                format!("dependency {what}: the job manager was restarted while it was open");
            if let Err(errno) = self.flux.raise_exception(id, "dependency", 0, &note) {
                self.log(Level::Error, &format!("job {id}: {note}: {errno}"));
            }
        }
        let detail = Detail::State { prev: None, entry: None };
        self.dispatch(TopicId::JobStateDepend, &again, Subject::Mirrored(id), detail);
    }

    /// Handles a prolog or epilog that its plugin hasn't taken over in `job.new`: a handler with
    /// `on_restart = "rerun"` starts its work again; otherwise the prolog or epilog has failed.
    fn take_up_perilog(&self, id: JobId, kind: Perilog, what: &str, plugin: &str) {
        let is_open =
            self.mirror.borrow().orphans(id).iter().any(|(of, w)| *of == kind && w == what);
        if !is_open {
            return;
        }
        let topic = match kind {
            Perilog::Prolog => TopicId::JobStateRun,
            Perilog::Epilog => TopicId::JobStateCleanup,
        };
        let handlers = self.stack.borrow().handlers(topic).cloned();
        let again: Vec<BoundHandler> = handlers
            .iter()
            .flat_map(|list| list.iter())
            .filter(|bound| **bound.instance().name() == *plugin && reruns(bound, false))
            .filter(|bound| bound.work_description(None) == what)
            .cloned()
            .collect();
        let detail = Detail::State { prev: None, entry: None };
        self.dispatch(topic, &again, Subject::Mirrored(id), detail);
        let is_open =
            self.mirror.borrow().orphans(id).iter().any(|(of, w)| *of == kind && w == what);
        if is_open {
            let word = kind.word();
            let note = format!("{word} {what}: the job manager was restarted while it was open");
            self.finish_lost(id, kind, what, Some(note));
        }
    }
}

/// Whether the work of an asynchronous handler starts again after a restart; `default` if the handler doesn't
/// declare it.
fn reruns(bound: &BoundHandler, default: bool) -> bool {
    let policy = bound.entry().policy;
    policy.is_some_and(|policy| {
        policy.on_restart.map_or(default, |declared| declared == OnRestart::Rerun)
    })
}
