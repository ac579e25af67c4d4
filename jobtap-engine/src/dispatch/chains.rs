//! Requests in Slurm's terms: asks the plugins about them, one after the other.

use std::rc::Rc;
use std::sync::Arc;

use super::buffer::{BufferContent, CommandBuffer};
use super::call::{Interrupt, call_handlers, callback_host, log_over_budget};
use super::faulted;
use super::overlay;
use crate::agenda::{Agenda, Chain, Work};
use crate::api::{Effect, Effects, Level, RequestError};
use crate::core::Core;
use crate::host::errno::EINVAL;
use crate::host::{
    Args, BoundHandler, Detail, Failure, Fault, PluginKey, RequestAnswer, RequestKey, RequestWork,
};
use crate::job::State;
use crate::jobs::Jobs;
use crate::plugins::{Plugins, Unanswered};
use crate::slurm::SlurmError;
use crate::turn::Turn;

/// Asks the plugins about a request.
pub(crate) fn begin(agenda: &mut Agenda, plugins: &mut Plugins, chain: Chain) {
    let key = chain.request.key;
    plugins.chains.insert(key, Box::new(chain));
    agenda.push(Work::Chain(key));
}

/// Calls the next handlers. Returns the request once all of them have accepted it, or one has refused it.
#[must_use]
pub(crate) fn run(core: &mut Core, key: RequestKey) -> Option<Box<Chain>> {
    let mut chain = core.plugins.chains.remove(&key)?;
    check_job(&core.jobs, &mut chain);
    if chain.refusal.is_some() {
        return Some(chain);
    }
    let buffer = CommandBuffer::default();
    let handlers = Rc::clone(&chain.handlers);
    // Taken out, since the arguments borrow the rest.
    let mut progress = std::mem::take(&mut chain.progress);
    let interrupt = {
        let job = chain.job().and_then(|id| core.jobs.job(id));
        match callback_host(core, &handlers, chain.job(), &buffer) {
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

/// Refuses a request if its job has become inactive or was removed while an asynchronous handler was awaited: handlers
/// are called for active jobs only.
fn check_job(jobs: &Jobs, chain: &mut Chain) {
    let Some(id) = chain.job() else { return };
    match jobs.state(id) {
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

/// Handles what a handler did. The remaining handlers are called after what it asked for, or once it has answered.
fn resume_below(
    core: &mut Core,
    mut chain: Box<Chain>,
    interrupt: Interrupt,
    buffer: CommandBuffer,
) {
    let BufferContent { mut commands, panicked, noted } = buffer.into_content();
    overlay::clear(&mut core.jobs, noted);
    let key = chain.request.key;
    // There is one: `call_handlers` was interrupted, so it has reached a handler.
    let Some(bound) = chain.progress.next.checked_sub(1).and_then(|last| chain.handlers.get(last))
    else {
        core.plugins.chains.insert(key, chain);
        return core.turn.agenda.push(Work::Chain(key));
    };
    let (bound, plugin) = (bound.clone(), bound.plugin());
    let mut has_panicked = false;
    match interrupt {
        Interrupt::AllCalled | Interrupt::Commands => {}
        Interrupt::Deferred => chain.awaited = Some(plugin),
        Interrupt::OverBudget(milliseconds) => {
            let (effects, job) = (&mut core.turn.effects, chain.job());
            log_over_budget(effects, &core.plugins, &bound, job, milliseconds);
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
                // The plugin may have been in the middle of anything when it panicked, so none of its commands count.
                commands.clear();
            }
            handle_fault(&mut core.turn.effects, &mut chain, &bound, *fault);
        }
    }
    let (topic, waits) = (chain.topic.name(), chain.awaited.is_some());
    core.plugins.chains.insert(key, chain);
    if !waits {
        core.turn.agenda.push(Work::Chain(key));
    }
    core.turn.agenda.push_commands(topic, commands);
    // Last, so that what a faulted plugin has open is closed before anything else.
    if has_panicked {
        faulted::note_panic(&mut core.turn, &mut core.plugins, plugin);
    }
    faulted::note_panics(&mut core.turn, &mut core.plugins, panicked);
}

/// Refuses the request, since a handler has refused, failed or panicked.
fn handle_fault(effects: &mut Effects, chain: &mut Chain, bound: &BoundHandler, fault: Fault) {
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
        log(effects, chain, &plugin, &text);
    }
    chain.refuse(refusal);
}

fn log(effects: &mut Effects, chain: &Chain, plugin: &str, text: &str) {
    let about = match chain.job() {
        Some(id) => format!("job {id}"),
        None => format!("request of user {}", chain.cred.userid),
    };
    effects.log(Level::Error, format!("{plugin}: {}: {about}: {text}", chain.topic.name()));
}

/// Carries out [`Command::UserMessage`](crate::host::Command::UserMessage).
pub(super) fn note_message(plugins: &mut Plugins, request: RequestKey, text: String) {
    if let Some(chain) = plugins.chains.get_mut(&request) {
        chain.messages.push(text);
    }
}

/// Starts the work of an asynchronous handler, which the request waits for.
pub(super) fn begin_work(
    effects: &mut Effects,
    plugins: &mut Plugins,
    plugin: PluginKey,
    work: RequestWork,
) {
    let RequestWork { request, abort, future } = work;
    let chain = plugins.chains.get_mut(&request);
    let Some(chain) = chain.filter(|chain| chain.awaited == Some(plugin)) else { return };
    chain.abort = Some(abort);
    effects.after.push(Effect::Spawn(future));
}

/// Takes the answer of an asynchronous handler, and asks the next plugin.
pub(super) fn take_answer(
    turn: &mut Turn,
    plugins: &mut Plugins,
    plugin: PluginKey,
    request: RequestKey,
    answer: RequestAnswer,
) {
    let Some(mut chain) = plugins.chains.remove(&request) else { return };
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
                let name = plugins.name(plugin);
                log(&mut turn.effects, &chain, &name, &text);
                chain.refuse(invalid(text));
            }
        }
        turn.agenda.push(Work::Chain(request));
    }
    plugins.chains.insert(request, chain);
}

/// Refuses each request that waits for a plugin that can no longer answer. `how` says what became of the plugin.
pub(super) fn refuse_awaited(
    agenda: &mut Agenda,
    plugins: &mut Plugins,
    closed: &[(PluginKey, Arc<str>)],
    how: &'static str,
) {
    for (key, chain) in &mut plugins.chains {
        let awaits = |(plugin, _): &&(PluginKey, Arc<str>)| chain.awaited == Some(*plugin);
        if let Some((_, name)) = closed.iter().find(awaits) {
            let unanswered = Unanswered { plugin: Arc::clone(name), how };
            chain.refuse(invalid(unanswered.to_string()));
            agenda.push(Work::Chain(*key));
        }
    }
}
