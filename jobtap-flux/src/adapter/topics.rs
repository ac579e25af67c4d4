//! Handles a call by Flux: its topic, its arguments and its answer.

use std::sync::atomic::Ordering;

use jobtap_core::eventlog::{Context, Event, EventEntry, Name};
use jobtap_core::host::{BoundHandler, Decisions, Detail, Handlers};
use jobtap_core::job::{JobId, State, Uid};
use jobtap_core::jobspec::Dependency;
use jobtap_core::plugin::{Cred, Level, Perilog, Priority, UpdateRequest};
use jobtap_core::topic::TopicId;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::commands::merge;
use super::frame::{Dispatched, Subject};
use super::known::lent_jobspec;
use super::{Adapter, Answer};
use crate::flux::{Flux, Lend, ReadError};

/// Flux's number for a priority that isn't known yet.
const UNAVAILABLE: i64 = -2;

/// A topic of Flux about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobTopic<'t> {
    /// A topic without members.
    Plain(TopicId),
    /// `job.event.NAME`
    Event(&'t str),
    /// `job.dependency.SCHEME`
    Dependency(&'t str),
    /// `job.update.KEY`
    UpdateKey(&'t str),
}

impl<'t> JobTopic<'t> {
    pub(super) fn parse(topic: &'t str) -> Option<Self> {
        // A match instead of a search in a table, since the compiler turns it into few comparisons, and every call
        // needs it.
        let plain = match topic {
            "job.create" => TopicId::JobCreate,
            "job.validate" => TopicId::JobValidate,
            "job.new" => TopicId::JobNew,
            "job.state.depend" => TopicId::JobStateDepend,
            "job.state.priority" => TopicId::JobStatePriority,
            "job.state.sched" => TopicId::JobStateSched,
            "job.state.run" => TopicId::JobStateRun,
            "job.state.cleanup" => TopicId::JobStateCleanup,
            "job.state.inactive" => TopicId::JobStateInactive,
            "job.priority.get" => TopicId::JobPriorityGet,
            "job.update" => TopicId::JobUpdate,
            "job.inactive-add" => TopicId::JobInactiveAdd,
            "job.destroy" => TopicId::JobDestroy,
            "job.inactive-remove" => TopicId::JobInactiveRemove,
            _ => return Self::member(topic),
        };
        Some(Self::Plain(plain))
    }

    fn member(topic: &'t str) -> Option<Self> {
        let member = |family: &str| topic.strip_prefix(family);
        if let Some(name) = member("job.event.") {
            Some(Self::Event(name))
        } else if let Some(scheme) = member("job.dependency.") {
            Some(Self::Dependency(scheme))
        } else {
            member("job.update.").map(Self::UpdateKey)
        }
    }

    /// Whether the answer to this topic may contain annotations.
    fn takes_annotations(self) -> bool {
        matches!(self, Self::Plain(id) if !matches!(id, TopicId::JobCreate | TopicId::JobValidate | TopicId::JobPriorityGet))
    }
}

/// Why the arguments of a call aren't about a job.
#[derive(Debug, thiserror::Error)]
enum ArgumentsError {
    #[error("there is no job id")]
    NoJobId,
    #[error(transparent)]
    Job(#[from] ReadError),
}

impl<F: Flux> Adapter<F> {
    /// Handles a call by Flux.
    pub fn call(&self, topic: &str, input: Option<&F::Json>) -> Answer {
        let nested = self.nested();
        let answer = self.route(topic, input);
        drop(nested);
        self.settle();
        answer
    }

    fn route(&self, topic: &str, input: Option<&F::Json>) -> Answer {
        match (topic, JobTopic::parse(topic), input) {
            ("conf.update", _, input) => self.update_config(input),
            ("plugin.query", _, _) => self.query(),
            (_, Some(topic), Some(input)) => match self.call_about_job(topic, input) {
                Ok(answer) => answer,
                Err(error) => refused(format!("jobtap: arguments of {topic:?}: {error}")),
            },
            _ => Answer::default(),
        }
    }

    fn call_about_job(
        &self,
        topic: JobTopic<'_>,
        input: &F::Json,
    ) -> Result<Answer, ArgumentsError> {
        let id = input.integer(c"id").ok_or(ArgumentsError::NoJobId)?;
        // Flux's ids are unsigned, and jansson's integers are not.
        let id = JobId::new(id.cast_unsigned());
        if !self.know(id, input)? {
            return Ok(match (topic, self.job_of(input)) {
                (JobTopic::Plain(topic), Some(job)) => {
                    self.call_plain(topic, Subject::Other(&job), input)
                }
                _ => Answer::default(),
            });
        }
        if let JobTopic::Event(name) = topic {
            return Ok(self.event(id, name, input));
        }
        let state = self.refresh(id, input);
        if topic.takes_annotations() {
            self.answers.borrow_mut().push((id, Map::new()));
        }
        let mut answer = match topic {
            JobTopic::Event(_) => Answer::default(),
            JobTopic::Dependency(scheme) => self.dependency(id, scheme, input),
            JobTopic::UpdateKey(key) => self.update_key(id, key, input),
            JobTopic::Plain(TopicId::JobValidate) => self.validate(id, state, input),
            JobTopic::Plain(plain) => self.plain(plain, id, state, input),
        };
        if topic.takes_annotations()
            && let Some((_, notes)) = self.answers.borrow_mut().pop()
            && !notes.is_empty()
        {
            let mine = answer.out.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(mine) = mine {
                merge(mine, notes);
            }
        }
        Ok(answer)
    }

    fn handlers(&self, topic: TopicId) -> Option<Handlers> {
        let handlers = self.stack.borrow().handlers(topic).cloned();
        handlers.filter(|handlers| !handlers.is_empty())
    }

    fn plain(&self, topic: TopicId, id: JobId, state: State, input: &F::Json) -> Answer {
        let is_introduced = topic == TopicId::JobNew && state != State::New;
        if topic == TopicId::JobNew {
            self.mirror.borrow_mut().accept(id);
            self.store.borrow_mut().accept(id);
        }
        self.opened.store(false, Ordering::Relaxed);
        let answer = self.call_plain(topic, Subject::Mirrored(id), input);
        match topic {
            // The most frequent call. If it didn't read the whole jobspec, skip `close_jobspec`, which would cost as
            // much as everything else.
            TopicId::JobPriorityGet if !self.opened.load(Ordering::Relaxed) => {}
            _ if is_introduced => self.take_up(id, state),
            TopicId::JobNew => self.hold(id),
            // The job may stay in its state for long, so free the copy of the jobspec that handlers have read.
            TopicId::JobStateDepend
            | TopicId::JobStateSched
            | TopicId::JobStateRun
            | TopicId::JobPriorityGet => {
                self.mirror.borrow_mut().close_jobspec(id, || lent_jobspec(input, &self.opened));
            }
            TopicId::JobDestroy => self.drop_job(id),
            _ => {}
        }
        answer
    }

    fn call_plain(&self, topic: TopicId, subject: Subject<'_>, input: &F::Json) -> Answer {
        let Some(handlers) = self.handlers(topic) else { return Answer::default() };
        let (entry, updates): (Option<EventEntry>, Context);
        let detail = if topic.is_state_topic() {
            entry = input.get("entry").and_then(|entry| entry.read().ok());
            let prev = input.get("prev_state").and_then(|prev| prev.read().ok());
            Detail::State { prev: prev.and_then(State::from_value), entry: entry.as_ref() }
        } else if topic == TopicId::JobUpdate {
            updates =
                input.get("updates").and_then(|updates| updates.read().ok()).unwrap_or_default();
            Detail::Updates(&updates)
        } else {
            Detail::None
        };
        answer_of(self.dispatch(topic, &handlers, subject, detail))
    }

    /// Handles `job.validate`. When a user updates a job, Flux passes the jobspec as it would be after the update.
    fn validate(&self, id: JobId, state: State, input: &F::Json) -> Answer {
        let topic = TopicId::JobValidate;
        if state == State::New {
            return self.call_plain(topic, Subject::Mirrored(id), input);
        }
        let kept = self.mirror.borrow_mut().replace_jobspec(id, lent_jobspec(input, &self.opened));
        let answer = self.call_plain(topic, Subject::Mirrored(id), input);
        if let Some(kept) = kept {
            self.mirror.borrow_mut().replace_jobspec(id, kept);
        }
        answer
    }

    fn dependency(&self, id: JobId, scheme: &str, input: &F::Json) -> Answer {
        let handlers = self.stack.borrow().members(TopicId::JobDependency, scheme, |_| true);
        let value: Value =
            input.get("dependency").and_then(|value| value.read().ok()).unwrap_or_default();
        match Dependency::from_value(&value) {
            Ok(dependency) => {
                let detail = Detail::Dependency(&dependency);
                let subject = Subject::Mirrored(id);
                answer_of(self.dispatch(TopicId::JobDependency, &handlers, subject, detail))
            }
            Err(error) => refused(error.to_string()),
        }
    }

    fn update_key(&self, id: JobId, key: &str, input: &F::Json) -> Answer {
        #[derive(Deserialize)]
        struct Raw {
            key: String,
            #[serde(default)]
            value: Value,
            cred: RawCred,
        }
        #[derive(Deserialize)]
        struct RawCred {
            userid: u32,
            rolemask: u32,
        }
        let Raw { key: full, value, cred } = match input.read() {
            Ok(raw) => raw,
            Err(error) => {
                return refused(format!("jobtap: arguments of job.update.{key}: {error}"));
            }
        };
        let owner = cred.rolemask & OWNER_ROLE != 0;
        let cred = Cred { userid: Uid(cred.userid), owner };
        let request = UpdateRequest { cred, key: full, value };
        let handlers = self.stack.borrow().members(TopicId::JobUpdateKey, key, |_| true);
        let detail = Detail::UpdateRequest(&request);
        answer_of(self.dispatch(TopicId::JobUpdateKey, &handlers, Subject::Mirrored(id), detail))
    }

    /// Handles `job.event.NAME`: applies the event to the mirror, then calls the plugins that have subscribed.
    fn event(&self, id: JobId, name: &str, input: &F::Json) -> Answer {
        let Some(Ok(entry)) = input.get("entry").map(|entry| entry.read::<EventEntry>()) else {
            return Answer::default();
        };
        // Apply the event before `refresh` sets the new state: its effect depends on the state before.
        if let Err(error) = self.mirror.borrow_mut().apply(id, entry.clone()) {
            self.log(Level::Debug, &format!("job {id}: {name}: {error}"));
        }
        self.refresh(id, input);
        self.follow(id, &entry);
        let handlers = {
            let (open, stack) = (self.open.borrow(), self.stack.borrow());
            match open.subscribers.get(&id) {
                Some(subscribers) if stack.handles(TopicId::JobEvent) => {
                    let includes = |key| subscribers.contains(&key);
                    stack.members(TopicId::JobEvent, name, includes)
                }
                _ => Handlers::default(),
            }
        };
        let subject = Subject::Mirrored(id);
        // Flux ignores the answer to an event.
        self.dispatch(TopicId::JobEvent, &handlers, subject, Detail::Event(&entry));
        Answer::default()
    }

    /// Does for plugins what depends on an event, such as aborting work that has become obsolete.
    fn follow(&self, id: JobId, entry: &EventEntry) {
        match entry.event() {
            Ok(Event::DependencyAdd { description }) => {
                self.open.borrow_mut().additions.remove(&(id, description.to_owned()));
            }
            Ok(Event::DependencyRemove { description }) => {
                self.open.borrow_mut().removals.remove(&(id, description.to_owned()));
            }
            Ok(Event::Validate) => self.release(id),
            _ => {}
        }
        if self.state(id) == Some(State::Cleanup) {
            self.start_waiting_epilogs(id);
        }
        let obsolete = self.mirror.borrow_mut().abort_obsolete(id);
        for work in obsolete.into_iter().filter(|work| work.has_prolog) {
            // The aborted work can't finish its prolog any more.
            self.finish_lost(id, Perilog::Prolog, &work.what, None);
        }
        let has_ended = entry.fatal_exception().is_some() || entry.name == Name::Clean;
        if has_ended {
            let waiting = self.open.borrow_mut().at_end.remove(&id).unwrap_or_default();
            for (plugin, work) in waiting {
                self.resume(plugin, work);
            }
        }
    }

    /// Drops everything about a job that is inactive or was rejected.
    fn drop_job(&self, id: JobId) {
        self.mirror.borrow_mut().remove(id);
        self.store.borrow_mut().forget(id);
        let mut open = self.open.borrow_mut();
        open.subscribers.remove(&id);
        open.left.remove(&id);
        open.held.remove(&id);
        open.epilogs.remove(&id);
        open.additions.retain(|(job, _)| *job != id);
        open.removals.retain(|(job, _)| *job != id);
        let waiting = open.at_end.remove(&id);
        drop(open);
        for (plugin, work) in waiting.unwrap_or_default() {
            self.resume(plugin, work);
        }
    }

    /// Handles `plugin.query`. The data of a single plugin is at the top level; with several plugins in the file, each
    /// has a member with its name.
    fn query(&self) -> Answer {
        let Some(handlers) = self.handlers(TopicId::PluginQuery) else { return Answer::default() };
        let is_alone = self.linked.len() == 1;
        let mut answer = Answer::default();
        for bound in handlers.iter() {
            let one = std::slice::from_ref(bound);
            let Dispatched { outcome, refusal } =
                self.dispatch(TopicId::PluginQuery, one, Subject::None, Detail::None);
            if refusal.is_some() {
                return Answer { refusal, ..Answer::default() };
            }
            let report = outcome.decisions().query.unwrap_or_default();
            match is_alone {
                true => answer.out.extend(report),
                false => {
                    let name = bound.instance().name().to_string();
                    answer.out.insert(name, Value::Object(report));
                }
            }
        }
        answer
    }

    /// Returns the first handler of a topic that belongs to this plugin.
    pub(super) fn handler_of(&self, topic: TopicId, name: &str) -> Option<BoundHandler> {
        let handlers = self.handlers(topic)?;
        handlers.iter().find(|bound| **bound.instance().name() == *name).cloned()
    }
}

/// The bit in a role mask that stands for the instance owner.
pub(super) const OWNER_ROLE: u32 = 1;

pub(super) fn refused(text: String) -> Answer {
    Answer { refusal: Some(text), ..Answer::default() }
}

/// Converts the result of a dispatch into the answer to Flux.
fn answer_of(dispatched: Dispatched) -> Answer {
    let Dispatched { outcome, refusal } = dispatched;
    let priority = match outcome.priority {
        Priority::Set(priority) => Some(i64::from(priority)),
        Priority::Unavailable => Some(UNAVAILABLE),
        Priority::Unchanged => None,
    };
    let mut answer = Answer { refusal, priority, out: Map::new() };
    let Decisions { annotations, resources, update, .. } = outcome.decisions();
    if let Some(annotations) = annotations {
        answer.out.insert("annotations".to_owned(), Value::Object(annotations));
    }
    if let Some(resources) = resources {
        answer.out.insert("R".to_owned(), resources.to_value());
    }
    if let Some(update) = update {
        answer.out.insert("validated".to_owned(), i32::from(update.validated).into());
        answer.out.insert("feasibility".to_owned(), i32::from(update.feasibility).into());
        if !update.further.is_empty() {
            answer.out.insert("updates".to_owned(), Value::Object(update.further));
        }
    }
    answer
}
