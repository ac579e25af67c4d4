//! A request on its way through the plugins.
//!
//! The handlers of `slurm.job_submit` or `slurm.job_modify` are called one after the other, each with what
//! those before it have changed. An asynchronous one is waited for. Of a submission that all have
//! accepted, those of `job.validate` are called then, with the job that it describes. The first refusal
//! ends it.

use std::rc::Rc;

use futures_util::future::AbortHandle;
use jobtap_core::host::{
    BoundHandler, Detail, Failure, Fault, Handlers, PluginKey, RequestAnswer, RequestKey,
    SlurmRequest, Task,
};
use jobtap_core::job::{Job, JobId};
use jobtap_core::plugin::Level;
use jobtap_core::slurm::{SlurmError, errno};
use jobtap_core::topic::TopicId;

use super::commands::spawn;
use super::core::Core;
use super::{Answer, Reply, Request, user};
use crate::job;

/// A request that the plugins decide on.
pub(super) struct Chain {
    request: SlurmRequest,
    topic: TopicId,
    job: Option<Job>,
    handlers: Handlers,
    next: usize,
    /// The plugin whose asynchronous handler is waited for, and how its work is aborted.
    awaited: Option<(PluginKey, Option<AbortHandle>)>,
    messages: Vec<String>,
    refusal: Option<SlurmError>,
    reply: Reply<Answer>,
}

impl Chain {
    fn refuse(&mut self, error: SlurmError) {
        self.refusal.get_or_insert(error);
    }
}

impl Core {
    pub(super) fn begin_request(
        &mut self,
        key: RequestKey,
        request: Request,
        reply: Reply<Answer>,
    ) {
        let user = user(&request);
        let Request { descriptor, partitions, record, .. } = request;
        let request = SlurmRequest::new(key, user, descriptor);
        // Both are there, so that nothing is made of the queues and the job that this host doesn't have.
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
        let (messages, awaited, refusal) = Default::default();
        let next = 0;
        let chain =
            Chain { request, topic, job, handlers, next, awaited, messages, refusal, reply };
        self.chains.insert(key, Box::new(chain));
        self.run_request(key);
    }

    fn handlers(&self, topic: TopicId) -> Handlers {
        self.stack.handlers(topic).map(Rc::clone).unwrap_or_default()
    }

    /// Calls the next handlers, until one of them is waited for or all have been called.
    fn run_request(&mut self, key: RequestKey) {
        loop {
            let Some(chain) = self.chains.get_mut(&key) else { return };
            if chain.awaited.is_some() {
                return;
            }
            let bound = match chain.refusal {
                Some(_) => None,
                None => chain.handlers.get(chain.next).cloned(),
            };
            match bound {
                Some(bound) => {
                    chain.next += 1;
                    self.call_for_request(key, &bound);
                }
                None if self.begin_validation(key) => {}
                None => return self.answer_request(key),
            }
        }
    }

    fn call_for_request(&mut self, key: RequestKey, bound: &BoundHandler) {
        let Some(chain) = self.chains.get(&key) else { return };
        let detail = match chain.topic {
            TopicId::JobValidate => Detail::None,
            _ => Detail::Slurm(&chain.request),
        };
        let called = self.call(bound, chain.topic, chain.job.as_ref(), detail);
        let topic = chain.topic.name();
        let name = bound.instance().name();
        let mut deferred = false;
        let refusal = match called.result {
            Ok(outcome) => {
                deferred = outcome.is_deferred();
                None
            }
            Err(fault) => Some(match *fault {
                Fault::Failure(Failure::Slurm(error)) => error,
                Fault::Failure(Failure::Reject(text)) => rejection(text),
                Fault::Failure(failure) => {
                    self.log(
                        bound.instance(),
                        Level::Error,
                        &format!("{topic}: {}", failure.text()),
                    );
                    rejection(format!("plugin {name}: {}", failure.text()))
                }
                Fault::Panic(text) => {
                    self.log(bound.instance(), Level::Error, &format!("{topic}: panicked: {text}"));
                    rejection(format!(
                        "plugin {name} failed; the request is refused, please report it"
                    ))
                }
                Fault::Busy => rejection(format!("plugin {name}: called while it is being called")),
            }),
        };
        let Some(chain) = self.chains.get_mut(&key) else { return };
        if deferred {
            chain.awaited = Some((bound.plugin(), None));
        }
        if let Some(error) = refusal {
            chain.refuse(error);
        }
        self.carry_out(called.commands);
    }

    /// Goes on with `job.validate` once the handlers of Slurm's topic have accepted a submission. Returns false
    /// if that is not needed, or was done.
    fn begin_validation(&mut self, key: RequestKey) -> bool {
        if !self.stack.handles(TopicId::JobValidate) {
            return false;
        }
        let handlers = self.handlers(TopicId::JobValidate);
        let Some(chain) = self.chains.get_mut(&key) else { return false };
        if chain.topic != TopicId::SlurmJobSubmit || chain.refusal.is_some() {
            return false;
        }
        chain.topic = TopicId::JobValidate;
        chain.handlers = handlers;
        chain.next = 0;
        let described =
            job::of_request(key, chain.request.user, &chain.request.descriptor.borrow());
        match described {
            Ok(job) => chain.job = Some(job),
            // A plugin that looks at the job can't have accepted it.
            Err(text) => chain.refuse(rejection(text)),
        }
        true
    }

    fn answer_request(&mut self, key: RequestKey) {
        let Some(chain) = self.chains.remove(&key) else { return };
        let Chain { request, messages, refusal, reply, .. } = *chain;
        reply.send(Answer { descriptor: request.descriptor.into_inner(), refusal, messages });
    }

    /// Drops a request whose caller waits no longer.
    pub(super) fn abandon_request(&mut self, key: RequestKey) {
        let Some(chain) = self.chains.remove(&key) else { return };
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

    pub(super) fn begin_request_work(
        &mut self,
        plugin: PluginKey,
        key: RequestKey,
        abort: AbortHandle,
        task: Task,
    ) {
        let chain = self.chains.get_mut(&key);
        let Some(awaited) = chain.and_then(|chain| chain.awaited.as_mut()) else { return };
        if awaited.0 == plugin {
            awaited.1 = Some(abort);
            spawn(task);
        }
    }

    pub(super) fn begin_verdict_work(
        &mut self,
        plugin: PluginKey,
        job: JobId,
        abort: AbortHandle,
        task: Task,
    ) {
        self.begin_request_work(plugin, job::request_of(job), abort, task);
    }

    /// Takes what an asynchronous handler has decided, and goes on.
    pub(super) fn take_answer(
        &mut self,
        plugin: PluginKey,
        key: RequestKey,
        answer: RequestAnswer,
    ) {
        let Some(chain) = self.chains.get_mut(&key) else { return };
        if chain.awaited.as_ref().is_none_or(|(awaited, _)| *awaited != plugin) {
            return;
        }
        chain.awaited = None;
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
        verdict: Result<(), String>,
    ) {
        let answer = match verdict {
            Ok(()) => RequestAnswer::Accept(None),
            Err(text) => RequestAnswer::Refuse(rejection(text)),
        };
        self.take_answer(plugin, job::request_of(job), answer);
    }
}

/// A refusal that Slurm has no number for. Its commands print the text and then that of the number.
fn rejection(text: impl Into<String>) -> SlurmError {
    errno::SLURM_ERROR.with(text.into())
}
