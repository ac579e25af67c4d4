//! One callback: the host that its handler sees, and the commands that it asks for.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use elsa::FrozenMap;
use jobtap_core::engine::Mirror;
use jobtap_core::host::{
    Args, BoundHandler, Command, Detail, Failure, Fault, Host, HostKind, LoadedPlugin, Outcome,
    PluginKey, RemoteHandle, call_own_handlers,
};
use jobtap_core::job::{Job, JobId, Timestamp, Uid};
use jobtap_core::plugin::{CallError, Level, Priority};
use jobtap_core::queue::Queues;
use jobtap_core::resource::ResourceSet;
use jobtap_core::topic::{OnFailure, TopicId};
use serde_json::Value;

use super::Adapter;
use super::queued::Queued;
use crate::flux::Flux;

/// The commands that handlers ask for during one callback.
#[derive(Debug, Default)]
struct Buffer {
    commands: RefCell<Vec<Queued>>,
    /// The jobs in the mirror that already show these commands to the callback.
    noted: RefCell<Vec<JobId>>,
    /// The plugins that have panicked in an own topic, which another plugin has called.
    panicked: RefCell<Vec<(PluginKey, String)>>,
}

impl Buffer {
    fn drop_updates(&self, from: usize) {
        let mut index = 0;
        self.commands.borrow_mut().retain(|queued| {
            index += 1;
            index <= from || !matches!(queued.command, Command::UpdateJobspec { .. })
        });
    }
}

/// The result of one callback, with its commands.
pub(super) struct Called {
    pub(super) result: Result<Outcome, Fault>,
    /// The commands that it has asked for; none if it has panicked.
    pub(super) commands: Vec<Queued>,
    panicked: Vec<(PluginKey, String)>,
}

/// The result of a dispatch.
#[derive(Debug, Default)]
pub(super) struct Dispatched {
    pub(super) outcome: Outcome,
    /// Set if a gate refuses: the text for the user.
    pub(super) refusal: Option<String>,
}

/// The host of one callback.
struct Frame<'e, F: Flux> {
    adapter: &'e Adapter<F>,
    mirror: &'e Mirror,
    plugin: Cell<&'e LoadedPlugin>,
    current: Option<&'e Job>,
    queues: &'e Queues,
    resources: &'e ResourceSet,
    buffer: &'e Buffer,
    /// Inactive jobs, which the mirror doesn't have, and which were looked up.
    looked_up: FrozenMap<JobId, Box<Job>>,
}

impl<F: Flux> Host for Frame<'_, F> {
    fn now(&self) -> Timestamp {
        Timestamp(self.adapter.flux.now())
    }

    fn owner(&self) -> Uid {
        self.adapter.owner
    }

    fn instance_resources(&self) -> &ResourceSet {
        self.resources
    }

    fn current(&self) -> Option<JobId> {
        self.current.map(Job::id)
    }

    fn job(&self, id: JobId) -> Option<&Job> {
        if let Some(job) = self.current.filter(|job| job.id() == id) {
            return Some(job);
        }
        if let Some(job) = self.mirror.job(id).or_else(|| self.looked_up.get(&id)) {
            return Some(job);
        }
        let job = self.adapter.look_up(id)?;
        Some(self.looked_up.insert(id, Box::new(job)))
    }

    fn active_jobs(&self) -> Vec<JobId> {
        self.mirror.active()
    }

    fn retainable(&self, _: JobId) -> Option<ResourceSet> {
        None
    }

    fn data(&self, id: JobId) -> Option<Value> {
        let plugin = self.plugin.get();
        let written = self.find_last(|command| match command {
            Command::SetData { job, value, .. } if *job == id => Some(value.clone()),
            _ => None,
        });
        written.or_else(|| self.adapter.data(plugin.name(), id))
    }

    fn instance_data(&self) -> Option<Value> {
        let written = self.find_last(|command| match command {
            Command::SetInstanceData { value, .. } => Some(value.clone()),
            _ => None,
        });
        written.or_else(|| self.adapter.instance_data(self.plugin.get().name()))
    }

    fn queues(&self) -> &Queues {
        self.queues
    }

    fn call_own_topic(
        &self,
        topic: &'static str,
        job: Option<JobId>,
        payload: &dyn Any,
    ) -> Result<Vec<Box<dyn Any>>, CallError> {
        let handlers = self.adapter.stack.borrow().own(topic);
        call_own_handlers(self, topic, &handlers, job, |bound, job| {
            let mark = self.buffer.commands.borrow().len();
            let inner = Frame {
                adapter: self.adapter,
                mirror: self.mirror,
                plugin: Cell::new(bound.instance()),
                current: job,
                queues: self.queues,
                resources: self.resources,
                buffer: self.buffer,
                looked_up: FrozenMap::new(),
            };
            let detail = Detail::Own(payload);
            let args = Args { host: &inner, topic: TopicId::Unlisted, job, detail };
            let result = bound.call(&args, &self.adapter.ticks).0;
            match result.as_ref().map_err(|fault| &**fault) {
                Ok(_) | Err(Fault::Busy) => {}
                Err(Fault::Failure(_)) => {
                    self.buffer.drop_updates(mark);
                    self.mirror.undo(&self.buffer.noted.borrow(), mark, true);
                }
                Err(Fault::Panic(text)) => {
                    self.buffer.commands.borrow_mut().truncate(mark);
                    self.mirror.undo(&self.buffer.noted.borrow(), mark, false);
                    self.buffer.panicked.borrow_mut().push((bound.plugin(), text.clone()));
                }
            }
            result
        })
    }

    fn call(&self, command: Command) -> Result<(), CallError> {
        let plugin = self.plugin.get();
        let served = HostKind::Flux.check_call(&command);
        served.inspect_err(|error| self.adapter.log_unsupported_call(plugin, error))?;
        self.mirror.check(plugin.key(), &command)?;
        self.push(command);
        Ok(())
    }

    fn push(&self, command: Command) {
        let mut commands = self.buffer.commands.borrow_mut();
        if let Some(id) = self.mirror.note(commands.len(), &command) {
            self.buffer.noted.borrow_mut().push(id);
        }
        commands.push(Queued { plugin: self.plugin.get().key(), command });
    }

    fn remote(&self) -> RemoteHandle {
        self.plugin.get().remote().clone()
    }
}

impl<F: Flux> Frame<'_, F> {
    /// Searches this plugin's commands, the newest first.
    fn find_last<R>(&self, look: impl Fn(&Command) -> Option<R>) -> Option<R> {
        let plugin = self.plugin.get().key();
        let commands = self.buffer.commands.borrow();
        let mut own = commands.iter().rev().filter(|queued| queued.plugin == plugin);
        own.find_map(|queued| look(&queued.command))
    }
}

/// The job of a callback.
#[derive(Clone, Copy)]
pub(super) enum Subject<'a> {
    /// No job.
    None,
    /// A job that the mirror has.
    Mirrored(JobId),
    /// A job that the mirror doesn't have: an inactive one.
    Other(&'a Job),
}

impl Subject<'_> {
    pub(super) fn id(self) -> Option<JobId> {
        match self {
            Subject::None => None,
            Subject::Mirrored(id) => Some(id),
            Subject::Other(job) => Some(job.id()),
        }
    }
}

impl<F: Flux> Adapter<F> {
    /// Runs `call` with the host of one callback. Also returns the commands that were asked for.
    fn in_frame<R>(
        &self,
        plugin: &LoadedPlugin,
        subject: Subject<'_>,
        call: impl FnOnce(&dyn Host, Option<&Job>) -> R,
    ) -> (R, Buffer) {
        let buffer = Buffer::default();
        let (queues, resources) = {
            let instance = self.instance.borrow();
            (Rc::clone(&instance.queues), Rc::clone(&instance.resources))
        };
        let result = {
            let mirror = self.mirror.borrow();
            let current = match subject {
                Subject::None => None,
                Subject::Mirrored(id) => mirror.job(id),
                Subject::Other(job) => Some(job),
            };
            let frame = Frame {
                adapter: self,
                mirror: &mirror,
                plugin: Cell::new(plugin),
                current,
                queues: &queues,
                resources: &resources,
                buffer: &buffer,
                looked_up: FrozenMap::new(),
            };
            call(&frame, current)
        };
        let noted = std::mem::take(&mut *buffer.noted.borrow_mut());
        if !noted.is_empty() {
            self.mirror.borrow_mut().forget(noted);
        }
        (result, buffer)
    }

    /// Calls one handler. The caller must carry out the commands.
    pub(super) fn call_one(
        &self,
        bound: &BoundHandler,
        topic: TopicId,
        subject: Subject<'_>,
        detail: Detail<'_>,
    ) -> Called {
        let (result, buffer) = self.in_frame(bound.instance(), subject, |host, job| {
            bound.call(&Args { host, topic, job, detail }, &self.ticks).0
        });
        let result = result.map_err(|fault| *fault);
        match &result {
            Ok(_) => {}
            Err(Fault::Panic(_)) => buffer.commands.borrow_mut().clear(),
            // A handler that fails doesn't change the jobspec. Its other commands, such as a log line or the end of
            // its prolog, are carried out.
            Err(_) => buffer.drop_updates(0),
        }
        let (commands, panicked) = (buffer.commands.into_inner(), buffer.panicked.into_inner());
        Called { result, commands, panicked }
    }

    /// Calls back into a plugin outside of any topic and carries out the commands.
    pub(super) fn call_back(
        &self,
        plugin: &LoadedPlugin,
        call: impl for<'a> FnOnce(&mut dyn Any, &'a Args<'a>),
    ) {
        let (called, buffer) = self.in_frame(plugin, Subject::None, |host, _| {
            let args = Args::new(host, TopicId::Unlisted);
            plugin.call_outside_topics(&self.ticks, |plugin| call(plugin, &args))
        });
        // `None` if the plugin is being called, which is impossible: during a callback the reactor runs nothing else.
        let Some((result, _)) = called else { return };
        let panicked = buffer.panicked.into_inner();
        match result {
            Ok(()) => self.carry_out("later", buffer.commands.into_inner()),
            Err(panicked) => {
                self.log(Level::Error, &format!("{}: later: {panicked}", plugin.name()));
                self.note_panic(plugin.key());
            }
        }
        self.note_panics(panicked);
    }

    /// Calls the handlers of a topic, in stack order.
    pub(super) fn dispatch(
        &self,
        topic: TopicId,
        handlers: &[BoundHandler],
        subject: Subject<'_>,
        detail: Detail<'_>,
    ) -> Dispatched {
        let mut dispatched = Dispatched::default();
        let is_gate = topic.on_failure() == OnFailure::Reject;
        for bound in handlers {
            if bound.is_out_of_service() {
                if bound.instance().is_faulted() {
                    if is_gate && !bound.only_observes() {
                        let name = bound.instance().name();
                        dispatched.refusal = Some(format!(
                            "plugin {name} has failed repeatedly: what it decides about is refused until an \
                             administrator reloads it"
                        ));
                        return dispatched;
                    }
                    if bound.sets_priority() {
                        dispatched.outcome.merge(Outcome::priority(Priority::Unavailable));
                    }
                }
                continue;
            }
            let called = self.call_one(bound, topic, subject, detail);
            self.carry_out(bound.entry().topic, called.commands);
            self.note_panics(called.panicked);
            match called.result {
                Ok(outcome) => dispatched.outcome.merge(outcome),
                Err(fault) => {
                    let refusal = self.handle_fault(bound, subject.id(), fault);
                    if is_gate {
                        dispatched.refusal = Some(refusal);
                        return dispatched;
                    }
                }
            }
        }
        dispatched
    }

    /// Logs and counts the failure of a handler. Returns the text with which a gate refuses.
    fn handle_fault(&self, bound: &BoundHandler, job: Option<JobId>, fault: Fault) -> String {
        let name = bound.instance().name();
        let has_panicked = matches!(fault, Fault::Panic(_));
        let (refusal, report) = match fault {
            // A text of the plugin's author for the user, which isn't a fault of the plugin.
            Fault::Failure(Failure::Reject(text)) => (text, None),
            Fault::Failure(failure) => (failure.text().to_owned(), Some(failure.text().to_owned())),
            Fault::Panic(text) => (
                format!("plugin {name} failed; what was asked is refused, please report it"),
                Some(format!("panicked: {text}")),
            ),
            Fault::Busy => (String::new(), Some("called while it is being called".to_owned())),
        };
        if let Some(text) = report {
            let job = job.map(|id| format!(" job {id}:")).unwrap_or_default();
            let topic = bound.entry().full_name();
            self.log(Level::Error, &format!("{name}: {topic}:{job} {text}"));
        }
        if has_panicked {
            self.note_panic(bound.plugin());
        }
        match refusal.is_empty() {
            true => format!("rejected by job-manager plugin '{name}'"),
            false => refusal,
        }
    }
}
