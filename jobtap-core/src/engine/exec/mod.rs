//! Execution as the engine sees it: it asks for a start once, takes reports, and waits for the last.
//!
//! | file | what it holds |
//! |---|---|
//! | this one | starting, ending and reattaching jobs; the reports about them |
//! | `time_limit` | the end of a job's time, and the warning before it |
//! | `simulated` | jobs without processes |
//! | `config` | the keys of `[exec]` that the engine follows |

pub(super) mod config;
pub(super) mod simulated;
pub(super) mod time_limit;

pub use time_limit::end_of_started;

use self::config::ExecConfig;
use super::alloc::node_events;
use super::api::{Effect, Effects, Exception, ExecCommand, ExecEvent, JobLog};
use super::core::Core;
use super::events::{self, text_field};
use super::jobs::{Jobs, Phase, Reattach, Record};
use crate::eventlog::EventEntry;
use crate::job::{JobId, State};
use crate::resource::Idset;

const SIGALRM: i32 = 14;

/// The key of what a job's tasks print (RFC 24).
const OUTPUT: &str = "guest.output";

/// Whether the jobspec asks for a simulation, of which the executor knows nothing.
fn is_simulated(record: &Record) -> bool {
    record.job.jobspec.is_simulated()
}

/// Asks the executor to start a job, or to reattach to it: see [`ExecCommand::Start`].
pub(super) fn execute(core: &mut Core, id: JobId, reattach: bool) {
    let Some(record) = core.jobs.get_mut(id) else {
        return;
    };
    // Set at once, and not when the start is confirmed: actions run again and must not start it twice.
    record.execution.phase = Phase::Started;
    let start = (!is_simulated(record)).then(|| start_command(record, reattach));
    if reattach {
        begin_reattach(core, id);
    } else {
        core.post_debug(id, "debug.start-request");
    }
    if let Some(start) = start {
        core.effects.after.push(Effect::Exec(start));
    } else {
        // There is nothing outside to be found, and nothing that happened meanwhile.
        finish_reattach(core, id, Reattach::Done);
        simulated::start(core, id, reattach);
    }
}

fn start_command(record: &Record, reattach: bool) -> ExecCommand {
    let job = &record.job;
    // The executor parses a copy: the JSON value would stay in memory while the job runs.
    let (jobspec, resources) = (job.jobspec.opened(), (*job.resources).clone());
    ExecCommand::Start { id: job.id, userid: job.userid, jobspec, resources, reattach }
}

/// Ends what may be left of a restored job in CLEANUP whose last report is missing.
pub(super) fn end_restored(core: &mut Core, id: JobId) {
    let Some(record) = core.jobs.get_mut(id) else {
        return;
    };
    record.execution.phase = Phase::Ending;
    if is_simulated(record) {
        return core.post(id, events::release(core.clock.now));
    }
    let start = start_command(record, true);
    let signum = record.job.end_event().map(|end| first_signal(core.exec, record, end));
    let signum = signum.unwrap_or(core.exec.term_signal.number());
    begin_reattach(core, id);
    core.effects.after.push(Effect::Exec(start));
    core.effects.after.push(Effect::Exec(ExecCommand::Cancel { id, signum }));
}

fn begin_reattach(core: &mut Core, id: JobId) {
    if let Some(record) = core.jobs.get_mut(id) {
        record.execution.reattach = Reattach::Requested;
    }
    core.post_debug(id, "debug.exec-reattach-start");
}

/// Notes that a job was found again.
fn finish_reattach(core: &mut Core, id: JobId, next: Reattach) {
    let Some(record) = core.jobs.get_mut(id) else {
        return;
    };
    if record.execution.reattach == Reattach::Requested {
        record.execution.reattach = next;
        core.post_debug(id, "debug.exec-reattach-finish");
    }
}

/// Notes that all is known that a job did while no manager ran. Only now its time can be up.
fn catch_up(core: &mut Core, id: JobId) {
    let Some(record) = core.jobs.get_mut(id) else {
        return;
    };
    let behind = std::mem::take(&mut record.execution.reattach) != Reattach::Done;
    if behind && record.job.state == State::Run {
        time_limit::rearm(core, id);
        time_limit::warn_if_missed(core, id);
    }
}

/// Handles a report. One that says nothing new is dropped, so that the executor can repeat a
/// report of which it does not know whether it has arrived.
pub(super) fn report(core: &mut Core, event: ExecEvent) {
    match event {
        ExecEvent::Log { id, entry } => {
            if is_executing(&core.jobs, id) {
                note_completion(core, id, &entry);
                core.append(id, JobLog::Exec, entry);
            }
        }
        ExecEvent::Output { id, text } => {
            if is_executing(&core.jobs, id) {
                core.put(id, OUTPUT, text);
            }
        }
        ExecEvent::Started { id } => {
            let known = has_event(&core.jobs, id, "start") || has_event(&core.jobs, id, "finish");
            if is_executing(&core.jobs, id) && !known {
                core.post(id, events::bare(core.clock.now, "start"));
            }
        }
        ExecEvent::Reattached { id } => {
            if is_executing(&core.jobs, id) {
                finish_reattach(core, id, Reattach::CatchingUp);
            }
        }
        ExecEvent::CaughtUp { id } => catch_up(core, id),
        ExecEvent::Exception { id, exception } => raise(core, id, &exception),
        ExecEvent::Lost { id, note, reason } => lose(core, id, note, &reason),
        ExecEvent::Unkillable { id, ranks, reason } => {
            drain_unkillable(core, id, &ranks, &reason);
        }
        ExecEvent::Finished { id, status } => {
            if is_executing(&core.jobs, id) && !has_event(&core.jobs, id, "finish") {
                finish(core, id, status);
            }
        }
        ExecEvent::PartlyReleased { id, ranks } => release_part(core, id, &ranks),
        ExecEvent::Released { id } => {
            release(core, id);
            // Also for a job that is inactive: its end was durable before the last restart.
            core.effects.after.push(Effect::Exec(ExecCommand::Ack { id }));
        }
    }
}

/// Whether the executor can still have something to report about a job.
fn is_executing(jobs: &Jobs, id: JobId) -> bool {
    jobs.get(id).is_some_and(|record| {
        !is_simulated(record)
            && record.execution.phase.is_open()
            && !record.pending_events.contains("release")
    })
}

fn has_event(jobs: &Jobs, id: JobId, name: &str) -> bool {
    jobs.get(id).is_some_and(|record| record.has_event(name))
}

fn release_part(core: &mut Core, id: JobId, ranks: &Idset) {
    if !is_executing(&core.jobs, id) {
        return;
    }
    let Some(allocated) = core.jobs.get(id).and_then(Record::unreleased_resources) else {
        return;
    };
    let released = allocated.ranks().intersection(ranks);
    // The last ranks are released by the last report.
    if !released.is_empty() && released != allocated.ranks() {
        core.post(id, events::release_of(core.clock.now, &released));
    }
}

/// Follows a `release` event: the ranks can be allocated to other jobs.
pub(super) fn follow_release(core: &mut Core, id: JobId, entry: &EventEntry) {
    let ranks = text_field(entry, "ranks").parse::<Idset>();
    let (Some(record), Ok(ranks)) = (core.jobs.get(id), ranks) else {
        // The last release, `ranks: all`, is followed by `free`.
        return;
    };
    if record.allocation.is_allocated()
        && record.allocation.is_from_pool()
        && let Some(resources) = record.job.resources()
    {
        core.alloc.pool.release(&resources.with_ranks(&ranks));
    }
}

fn release(core: &mut Core, id: JobId) {
    if !is_executing(&core.jobs, id) {
        return;
    }
    if core.jobs.state(id) == Some(State::Run) {
        // No further report will come that could end it.
        core.raise_fatal(id, "exec", "execution ended without a status");
    }
    core.post(id, events::release(core.clock.now));
}

/// Handles the loss of a job. It is not known what it has left on its nodes, so they are drained
/// before the job frees them.
fn lose(core: &mut Core, id: JobId, note: String, reason: &str) {
    if !is_executing(&core.jobs, id) {
        return;
    }
    // If reattaching finds no job and `start` was never logged, no task ever ran: its nodes need no drain.
    let has_begun = |record: &&Record| {
        record.execution.reattach == Reattach::Done || record.job.event_posted("start")
    };
    let record = core.jobs.get(id).filter(has_begun);
    if let Some(ranks) =
        record.and_then(Record::unreleased_resources).map(|allocated| allocated.ranks())
    {
        node_events::drain_for_owner(core, &ranks, reason);
    }
    raise(core, id, &Exception::new("exec", 0, note));
}

/// Drains the nodes of processes that cannot be killed. They keep the job from freeing its nodes, and
/// no other job is to be started beside them.
fn drain_unkillable(core: &mut Core, id: JobId, ranks: &Idset, reason: &str) {
    if !is_executing(&core.jobs, id) {
        return;
    }
    let allocated = core.jobs.get(id).and_then(Record::unreleased_resources);
    let left = allocated.map(|allocated| allocated.ranks().intersection(ranks)).unwrap_or_default();
    if !left.is_empty() {
        node_events::drain_for_owner(core, &left, reason);
    }
}

/// Posts an exception that the executor reports. A job that is ending in any case may well be
/// unknown there by now.
fn raise(core: &mut Core, id: JobId, exception: &Exception) {
    if core.jobs.state(id) != Some(State::Run) || !is_executing(&core.jobs, id) {
        return;
    }
    let severity = u8::try_from(exception.severity).unwrap_or(0).min(7);
    let (now, owner) = (core.clock.now, core.owner);
    let (kind, note) = (&exception.kind, &exception.note);
    let entry = match exception.wait_status {
        None => events::exception(now, kind, severity, note, owner),
        Some(status) => events::deciding_exception(now, kind, (severity, status), note, owner),
    };
    core.post(id, entry);
}

/// The wait status of a task that exited with status 1.
const EXITED_WITH_1: i32 = 1 << 8;

/// Keeps the time of the end of a job that ended while no manager ran, for its `finish`.
fn note_completion(core: &mut Core, id: JobId, entry: &EventEntry) {
    if let Some(record) = core.jobs.get_mut(id)
        && record.execution.reattach == Reattach::CatchingUp
        && entry.name == "complete"
    {
        record.execution.completed = entry.timestamp.into();
    }
}

/// Posts `finish`. A job that was ended by a fatal exception has another status than 0, unless the exception says so.
fn finish(core: &mut Core, id: JobId, status: i32) {
    let Some(record) = core.jobs.get_mut(id) else {
        return;
    };
    let ended = record.job.state == State::Cleanup;
    let said =
        record.job.end_event().and_then(|end| end.context.as_ref()?.get(events::WAIT_STATUS));
    let status = if ended && status == 0 && said.is_none() { EXITED_WITH_1 } else { status };
    let at = std::mem::take(&mut record.execution.completed).get().unwrap_or(core.clock.now);
    core.post(id, events::finish(at, status));
}

/// Follows `start` and fatal exceptions: a job that has started has an end, and a job that ends is
/// ended outside too.
pub(super) fn follow_event(core: &mut Core, id: JobId, entry: &EventEntry, fatal: bool) {
    if fatal {
        end(core, id, entry);
    } else if entry.name == "start" {
        time_limit::begin(core, id, entry.timestamp);
    } else if entry.name == "exception" && severity(entry) == Some(0) {
        signal_again(core, id);
    }
}

fn severity(exception: &EventEntry) -> Option<i64> {
    exception.context.as_ref()?.get("severity")?.as_i64()
}

/// Signals the tasks of a job that ends already, at a further fatal exception: a job that ignores SIGALRM of its time
/// limit ends when it is canceled, without waiting for the kill timeout.
fn signal_again(core: &mut Core, id: JobId) {
    let ends = |record: &Record| record.execution.phase == Phase::Ending;
    if core.jobs.get(id).is_some_and(ends) {
        let signum = core.exec.term_signal.number();
        signal(&core.jobs, &mut core.effects, id, signum);
    }
}

/// The first signal to a job that this event has ended. A client that raises `timeout` before the job's time is up
/// ends it as any other exception does, as in Flux.
fn first_signal(config: ExecConfig, record: &Record, exception: &EventEntry) -> i32 {
    let is_up = || time_limit::is_up(record, config, exception.timestamp);
    if text_field(exception, "type") == "timeout" && is_up() {
        SIGALRM
    } else {
        config.term_signal.number()
    }
}

fn end(core: &mut Core, id: JobId, exception: &EventEntry) {
    let config = core.exec;
    let Some(record) = core.jobs.get_mut(id) else {
        return;
    };
    if record.execution.phase != Phase::Started {
        return;
    }
    let signum = first_signal(config, record, exception);
    record.execution.phase = Phase::Ending;
    if record.execution.simulation.running().is_some() {
        simulated::cancel(core, id, signum);
    } else {
        core.effects.after.push(Effect::Exec(ExecCommand::Cancel { id, signum }));
    }
}

/// Sends a signal to the tasks of a job, if it has any.
pub(super) fn signal(jobs: &Jobs, effects: &mut Effects, id: JobId, signum: i32) {
    let has_tasks = |record: &Record| {
        record.execution.phase.is_open() && record.execution.simulation.running().is_none()
    };
    if jobs.get(id).is_some_and(has_tasks) {
        effects.after.push(Effect::Exec(ExecCommand::Signal { id, signum }));
    }
}
