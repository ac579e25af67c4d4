//! Execution as the engine sees it: the engine requests a start once, takes reports, and waits for the last.
//!
//! | file | what it holds |
//! |---|---|
//! | this one | starting, ending and reattaching jobs; the reports about them |
//! | `time_limit` | the end of a job's time, and the warning before it |
//! | `simulated` | jobs without processes |
//! | `config` | the keys of `[exec]` that the engine uses |

pub(super) mod config;
pub(super) mod simulated;
pub(super) mod time_limit;

pub use config::ExecConfigError;
pub use time_limit::end_of_started;

use self::config::ExecConfig;
use super::alloc::{Allocation, node_events};
use super::api::{Effect, Effects, ExecCommand, ExecEvent, ExecStart, JobLog, RaisedException};
use super::jobs::{Applied, Jobs, Phase, Reattach, Record};
use super::prefill;
use super::timers::Timers;
use super::turn::Turn;
use crate::eventlog::{Event, EventEntry, Name, Raised};
use crate::job::{JobId, Reach, Signal, State, Timestamp};
use crate::resource::Idset;

/// The key of the output of a job's tasks (RFC 24).
const OUTPUT: &str = "guest.output";

/// The release of all ranks that are left.
pub(super) const LAST_RELEASE: Event<'static> = Event::Release { ranks: "all", is_final: true };

/// Whether the jobspec asks for a simulation, in which the executor has no part.
fn is_simulated(record: &Record) -> bool {
    record.job.kept().jobspec.is_simulated()
}

/// Asks the executor to start a job, or to reattach to it: see [`ExecStart`].
pub(super) fn execute(
    turn: &mut Turn,
    jobs: &mut Jobs,
    timers: &mut Timers,
    config: ExecConfig,
    id: JobId,
    reattach: bool,
) {
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    // Set at once, and not when the start is confirmed: actions run again and must not start the job twice.
    record.execution.phase = Phase::Started;
    let start = (!is_simulated(record)).then(|| start_command(record, reattach));
    if reattach {
        begin_reattach(turn, jobs, id);
    } else {
        jobs.post_debug(turn, id, Event::DebugStartRequest);
    }
    if let Some(start) = start {
        turn.effects.after.push(Effect::Exec(start));
    } else {
        // A simulated job has nothing outside to find, and nothing happened to it meanwhile.
        finish_reattach(turn, jobs, id, Reattach::Done);
        simulated::start(turn, jobs, timers, config, id, reattach);
    }
}

fn start_command(record: &Record, reattach: bool) -> ExecCommand {
    let job = &record.job;
    // Parses a copy for the executor: the JSON value of the job's own jobspec would stay in memory while the job runs.
    let (jobspec, resources) = (job.kept().jobspec.opened(), (*job.kept().resources).clone());
    let (id, userid) = (job.id(), job.userid());
    ExecCommand::Start(ExecStart { id, userid, jobspec, resources, reattach, after: None })
}

/// Ends what may be left of a restored job in CLEANUP whose last report is missing.
pub(super) fn end_restored(turn: &mut Turn, jobs: &mut Jobs, config: ExecConfig, id: JobId) {
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    record.execution.phase = Phase::Ending;
    if is_simulated(record) {
        return jobs.post(turn, id, LAST_RELEASE);
    }
    let start = start_command(record, true);
    let signal = record.job.end_event().map(|end| first_signal(config, record, end));
    let signal = signal.unwrap_or(config.term_signal);
    begin_reattach(turn, jobs, id);
    turn.effects.after.push(Effect::Exec(start));
    turn.effects.after.push(Effect::Exec(ExecCommand::Cancel { id, signal }));
}

fn begin_reattach(turn: &mut Turn, jobs: &mut Jobs, id: JobId) {
    if let Some(record) = jobs.get_mut(id) {
        record.execution.reattach = Reattach::Requested;
    }
    jobs.post_debug(turn, id, Event::DebugExecReattachStart);
}

/// Notes that a job was found again.
fn finish_reattach(turn: &mut Turn, jobs: &mut Jobs, id: JobId, next: Reattach) {
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    if record.execution.reattach == Reattach::Requested {
        record.execution.reattach = next;
        jobs.post_debug(turn, id, Event::DebugExecReattachFinish);
    }
}

/// Notes that everything that a job did while no manager ran is known. Only now can its time be up.
fn catch_up(turn: &mut Turn, jobs: &mut Jobs, timers: &mut Timers, config: ExecConfig, id: JobId) {
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    let behind = std::mem::take(&mut record.execution.reattach) != Reattach::Done;
    if behind && record.job.state() == State::Run {
        time_limit::rearm(turn, jobs, timers, config, id);
        time_limit::warn_if_missed(turn, jobs, config, id);
    }
}

/// Handles a report. A report that says nothing new is dropped, so that the executor can repeat one that may not have
/// arrived.
pub(super) fn handle_report(
    turn: &mut Turn,
    jobs: &mut Jobs,
    alloc: &mut Allocation,
    timers: &mut Timers,
    config: ExecConfig,
    event: ExecEvent,
) {
    let Some(event) = prefill::keep_report(turn, jobs, alloc, event) else { return };
    match event {
        ExecEvent::Begun { id } => prefill::begin(turn, jobs, alloc, id),
        ExecEvent::Recalled { id } => prefill::take_back(turn, jobs, alloc, id),
        ExecEvent::Log { id, entry } => {
            if is_executing(jobs, id) {
                note_completion(jobs, id, &entry, turn.clock.now);
                jobs.append(&mut turn.effects, id, JobLog::Exec, entry);
            }
        }
        ExecEvent::Output { id, text } => {
            if is_executing(jobs, id) {
                jobs.put(&mut turn.effects, id, OUTPUT, text);
            }
        }
        ExecEvent::Started { id } => {
            let known = has_event(jobs, id, &Name::Start) || has_event(jobs, id, &Name::Finish);
            if is_executing(jobs, id) && !known {
                jobs.post(turn, id, Event::Start);
            }
        }
        ExecEvent::Reattached { id } => {
            if is_executing(jobs, id) {
                finish_reattach(turn, jobs, id, Reattach::CatchingUp);
            }
        }
        ExecEvent::CaughtUp { id } => catch_up(turn, jobs, timers, config, id),
        ExecEvent::Exception { id, exception } => raise(turn, jobs, id, &exception),
        ExecEvent::Lost { id, note, reason } => {
            if is_executing(jobs, id) {
                if let Some(ranks) = left_behind(jobs, id) {
                    node_events::drain_for_owner(turn, alloc, timers, &ranks, &reason);
                }
                raise(turn, jobs, id, &RaisedException::new("exec", 0, note));
            }
        }
        ExecEvent::Unkillable { id, ranks, reason } => {
            // The processes keep the job from freeing these nodes, and no other job should start beside them.
            if is_executing(jobs, id)
                && let Some(held) = still_held(jobs, id, &ranks)
            {
                node_events::drain_for_owner(turn, alloc, timers, &held, &reason);
            }
        }
        ExecEvent::Finished { id, status } => {
            if is_executing(jobs, id) && !has_event(jobs, id, &Name::Finish) {
                finish(turn, jobs, id, status);
            }
        }
        ExecEvent::PartlyReleased { id, ranks } => release_part(turn, jobs, id, &ranks),
        ExecEvent::Released { id } => {
            release(turn, jobs, id);
            // Also for a job that is inactive: its end was durable before the last restart.
            turn.effects.after.push(Effect::Exec(ExecCommand::Ack { id }));
        }
    }
}

/// Whether the executor can still have something to report about a job.
fn is_executing(jobs: &Jobs, id: JobId) -> bool {
    jobs.get(id).is_some_and(|record| {
        !is_simulated(record)
            && record.execution.phase.is_open()
            && !record.pending_events.contains(&Name::Release)
    })
}

fn has_event(jobs: &Jobs, id: JobId, name: &Name) -> bool {
    jobs.get(id).is_some_and(|record| record.has_event(name))
}

fn release_part(turn: &mut Turn, jobs: &mut Jobs, id: JobId, ranks: &Idset) {
    if !is_executing(jobs, id) {
        return;
    }
    let Some(allocated) = jobs.get(id).and_then(Record::unreleased_resources) else {
        return;
    };
    let released = allocated.ranks().intersection(ranks);
    // The last ranks are released by the last report.
    if !released.is_empty() && released != allocated.ranks() {
        let ranks = &released.to_string();
        jobs.post(turn, id, Event::Release { ranks, is_final: false });
    }
}

/// Follows a `release` event: the ranks can be allocated to other jobs.
pub(super) fn follow_release(jobs: &Jobs, alloc: &mut Allocation, id: JobId, ranks: &str) {
    let (Some(record), Ok(ranks)) = (jobs.get(id), ranks.parse::<Idset>()) else {
        // The last release, `ranks: all`, is followed by `free`.
        return;
    };
    if record.allocation.is_allocated()
        && record.allocation.is_from_pool()
        && let Some(resources) = record.job.resources()
    {
        alloc.pool.release(&resources.with_ranks(&ranks));
    }
}

fn release(turn: &mut Turn, jobs: &mut Jobs, id: JobId) {
    if !is_executing(jobs, id) {
        return;
    }
    if jobs.state(id) == Some(State::Run) {
        // No further report will end the job.
        jobs.raise_fatal(turn, id, "exec", "execution ended without a status");
    }
    jobs.post(turn, id, LAST_RELEASE);
}

/// The ranks on which a job that is lost may have left something; these are drained before the job frees them.
fn left_behind(jobs: &Jobs, id: JobId) -> Option<Idset> {
    // If reattaching finds no job and `start` was never logged, no task ever ran: its nodes need no drain.
    let has_begun = |record: &&Record| {
        record.execution.reattach == Reattach::Done || record.job.has_event(&Name::Start)
    };
    let record = jobs.get(id).filter(has_begun)?;
    record.unreleased_resources().map(|allocated| allocated.ranks())
}

/// The given ranks that the job still holds; `None` if it holds none of them.
fn still_held(jobs: &Jobs, id: JobId, ranks: &Idset) -> Option<Idset> {
    let allocated = jobs.get(id).and_then(Record::unreleased_resources)?;
    Some(allocated.ranks().intersection(ranks)).filter(|held| !held.is_empty())
}

/// Posts an exception that the executor reports. It is ignored for a job that is ending anyway, which the executor may
/// no longer know.
fn raise(turn: &mut Turn, jobs: &mut Jobs, id: JobId, exception: &RaisedException) {
    if jobs.state(id) != Some(State::Run) || !is_executing(jobs, id) {
        return;
    }
    let severity = u8::try_from(exception.severity).unwrap_or(0).min(7);
    let raised = Raised::new(&exception.kind, severity, &exception.note, turn.owner);
    jobs.post(turn, id, Event::Exception(Raised { wait_status: exception.wait_status, ..raised }));
}

/// The wait status of a task that exited with status 1.
const EXITED_WITH_1: i32 = 1 << 8;

/// Remembers when a job that finished while no manager ran did so, for its `finish` event. A time that is still to come is
/// that of a clock that is ahead: all later events would have to be later than it.
fn note_completion(jobs: &mut Jobs, id: JobId, entry: &EventEntry, now: Timestamp) {
    if let Some(record) = jobs.get_mut(id)
        && record.execution.reattach == Reattach::CatchingUp
        && entry.name == "complete"
        && entry.timestamp < now
    {
        record.execution.completed = entry.timestamp.into();
    }
}

/// Posts `finish`. A job that was ended by a fatal exception gets a status other than 0, unless the exception has a
/// status.
fn finish(turn: &mut Turn, jobs: &mut Jobs, id: JobId, status: i32) {
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    let ended = record.job.state() == State::Cleanup;
    let said = record.job.end_event().and_then(EventEntry::exception);
    let said = said.and_then(|exception| exception.wait_status);
    let status = if ended && status == 0 && said.is_none() { EXITED_WITH_1 } else { status };
    let at = std::mem::take(&mut record.execution.completed).get().unwrap_or(turn.clock.now);
    jobs.post_entry(&mut turn.agenda, id, Event::Finish { status }.at(at));
}

/// Follows `start` and fatal exceptions: sets the time limit of a job that has started, and ends the execution of a job
/// that ends.
pub(super) fn follow_event(
    turn: &mut Turn,
    jobs: &mut Jobs,
    timers: &mut Timers,
    config: ExecConfig,
    id: JobId,
    entry: &EventEntry,
    applied: &Applied<'_>,
) {
    match &applied.event {
        Event::Start => time_limit::begin(turn, jobs, timers, config, id, entry.timestamp),
        Event::Exception(_) if applied.fatal => end(turn, jobs, timers, config, id, entry),
        Event::Exception(raised) if raised.is_fatal() => {
            signal_again(&mut turn.effects, jobs, config, id)
        }
        _ => {}
    }
}

/// Signals the tasks of a job that is already ending, at a further fatal exception: a job that ignores the SIGALRM of
/// its time limit ends when it is canceled, without waiting for the kill timeout.
fn signal_again(effects: &mut Effects, jobs: &Jobs, config: ExecConfig, id: JobId) {
    let ends = |record: &Record| record.execution.phase == Phase::Ending;
    if jobs.get(id).is_some_and(ends) {
        signal(effects, jobs, id, config.term_signal, Reach::Group);
    }
}

/// The first signal to a job that this event has ended. A `timeout` that a client raises before the job's time is up
/// ends it like any other exception, as in Flux.
fn first_signal(config: ExecConfig, record: &Record, exception: &EventEntry) -> Signal {
    let is_up = || time_limit::is_up(record, config, exception.timestamp);
    if exception.exception().is_some_and(|raised| raised.kind == "timeout") && is_up() {
        Signal::ALRM
    } else {
        config.term_signal
    }
}

fn end(
    turn: &mut Turn,
    jobs: &mut Jobs,
    timers: &mut Timers,
    config: ExecConfig,
    id: JobId,
    exception: &EventEntry,
) {
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    if record.execution.phase != Phase::Started {
        return;
    }
    let signal = first_signal(config, record, exception);
    record.execution.phase = Phase::Ending;
    if record.execution.simulation.running().is_some() {
        simulated::cancel(turn, jobs, timers, id, signal);
    } else {
        turn.effects.after.push(Effect::Exec(ExecCommand::Cancel { id, signal }));
    }
}

/// Sends a signal to the tasks of a job, if it has any.
pub(super) fn signal(effects: &mut Effects, jobs: &Jobs, id: JobId, signal: Signal, reach: Reach) {
    let has_tasks = |record: &Record| {
        record.execution.phase.is_open() && record.execution.simulation.running().is_none()
    };
    if jobs.get(id).is_some_and(has_tasks) {
        effects.after.push(Effect::Exec(ExecCommand::Signal { id, signal, reach }));
    }
}
