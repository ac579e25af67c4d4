//! Requests in Slurm's terms: how the plugins are asked, one after the other.

use std::rc::Rc;
use std::sync::Arc;

use super::asked;
use super::buffer::{Asked, CommandBuffer};
use super::call::{Interrupt, call_handlers, host_of, log_over_budget};
use super::faulted;
use crate::engine::agenda::{Chain, Work};
use crate::engine::api::{Effect, Level, RequestError};
use crate::engine::core::Core;
use crate::host::errno::EINVAL;
use crate::host::{
    Args, BoundHandler, Detail, Failure, Fault, PluginKey, RequestAnswer, RequestKey, RequestWork,
};
use crate::job::State;
use crate::slurm::SlurmError;

/// Asks the plugins about a request.
pub(crate) fn begin(core: &mut Core, chain: Chain) {
    let key = chain.request.key;
    core.plugins.chains.insert(key, Box::new(chain));
    core.agenda.push(Work::Chain(key));
}

/// Calls the next handlers. Returns the request once all of them have accepted it, or one has refused it.
#[must_use]
pub(crate) fn run(core: &mut Core, key: RequestKey) -> Option<Box<Chain>> {
    let mut chain = core.plugins.chains.remove(&key)?;
    check_job(core, &mut chain);
    if chain.refusal.is_some() {
        return Some(chain);
    }
    let buffer = CommandBuffer::default();
    let handlers = Rc::clone(&chain.handlers);
    // Taken out, since the arguments borrow the rest.
    let mut progress = std::mem::take(&mut chain.progress);
    let interrupt = {
        let job = chain.job().and_then(|id| core.job(id));
        match host_of(core, &handlers, chain.job(), &buffer) {
            None => Interrupt::AllCalled,
            Some(host) => {
                let detail = Detail::Slurm(&chain.request);
                let args = Args { host: &host, topic: chain.topic, job, detail };
                let out_of_service = BoundHandler::is_out_of_service;
                call_handlers(&host, &handlers, &mut progress, &args, out_of_service)
            }
        }
    };
    chain.progress = progress;
    if matches!(interrupt, Interrupt::AllCalled) {
        return Some(chain);
    }
    resume_below(core, chain, interrupt, buffer);
    None
}

/// Refuses a request about a job that has gone on while an asynchronous handler was awaited: handlers are
/// called for active jobs only.
fn check_job(core: &Core, chain: &mut Chain) {
    let Some(id) = chain.job() else { return };
    match core.jobs.state(id) {
        None => chain.refuse(invalid("unknown job id")),
        Some(State::Inactive) => chain.refuse(invalid("job is inactive")),
        Some(_) => {}
    }
}

fn invalid(text: impl Into<String>) -> RequestError {
    RequestError::new(EINVAL, text)
}

fn refused(error: &SlurmError) -> RequestError {
    invalid(error.to_string())
}

/// Handles what a handler did. The rest of the handlers come after what it asked for, or when it has answered.
fn resume_below(
    core: &mut Core,
    mut chain: Box<Chain>,
    interrupt: Interrupt,
    buffer: CommandBuffer,
) {
    let Asked { mut commands, panicked, noted } = buffer.into_asked();
    asked::forget(&mut core.jobs, noted);
    let key = chain.request.key;
    // There is one: `call_handlers` was interrupted, so it has reached a handler.
    let Some(bound) = chain.progress.next.checked_sub(1).and_then(|last| chain.handlers.get(last))
    else {
        core.plugins.chains.insert(key, chain);
        return core.agenda.push(Work::Chain(key));
    };
    let (bound, plugin) = (bound.clone(), bound.plugin());
    let mut has_panicked = false;
    match interrupt {
        Interrupt::AllCalled | Interrupt::Commands => {}
        Interrupt::Deferred => chain.awaited = Some(plugin),
        Interrupt::OverBudget(milliseconds) => {
            log_over_budget(core, &bound, chain.job(), milliseconds);
        }
        Interrupt::OutOfService => {
            if bound.instance().is_faulted() {
                let name = bound.instance().name();
                let text = format!(
                    "plugin {name} has failed repeatedly: what it decides about is refused until an \
                     administrator reloads it"
                );
                chain.refuse(invalid(text));
            }
        }
        Interrupt::Fault(fault) => {
            if let Fault::Panic(_) = *fault {
                has_panicked = true;
                // After a panic the plugin may have been in the middle of anything, so that nothing of it counts.
                commands.clear();
            }
            handle_fault(core, &mut chain, &bound, *fault);
        }
    }
    let (topic, waits) = (chain.topic.name(), chain.awaited.is_some());
    core.plugins.chains.insert(key, chain);
    if !waits {
        core.agenda.push(Work::Chain(key));
    }
    core.agenda.push_commands(topic, commands);
    // Last, so that what a faulted plugin has open is closed before anything else.
    if has_panicked {
        faulted::note_panic(core, plugin);
    }
    faulted::note_panics(core, panicked);
}

/// A handler that refuses, fails or panics refuses the request.
fn handle_fault(core: &mut Core, chain: &mut Chain, bound: &BoundHandler, fault: Fault) {
    let plugin = Arc::clone(bound.instance().name());
    let (refusal, report) = match fault {
        Fault::Failure(Failure::Slurm(error)) => (refused(&error), None),
        Fault::Failure(failure) => {
            let text = failure.text().to_owned();
            (invalid(format!("plugin {plugin}: {text}")), Some(text))
        }
        Fault::Panic(text) => {
            let refusal =
                format!("plugin {plugin} failed; the request is refused, please report it");
            (invalid(refusal), Some(format!("panicked: {text}")))
        }
        Fault::Busy => {
            let text = "called while it is being called";
            (invalid(format!("plugin {plugin}: {text}")), Some(text.to_owned()))
        }
    };
    if let Some(text) = report {
        log(core, chain, &plugin, &text);
    }
    chain.refuse(refusal);
}

fn log(core: &mut Core, chain: &Chain, plugin: &str, text: &str) {
    let about = match chain.job() {
        Some(id) => format!("job {id}"),
        None => format!("request of user {}", chain.cred.userid),
    };
    core.log(Level::Error, format!("{plugin}: {}: {about}: {text}", chain.topic.name()));
}

/// Carries out [`Command::UserMessage`](crate::host::Command::UserMessage).
pub(super) fn note_message(core: &mut Core, request: RequestKey, text: String) {
    if let Some(chain) = core.plugins.chains.get_mut(&request) {
        chain.messages.push(text);
    }
}

/// Starts the work of an asynchronous handler, which the request waits for.
pub(super) fn begin_work(core: &mut Core, plugin: PluginKey, work: RequestWork) {
    let RequestWork { request, abort, task } = work;
    let chain = core.plugins.chains.get_mut(&request);
    let Some(chain) = chain.filter(|chain| chain.awaited == Some(plugin)) else { return };
    chain.abort = Some(abort);
    core.effects.after.push(Effect::Spawn(task));
}

/// Takes the answer of an asynchronous handler, and asks the next plugin.
pub(super) fn take_answer(
    core: &mut Core,
    plugin: PluginKey,
    request: RequestKey,
    answer: RequestAnswer,
) {
    let Some(mut chain) = core.plugins.chains.remove(&request) else { return };
    if chain.awaited == Some(plugin) {
        chain.awaited = None;
        chain.abort = None;
        match answer {
            RequestAnswer::Accept(None) => {}
            RequestAnswer::Accept(Some(descriptor)) => {
                *chain.request.descriptor.get_mut() = *descriptor;
            }
            RequestAnswer::Refuse(error) => chain.refuse(refused(&error)),
            RequestAnswer::Failed(text) => {
                let name = core.plugins.name(plugin);
                log(core, &chain, &name, &text);
                chain.refuse(invalid(text));
            }
        }
        core.agenda.push(Work::Chain(request));
    }
    core.plugins.chains.insert(request, chain);
}

/// Refuses each request that waits for the answer of a plugin that can't give it any more. `how` says what
/// became of the plugin.
pub(super) fn refuse_awaited(core: &mut Core, closed: &[(PluginKey, Arc<str>)], how: &str) {
    for (key, chain) in &mut core.plugins.chains {
        let awaits = |(plugin, _): &&(PluginKey, Arc<str>)| chain.awaited == Some(*plugin);
        if let Some((_, name)) = closed.iter().find(awaits) {
            chain.refuse(invalid(format!("plugin {name} {how} before it answered")));
            core.agenda.push(Work::Chain(*key));
        }
    }
}
