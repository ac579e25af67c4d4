//! A request on its way through the plugins.
//!
//! The handlers of `slurm.job_submit` or `slurm.job_modify` are called one after the other. Each sees the
//! changes of those before it, and waits until an asynchronous one has ended. If all have accepted a
//! submission, the handlers of `job.validate` and then those of `job.state.priority` are called with the job
//! that it describes. If all have accepted a modification, those of `job.validate` are called with the job as it
//! will be, so that no user gets by a change what no submission would get. The first refusal ends the request.

use std::rc::Rc;

use futures_util::future::AbortHandle;
use jobtap_core::host::{
    AsyncError, BoundHandler, Detail, Failure, Fault, Handlers, PluginFuture, PluginKey,
    RequestAnswer, RequestKey, SlurmRequest,
};
use jobtap_core::job::{JobId, State, Uid};
use jobtap_core::jobspec::{Jobspec, path};
use jobtap_core::plugin::{Level, Priority};
use jobtap_core::slurm::{JobDescriptor, SlurmError, errno};
use jobtap_core::topic::TopicId;
use serde_json::{Map, Value};

use super::commands::spawn;
use super::core::Core;
use super::messages::{Answer, Reply, Request};
use super::open::Chain;
use crate::job;

/// Returns the topic that follows this one in a submission, or in the modification of a job.
fn after(topic: TopicId, modifies: bool) -> Option<TopicId> {
    match topic {
        TopicId::SlurmJobSubmit | TopicId::SlurmJobModify => Some(TopicId::JobValidate),
        TopicId::JobValidate if !modifies => Some(TopicId::JobStatePriority),
        _ => None,
    }
}

impl Core {
    pub(super) fn begin_request(
        &mut self,
        key: RequestKey,
        request: Request,
        reply: Reply<Answer>,
    ) {
        let user = Uid(request.user);
        let Request { descriptor, partitions, record, .. } = request;
        let request = SlurmRequest::new(key, user, descriptor);
        // Set the partitions and the record, so that the SDK doesn't derive them from the queues and the job of the
        // host, which this host doesn't have.
        let _ = request.partitions.set(partitions);
        let topic = match record {
            None => TopicId::SlurmJobSubmit,
            Some(_) => TopicId::SlurmJobModify,
        };
        let job = record.as_ref().map(job::of_record);
        if let Some(record) = record {
            let _ = request.record.set(record);
        }
        let handlers = self.handlers(topic);
        let (messages, awaited, refusal, priority) = Default::default();
        let next = 0;
        let chain = Chain {
            request,
            topic,
            job,
            handlers,
            next,
            awaited,
            messages,
            priority,
            refusal,
            reply,
        };
        self.chains.insert(key, Box::new(chain));
        self.run_request(key);
    }

    fn handlers(&self, topic: TopicId) -> Handlers {
        self.stack.handlers(topic).map(Rc::clone).unwrap_or_default()
    }

    /// Calls the next handlers until the request has to wait for one, is refused, or all have been called.
    fn run_request(&mut self, key: RequestKey) {
        loop {
            let Some(chain) = self.chains.get_mut(&key) else { return };
            if chain.awaited.is_some() {
                return;
            }
            if chain.refusal.is_some() {
                return self.answer_request(key);
            }
            match chain.handlers.get(chain.next).cloned() {
                Some(bound) => {
                    chain.next += 1;
                    self.call_for_request(key, &bound);
                }
                None if self.begin_next_topic(key) => {}
                None => return self.answer_request(key),
            }
        }
    }

    fn call_for_request(&mut self, key: RequestKey, bound: &BoundHandler) {
        let Some(chain) = self.chains.get(&key) else { return };
        let topic = chain.topic;
        let detail = match topic {
            TopicId::JobValidate => Detail::None,
            TopicId::JobStatePriority => Detail::State { prev: None, entry: None },
            _ => Detail::Slurm(&chain.request),
        };
        let job = chain.job.as_ref().or_else(|| self.mirror.job(job::job_of(key)));
        let called = self.call(bound, topic, job, detail);
        // Set this before the commands are carried out: one of them adds the work to wait for.
        let waits = match &called.result {
            Ok(outcome) => outcome.is_deferred() || outcome.priority == Priority::Unavailable,
            Err(_) => false,
        };
        if let Some(chain) = self.chains.get_mut(&key) {
            chain.awaited = waits.then(|| (bound.plugin(), None));
        }
        let result = self.settle(called);
        let refusal = match result {
            Ok(outcome) => {
                self.take_outcome(key, outcome.priority);
                return;
            }
            Err(fault) => self.refusal(topic, bound, *fault),
        };
        if let (Some(chain), Some(error)) = (self.chains.get_mut(&key), refusal) {
            chain.refuse(error);
        }
    }

    /// Notes a priority. If the priority is unavailable and no work will compute it, the request goes on without one.
    fn take_outcome(&mut self, key: RequestKey, priority: Priority) {
        let Some(chain) = self.chains.get_mut(&key) else { return };
        match priority {
            Priority::Set(_) => chain.priority = priority,
            Priority::Unavailable
                if chain.awaited.as_ref().is_some_and(|(_, work)| work.is_none()) =>
            {
                chain.awaited = None;
            }
            _ => {}
        }
    }

    /// Converts a fault of a handler into a refusal; `None` if the topic can't refuse.
    fn refusal(&self, topic: TopicId, bound: &BoundHandler, fault: Fault) -> Option<SlurmError> {
        let instance = bound.instance();
        let name = instance.name();
        let log = |text: &str| {
            self.log(instance, Level::Error, &format!("{}: {text}", topic.name()));
        };
        let error = match fault {
            Fault::Failure(Failure::Slurm(error)) => error,
            Fault::Failure(Failure::Reject(text)) => rejection(text),
            Fault::Failure(failure) => {
                log(failure.text());
                rejection(format!("plugin {name}: {}", failure.text()))
            }
            Fault::Panic(text) => {
                log(&format!("panicked: {text}"));
                rejection(format!("plugin {name} failed; the request is refused, please report it"))
            }
            Fault::Busy => rejection(format!("plugin {name}: called while it is being called")),
        };
        (!topic.is_state_topic()).then_some(error)
    }

    /// Goes on with the next topic of a request. Returns false if there is none.
    fn begin_next_topic(&mut self, key: RequestKey) -> bool {
        let next = self
            .chains
            .get(&key)
            .and_then(|chain| after(chain.topic, chain.request.record.get().is_some()));
        let Some(topic) = next else { return false };
        let handlers = self.handlers(topic);
        let Some(chain) = self.chains.get_mut(&key) else { return false };
        chain.topic = topic;
        chain.next = 0;
        let is_handled = !handlers.is_empty();
        chain.handlers = handlers;
        if !is_handled {
            return true;
        }
        let id = job::job_of(key);
        if self.mirror.job(id).is_none() {
            let desc = chain.request.descriptor.borrow();
            let described = match chain.request.record.get() {
                None => job::of_request(key, chain.request.user, &desc).map(Some),
                Some(record) => job::of_change(key, record, &desc),
            };
            match described {
                Ok(Some(parts)) => {
                    chain.job = None;
                    self.mirror.submitted(parts);
                }
                // A hold, for example: no job that is validated differs by that.
                Ok(None) => chain.handlers = Handlers::default(),
                Err(error) => {
                    drop(desc);
                    // Without a job the handlers can't be called, so the request can't be accepted.
                    chain.refuse(rejection(error.to_string()));
                }
            }
        }
        if topic == TopicId::JobStatePriority
            && let Some(job) = self.mirror.job(id)
        {
            let (urgency, priority) = (job.urgency(), job.priority());
            let now = jobtap_core::engine::JobNow { state: State::Priority, urgency, priority };
            self.mirror.refresh(id, now);
        }
        true
    }

    fn answer_request(&mut self, key: RequestKey) {
        let Some(chain) = self.chains.remove(&key) else { return };
        self.end_request(key);
        let Chain { request, messages, refusal, reply, priority, .. } = *chain;
        let mut descriptor = request.descriptor.into_inner();
        match priority {
            // A hold by the user overrides every plugin.
            Priority::Set(priority) if descriptor.priority != Some(0) => {
                // NO_VAL and the numbers above it have special meanings.
                let highest = jobtap_core::slurm::NO_VAL - 1;
                descriptor.priority = Some(priority.min(highest));
            }
            _ => {}
        }
        reply.send(Answer { descriptor, refusal, messages });
    }

    /// Drops the job and the data of a request that has ended.
    fn end_request(&mut self, key: RequestKey) {
        self.mirror.remove(job::job_of(key));
        self.forget_data(job::job_of(key));
    }

    /// Drops the plugins' data on a job when its request, prolog or epilog has ended.
    pub(super) fn forget_data(&mut self, job: JobId) {
        self.data.retain(|(_, of), _| *of != job);
    }

    /// Drops a request whose caller doesn't wait any more.
    pub(super) fn abandon_request(&mut self, key: RequestKey) {
        let Some(chain) = self.chains.remove(&key) else { return };
        self.end_request(key);
        if let Some((plugin, abort)) = &chain.awaited {
            abort.iter().for_each(AbortHandle::abort);
            let text = format!("{}: no answer in time", chain.topic.name());
            self.log_of(*plugin, Level::Error, &text);
        }
    }

    pub(super) fn note_message(&mut self, key: RequestKey, text: String) {
        if let Some(chain) = self.chains.get_mut(&key) {
            chain.messages.push(text);
        }
    }

    /// Runs the work of an asynchronous handler for which the request waits.
    pub(super) fn begin_request_work(
        &mut self,
        plugin: PluginKey,
        key: RequestKey,
        abort: AbortHandle,
        future: PluginFuture,
    ) {
        let chain = self.chains.get_mut(&key);
        let Some(awaited) = chain.and_then(|chain| chain.awaited.as_mut()) else { return };
        if awaited.0 == plugin {
            awaited.1 = Some(abort);
            spawn(future);
        }
    }

    /// Returns the request if it waits for this plugin, and ends the wait.
    fn awaited_from(&mut self, plugin: PluginKey, key: RequestKey) -> Option<&mut Chain> {
        let chain = self.chains.get_mut(&key)?;
        let awaits = chain.awaited.as_ref().is_some_and(|(awaited, _)| *awaited == plugin);
        awaits.then(|| {
            chain.awaited = None;
            &mut **chain
        })
    }

    /// Takes the decision of an asynchronous handler and goes on with the request.
    pub(super) fn take_answer(
        &mut self,
        plugin: PluginKey,
        key: RequestKey,
        answer: RequestAnswer,
    ) {
        let Some(chain) = self.awaited_from(plugin, key) else { return };
        match answer {
            RequestAnswer::Accept(None) => {}
            RequestAnswer::Accept(Some(descriptor)) => {
                *chain.request.descriptor.get_mut() = *descriptor;
            }
            RequestAnswer::Refuse(error) => chain.refuse(error),
            RequestAnswer::Failed(text) => {
                chain.refuse(rejection(text.clone()));
                let text = format!("{}: {text}", chain.topic.name());
                self.log_of(plugin, Level::Error, &text);
            }
        }
        self.run_request(key);
    }

    pub(super) fn take_verdict(
        &mut self,
        plugin: PluginKey,
        job: JobId,
        verdict: Result<(), AsyncError>,
    ) {
        let answer = match verdict {
            Ok(()) => RequestAnswer::Accept(None),
            Err(error) => RequestAnswer::Refuse(rejection(error.to_string())),
        };
        self.take_answer(plugin, job::request_of(job), answer);
    }

    /// Takes the priority that an asynchronous handler has computed and goes on with the request.
    pub(super) fn take_priority(&mut self, plugin: PluginKey, job: JobId, priority: Priority) {
        let key = job::request_of(job);
        let Some(chain) = self.awaited_from(plugin, key) else { return };
        if let Priority::Set(_) = priority {
            chain.priority = priority;
        }
        self.run_request(key);
    }

    /// Called when an asynchronous handler has ended. If it has set no priority, the request goes on without one.
    pub(super) fn end_request_work(&mut self, plugin: PluginKey, job: JobId) {
        let key = job::request_of(job);
        if self.awaited_from(plugin, key).is_some() {
            self.run_request(key);
        }
    }

    /// Updates the jobspec of the job that a request describes, and the request accordingly.
    pub(super) fn update_jobspec(&mut self, id: JobId, updates: Map<String, Value>) {
        let Some(job) = self.mirror.job(id) else { return };
        let old = job.jobspec().value().clone();
        let mut new = old.clone();
        for (place, value) in updates {
            // This can't fail: the update was checked when the handler asked for it.
            let _ = path::set(&mut new, &place, value);
        }
        let before = JobDescriptor::from_jobspec(&old);
        let after = JobDescriptor::from_jobspec(&new);
        self.mirror.replace_jobspec(id, Jobspec::unvalidated(new));
        if let Some(chain) = self.chains.get_mut(&job::request_of(id)) {
            let desc = chain.request.descriptor.get_mut();
            *desc = job::with_changes(desc, &before, &after);
        }
    }
}

/// Returns a refusal for which Slurm has no error number. Its commands print this text, followed by the text of
/// `SLURM_ERROR`.
fn rejection(text: impl Into<String>) -> SlurmError {
    errno::SLURM_ERROR.with(text.into())
}
