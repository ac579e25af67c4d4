//! The one place where the engine calls handlers.
//!
//! Nearly every callback only reads, or decides a priority. So [`call_handlers`] runs through a list of
//! handlers in one loop, with one `catch_unwind` around all of it, and stops at the first handler that
//! does more: only then must the caller carry out commands or handle a failure. A single handler
//! (a service, `conf.update`, an author's own topic) is a list of one.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use super::buffer::{BufferContent, CommandBuffer};
use super::host::CallbackHost;
use super::{faulted, overlay};
use crate::agenda::{Progress, Queued};
use crate::api::{Effects, Level};
use crate::core::Core;
use crate::host::{
    Args, BoundHandler, Detail, Fault, LoadedPlugin, Outcome, PluginKey, over_budget,
};
use crate::job::{Job, JobId};
use crate::plugins::Plugins;
use crate::topic::TopicId;

/// Why [`call_handlers`] has returned.
#[derive(Debug)]
pub(crate) enum Interrupt {
    /// All handlers were called.
    AllCalled,
    /// The handler has asked for something.
    Commands,
    /// It has failed.
    Fault(Box<Fault>),
    /// It will give its verdict later.
    Deferred,
    /// It was not called, since its plugin is faulted or was removed.
    OutOfService,
    /// It took this many milliseconds, which is over the budget.
    OverBudget(u64),
}

/// Calls handlers from `progress.next` on, until one asks for something, fails, defers or exceeds its budget, or
/// `is_out_of_service` says that it can't be called.
#[inline]
pub(crate) fn call_handlers<'e>(
    host: &CallbackHost<'e>,
    handlers: &'e [BoundHandler],
    progress: &mut Progress,
    args: &Args<'_>,
    is_out_of_service: impl Fn(&BoundHandler) -> bool,
) -> Interrupt {
    let (ticks, budget) = (&host.core.plugins.ticks, host.core.plugins.budget);
    let buffer = host.buffer;
    let reached = &mut *progress;
    // Around the whole loop and not around each call: entering a `catch_unwind` costs about as much as a handler that
    // only reads. It is safe to go on after a panic: the plugin's panics are counted until it is faulted, `progress`
    // only says how far the loop came, and the caller discards the buffer.
    let before = ticks.calls().now();
    let called = catch_unwind(AssertUnwindSafe(move || {
        while let Some(bound) = handlers.get(reached.next) {
            reached.next += 1;
            if is_out_of_service(bound) {
                return Interrupt::OutOfService;
            }
            host.plugin.set(bound.instance());
            reached.deciders += usize::from(!bound.only_observes());
            let (result, milliseconds) = bound.call_uncaught(args, ticks);
            match result {
                Ok(outcome) => {
                    let deferred = outcome.is_deferred();
                    if outcome.has_more_than_priority() {
                        reached.attributions.get_or_insert_default().note(bound.plugin(), &outcome);
                    }
                    reached.outcome.merge(outcome);
                    // Before the budget: the caller must learn that a verdict is awaited, and `Interrupt` has
                    // room for one reason. A handler that defers has only started its work.
                    if deferred {
                        return Interrupt::Deferred;
                    }
                }
                Err(fault) => return Interrupt::Fault(fault),
            }
            // Before the commands, since the caller logs only one reason; the commands are in the buffer anyway, and
            // are carried out.
            if milliseconds > budget {
                return Interrupt::OverBudget(milliseconds);
            }
            if !buffer.is_empty() {
                return Interrupt::Commands;
            }
        }
        Interrupt::AllCalled
    }));
    called.unwrap_or_else(|panic| {
        ticks.calls().end(before);
        Interrupt::Fault(panicked(handlers, progress.next, &*panic))
    })
}

/// The fault of the handler before `next`, which has panicked.
#[cold]
fn panicked(handlers: &[BoundHandler], next: usize, panic: &(dyn Any + Send)) -> Box<Fault> {
    match handlers.get(next.wrapping_sub(1)) {
        Some(bound) => bound.panicked(panic),
        // Impossible, since `next` is increased before each call.
        None => Box::new(Fault::Busy),
    }
}

/// What these handlers see of the engine; `None` if there are no handlers.
#[inline]
pub(crate) fn callback_host<'e>(
    core: &'e Core,
    handlers: &'e [BoundHandler],
    current: Option<JobId>,
    buffer: &'e CommandBuffer,
) -> Option<CallbackHost<'e>> {
    let plugin = Cell::new(&**handlers.first()?.instance());
    Some(CallbackHost { core, plugin, current, buffer })
}

/// The result of calling one handler.
pub(crate) struct Called {
    pub(crate) result: Result<Outcome, Fault>,
    /// What the handler asked for; nothing if it panicked.
    pub(crate) commands: Vec<Queued>,
}

/// Calls one handler. Also logs if it is over its budget, and logs and counts the panics of plugins whose topics it
/// called. The caller carries out what the handler asked for, and logs and counts its own panic.
pub(crate) fn call_one(
    core: &mut Core,
    bound: &BoundHandler,
    topic: TopicId,
    detail: Detail<'_>,
) -> Called {
    let buffer = CommandBuffer::default();
    let host =
        CallbackHost { core, plugin: Cell::new(bound.instance()), current: None, buffer: &buffer };
    let args = Args { host: &host, topic, job: None, detail };
    let mut progress = Progress::default();
    // The caller has decided that this handler is called; it may be the `unload` of a plugin that is off the stack
    // already.
    let interrupt = call_handlers(&host, slice::from_ref(bound), &mut progress, &args, |_| false);
    if matches!(&interrupt, Interrupt::Fault(fault) if !matches!(**fault, Fault::Panic(_))) {
        // As in a dispatch: a handler that fails changes no jobspec.
        buffer.drop_updates(0);
    }
    let BufferContent { mut commands, panicked, noted } = buffer.into_content();
    overlay::clear(&mut core.jobs, noted);
    let result = match interrupt {
        Interrupt::Fault(fault) => Err(*fault),
        Interrupt::OverBudget(milliseconds) => {
            log_over_budget(&mut core.turn.effects, &core.plugins, bound, None, milliseconds);
            Ok(progress.outcome)
        }
        _ => Ok(progress.outcome),
    };
    if matches!(result, Err(Fault::Panic(_))) {
        commands.clear();
    }
    faulted::note_panics(&mut core.turn, &mut core.plugins, panicked);
    Called { result, commands }
}

/// Calls one handler of an own topic during another callback, with the buffer of that callback.
pub(crate) fn call_nested(
    outer: &CallbackHost<'_>,
    bound: &BoundHandler,
    job: Option<&Job>,
    payload: &dyn Any,
) -> Result<Outcome, Fault> {
    let host = CallbackHost {
        core: outer.core,
        plugin: Cell::new(bound.instance()),
        current: job.map(Job::id),
        buffer: outer.buffer,
    };
    let args = Args { host: &host, topic: TopicId::Unlisted, job, detail: Detail::Own(payload) };
    let mut progress = Progress::default();
    match call_handlers(&host, slice::from_ref(bound), &mut progress, &args, |_| false) {
        Interrupt::Fault(fault) => Err(*fault),
        _ => Ok(progress.outcome),
    }
}

/// Calls back into a plugin outside of any topic: for a timer, or for work that has come back. Returns
/// `None` if the plugin is being called.
pub(crate) fn call_back(
    core: &mut Core,
    instance: &LoadedPlugin,
    call: impl for<'a> FnOnce(&mut dyn Any, &'a Args<'a>),
) -> Option<Called> {
    let buffer = CommandBuffer::default();
    let host = CallbackHost { core, plugin: Cell::new(instance), current: None, buffer: &buffer };
    let args = Args::new(&host, TopicId::Unlisted);
    let ticks = &core.plugins.ticks;
    let (result, milliseconds) =
        instance.call_outside_topics(ticks, |plugin| call(plugin, &args))?;
    let BufferContent { mut commands, panicked, noted } = buffer.into_content();
    overlay::clear(&mut core.jobs, noted);
    if result.is_err() {
        commands.clear();
    }
    if milliseconds > core.plugins.budget {
        log_slow(&mut core.turn.effects, &core.plugins, instance.name(), "later", milliseconds);
    }
    faulted::note_panics(&mut core.turn, &mut core.plugins, panicked);
    let result = result.map(|()| Outcome::default()).map_err(Fault::from);
    Some(Called { result, commands })
}

/// Logs that a handler took longer than `job-manager.plugin-time-budget`.
#[cold]
pub(crate) fn log_over_budget(
    effects: &mut Effects,
    plugins: &Plugins,
    bound: &BoundHandler,
    job: Option<JobId>,
    milliseconds: u64,
) {
    let (plugin, topic) = (bound.instance().name(), bound.entry().full_name());
    let job = job.map(|id| format!(": job {id}")).unwrap_or_default();
    log_slow(effects, plugins, plugin, &format!("{topic}{job}"), milliseconds);
}

/// Logs if a poll of a plugin's future took longer than the same budget.
pub(crate) fn log_slow_poll(
    effects: &mut Effects,
    plugins: &Plugins,
    plugin: PluginKey,
    topic: &str,
    job: Option<JobId>,
    milliseconds: u64,
) {
    if milliseconds <= plugins.budget {
        return;
    }
    let plugin = plugins.name(plugin);
    let job = job.map(|id| format!(": job {id}")).unwrap_or_default();
    let what = format!("{topic}{job}: a poll of its future");
    log_slow(effects, plugins, &plugin, &what, milliseconds);
}

fn log_slow(effects: &mut Effects, plugins: &Plugins, plugin: &str, what: &str, milliseconds: u64) {
    let text = over_budget(format_args!("{plugin}: {what}"), milliseconds, plugins.budget);
    effects.log(Level::Warning, text);
}
