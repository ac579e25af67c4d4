//! Asynchronous handlers at work on jobs, and when a job stops waiting for them.

use super::perilogs::{self, PerilogEnd};
use super::remote;
use crate::api::{Effect, Effects};
use crate::core::Core;
use crate::host::{BlockingCommand, JobWork, PluginKey, ProcessCommand, RemoteWork, RpcCommand};
use crate::job::{JobId, State};
use crate::jobs::{Jobs, Record, Running};
use crate::plugin::Perilog;

/// Starts the work of an asynchronous handler, once its events are durable.
pub(crate) fn begin(effects: &mut Effects, jobs: &mut Jobs, plugin: PluginKey, work: JobWork) {
    let JobWork { job, what, kind, run_on, abort, future } = work;
    if let Some(record) = jobs.get_mut(job) {
        record.async_work.running.push(Running { plugin, what, kind, run_on, abort });
    }
    // After the writes of this input: the work starts only when the events that announce it are durable.
    effects.after.push(Effect::Spawn(future));
}

/// Notes that the work has ended by itself.
pub(crate) fn end(jobs: &mut Jobs, plugin: PluginKey, job: JobId, what: &str) {
    if let Some(record) = jobs.get_mut(job) {
        let running = &mut record.async_work.running;
        let ended = |work: &Running| work.plugin == plugin && work.what == what;
        if let Some(index) = running.iter().position(ended) {
            running.remove(index);
        }
    }
}

/// Aborts the work that the job no longer waits for in its new state, and calls back the plugins that want to know when
/// the job ends. `fatal` says that a fatal exception was just applied.
pub(crate) fn follow_state(core: &mut Core, id: JobId, fatal: bool) {
    let Some(record) = core.jobs.get_mut(id) else {
        return;
    };
    let state = record.job.state();
    let work = &mut record.async_work;
    let obsolete: Vec<Running> =
        work.running.extract_if(.., |running| running.is_obsolete(state)).collect();
    let ended = fatal || state == State::Inactive;
    let callbacks = if ended { std::mem::take(&mut work.at_end) } else { Default::default() };
    for work in obsolete {
        // Its prolog is finished here, since the aborted work can no longer do so.
        work.abort.abort();
        let kind = Perilog::Prolog;
        if perilogs::disown(&mut core.jobs, work.plugin, id, kind, &work.what) {
            let end = PerilogEnd::failed(kind, &work.what, None);
            perilogs::finish(&mut core.turn, &mut core.jobs, id, end);
        }
    }
    for (plugin, work) in callbacks {
        remote::resume(core, plugin, work);
    }
}

/// Calls a plugin back when the job has its first fatal exception or becomes inactive; at once if that has already
/// happened.
pub(crate) fn at_end(core: &mut Core, plugin: PluginKey, job: JobId, work: RemoteWork) {
    match core.jobs.get_mut(job) {
        Some(record)
            if record.job.state() != State::Inactive && !record.job.is_ended_by_exception() =>
        {
            record.async_work.at_end.push((plugin, work));
        }
        _ => remote::resume(core, plugin, work),
    }
}

/// Aborts the work of plugins that were removed or faulted.
pub(crate) fn abort_of(jobs: &mut Jobs, id: JobId, closed: &[PluginKey]) {
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    let work = &mut record.async_work;
    for running in work.running.extract_if(.., |running| closed.contains(&running.plugin)) {
        running.abort.abort();
    }
    work.at_end.retain(|(plugin, _)| !closed.contains(plugin));
}

/// Aborts all work on a job that is inactive or rejected.
pub(crate) fn abort_all(record: &mut Record) {
    for running in record.async_work.running.drain(..) {
        running.abort.abort();
    }
}

/// Kills the processes of plugins that were removed or faulted, and drops their requests and their work that waits for
/// a thread.
pub(crate) fn end_outside(effects: &mut Effects, closed: &[PluginKey]) {
    for plugin in closed.iter().copied() {
        let command = Box::new(ProcessCommand::KillAll);
        effects.after.push(Effect::Process { plugin, command });
        effects.after.push(Effect::Rpc { plugin, command: RpcCommand::CancelAll });
        effects.after.push(Effect::Blocking { plugin, command: BlockingCommand::DropAll });
    }
}
