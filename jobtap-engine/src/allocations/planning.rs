//! When plugins are asked for a plan, and how it is carried out.
//!
//! They are asked at most once a second: soon after something has changed, so that jobs which are submitted together are
//! planned for together; when a bound falls, such as the delay after a refusal; and once a minute in any case.

use super::change::Change;
use super::state::{Ordered, State};
use super::{Allocations, demand, loss, posting, release};
use crate::allocation::Table;
use crate::api::{AllocationCommand, Effect, Level, TimerId};
use crate::core::Core;
use crate::dispatch::call::{Called, call_one};
use crate::dispatch::faulted;
use crate::host::{BoundHandler, Detail, Fault};
use crate::job::Timestamp;
use crate::plugin::{Plan, PlannedOrder};
use crate::resource::Idset;
use crate::timers::Due;
use crate::topic::TopicId;

/// The seconds between two plans.
const BETWEEN: f64 = 1.0;

/// The seconds from a change to a plan.
const SOON: f64 = 0.1;

/// The most seconds between two plans while there is something to plan for.
const AT_LEAST: f64 = 60.0;

/// When the next plan is made.
#[derive(Debug, Default)]
pub(super) struct Planner {
    last: Option<Timestamp>,
    /// What had changed when the last plan was made: the counts of changes of the pool and of the queues.
    seen: Option<(u64, u64)>,
    /// Whether an allocation or the configuration has changed since.
    changed: bool,
    timer: Option<(Timestamp, TimerId)>,
    /// Whether an allocation has ended since.
    has_lost: bool,
}

impl Planner {
    pub(super) fn note_loss(&mut self) {
        self.has_lost = true;
    }

    pub(super) fn note_change(&mut self) {
        self.changed = true;
    }
}

/// Sees to it that a plan is made soon if something has changed.
pub(crate) fn follow(core: &mut Core) {
    let Core { turn, alloc, allocations, .. } = &mut *core;
    if allocations.tables.is_empty() {
        return;
    }
    let seen = Some((alloc.pool.changes(), alloc.alloc_queues.changes()));
    let planner = &mut allocations.planner;
    if planner.seen == seen && !planner.changed {
        return;
    }
    let now = turn.clock.now;
    let soon = now + SOON;
    let at =
        planner.last.map_or(soon, |last| if last + BETWEEN > soon { last + BETWEEN } else { soon });
    arm(core, at);
}

/// Sets the timer for the next plan, unless it is set for an earlier time.
fn arm(core: &mut Core, at: Timestamp) {
    let Core { turn, timers, allocations, .. } = core;
    let timer = &mut allocations.planner.timer;
    if timer.is_none_or(|(known, _)| at < known) {
        timers.stop(timer.map(|(_, timer)| timer));
        *timer = Some((at, timers.start(&mut turn.effects, at, Due::AllocationPlan)));
    }
}

/// Asks for a plan, and carries it out.
pub(crate) fn run(core: &mut Core) {
    let now = core.turn.clock.now;
    core.allocations.planner.timer = None;
    if std::mem::take(&mut core.allocations.planner.has_lost) {
        loss::end_jobs_without_nodes(core);
    }
    let used = core.alloc.pool.allocated().ranks();
    note_idle(&mut core.allocations, &used, now);
    release::end_drained(core, &used);
    for table in core.allocations.histories.values_mut() {
        table.forget_old(now);
    }
    if let Some(plan) = ask(core) {
        carry_out(core, &plan);
    }
    let (pool, queues) = (&core.alloc.pool, &core.alloc.alloc_queues);
    let planner = &mut core.allocations.planner;
    planner.last = Some(now);
    planner.changed = false;
    planner.seen = Some((pool.changes(), queues.changes()));
    if let Some(at) = next_time(core) {
        arm(core, at);
    }
}

/// Notes which running allocations have no job.
fn note_idle(allocations: &mut Allocations, used: &Idset, now: Timestamp) {
    for known in allocations.known.values_mut() {
        if let State::Running { idle_since, .. } = &mut known.state {
            *idle_since = match used.intersects(&known.ranks) {
                true => None,
                false => idle_since.or(Some(now)),
            };
        }
    }
}

/// Calls the handlers of `allocation.plan`. The last plan that one returns counts; `None` if none does.
fn ask(core: &mut Core) -> Option<Plan> {
    let topic = TopicId::AllocationPlan;
    let handlers = core.plugins.stack.handlers(topic);
    let handlers: Vec<BoundHandler> =
        handlers.into_iter().flat_map(|list| list.iter()).cloned().collect();
    if handlers.is_empty() {
        return None;
    }
    let demand = demand::gather(core);
    let mut plan = None;
    for bound in handlers.iter().filter(|bound| !bound.instance().is_faulted()) {
        let Called { result, commands } = call_one(core, bound, topic, Detail::Demand(&demand));
        core.turn.agenda.push_commands(topic.name(), commands);
        let name = bound.instance().name();
        let problem = match result {
            Ok(outcome) => {
                plan = outcome.decisions().plan.or(plan);
                continue;
            }
            Err(Fault::Failure(failure)) => failure.text().to_owned(),
            Err(Fault::Panic(text)) => {
                faulted::note_panic(&mut core.turn, &mut core.plugins, bound.plugin());
                format!("panicked: {text}")
            }
            Err(Fault::Busy) => "called while it is being called".to_owned(),
        };
        core.turn.effects.log(Level::Error, format!("{name}: {}: {problem}", topic.name()));
    }
    plan
}

fn carry_out(core: &mut Core, plan: &Plan) {
    for id in plan.releases() {
        // A plan may have been made before the allocation ended.
        let _ = release::release(core, *id, "it isn't needed");
    }
    for planned in plan.orders() {
        let Some(table) = core.allocations.tables.get(&planned.table).cloned() else {
            let text = format!("allocation.plan: there is no table {:?}", planned.table);
            core.turn.effects.log(Level::Error, text);
            continue;
        };
        for _ in 0..planned.count {
            if !order(core, &table, planned) {
                break;
            }
        }
    }
}

/// Asks for one allocation, unless a bound of its table forbids it.
fn order(core: &mut Core, table: &Table, planned: &PlannedOrder) -> bool {
    let Core { turn, alloc, allocations, .. } = core;
    let now = turn.clock.now;
    let own = table.time_limit.map(|limit| limit.as_secs());
    let wanted = planned.time_limit.filter(|limit| *limit > 0.0 && limit.is_finite());
    let time_limit = match (wanted, own) {
        (Some(wanted), Some(own)) => Some(wanted.min(own)),
        (wanted, own) => wanted.or(own),
    };
    if let Some(history) = allocations.histories.get(&table.name) {
        // After a refusal one request at a time tries again.
        let probes = history.refusals > 0
            && allocations.of_table(&table.name).any(|(_, known)| known.state == State::Asked);
        if probes || history.next_try(now, table.requests_per_hour).is_some() {
            return false;
        }
    }
    let hours = allocations.core_hours(table, now) + table.core_hours(time_limit.unwrap_or(0.0));
    if table.core_hours_per_day.is_some_and(|most| hours > most) {
        return false;
    }
    let Some(ranks) = allocations.free_slots(table, &alloc.nodes.drained_ranks()).next() else {
        return false;
    };
    let (id, name) = (allocations.next_id(), table.name.clone());
    let change = Change::Order { id, table: name.clone(), ranks: ranks.clone(), time_limit };
    posting::post(turn, allocations, &change);
    let command = AllocationCommand::Order { id, table: name, ranks, time_limit, again: false };
    turn.effects.after.push(Effect::Allocation(command));
    true
}

/// When the next plan is due if nothing changes; `None` if there is nothing to plan for.
fn next_time(core: &Core) -> Option<Timestamp> {
    let (now, allocations) = (core.turn.clock.now, &core.allocations);
    let keeps_some = allocations.tables.iter().any(|table| table.min > 0);
    if allocations.known.is_empty() && core.alloc.alloc_queues.is_empty() && !keeps_some {
        return None;
    }
    let bounds = allocations.tables.iter().filter_map(|table| {
        let history = allocations.histories.get(&table.name)?;
        history.next_try(now, table.requests_per_hour)
    });
    let idle = allocations.known.values().filter_map(|known| idle_time_ends(allocations, known));
    let next = bounds.chain(idle).filter(|at| *at > now).chain([now + AT_LEAST]);
    let next = next.min_by(|a, b| a.as_secs().total_cmp(&b.as_secs()))?;
    Some(if next < now + BETWEEN { now + BETWEEN } else { next })
}

/// When an allocation has been without a job, or on order, for the idle time of its table.
fn idle_time_ends(allocations: &Allocations, known: &Ordered) -> Option<Timestamp> {
    let since = match known.state {
        State::Running { idle_since, .. } => idle_since?,
        State::Asked | State::Waiting { .. } => known.asked,
        State::Draining { .. } | State::Ending { .. } => return None,
    };
    Some(since + allocations.tables.get(&known.table)?.idle_time)
}
