//! What administrators do with nodes, and what clients read about resources.

use serde_json::{Map, Value, json};

use super::owner_only;
use crate::alloc::node_events::drain_context;
use crate::alloc::nodes::{Nodes, rank_word};
use crate::alloc::{Allocation, maintenance, node_events};
use crate::allocations::loss;
use crate::api::{Cred, DrainMode, Effect, Level, NodeRequest, ReplyTo, RequestError};
use crate::core::Core;
use crate::eventlog::{Event, EventEntry};
use crate::events;
use crate::host::errno::{EBUSY, EEXIST, EINVAL, ENOENT};
use crate::job::{State, Timestamp, Uid};
use crate::jobs::Jobs;
use crate::resource::{Idset, ResourceSet};
use crate::timers::Timers;
use crate::turn::Turn;

fn refuse<T>(errno: i32, text: impl Into<String>) -> Result<T, RequestError> {
    Err(RequestError::new(errno, text))
}

/// Handles a request about nodes. All of them are for the owner of the instance.
pub(super) fn handle(core: &mut Core, reply: ReplyTo, cred: Cred, request: NodeRequest) {
    if let Err(error) = owner_only(cred) {
        return core.turn.effects.reply(reply, Err(error));
    }
    let Core { turn, jobs, alloc, timers, .. } = core;
    let result = match request {
        NodeRequest::Drain { targets, reason, mode } => check_drain(&alloc.nodes, &targets, mode)
            .map(|ranks| {
                let context = drain_context(reason.as_deref(), mode, cred.userid);
                node_events::post(turn, alloc, timers, "drain", &ranks, context);
            }),
        NodeRequest::Undrain { targets, reason, mode } => {
            check_undrain(&alloc.nodes, &targets, mode).map(|ranks| {
                let context = undrain_context(reason.as_deref(), mode, cred.userid);
                // As in Flux, the event has all nodes of the request, drained or not.
                node_events::post(turn, alloc, timers, "undrain", &ranks, context);
            })
        }
        NodeRequest::Offline { targets, reason } => match self::targets(&alloc.nodes, &targets) {
            Ok(ranks) => {
                let lost = ranks.difference(&alloc.nodes.offline);
                take_offline(turn, alloc, timers, &lost, reason.as_deref(), cred.userid);
                loss::end_jobs_on(core, &lost);
                return core.turn.effects.reply(reply, Ok(json!({})));
            }
            Err(error) => Err(error),
        },
        NodeRequest::Online { targets } => self::targets(&alloc.nodes, &targets).map(|ranks| {
            let back = ranks.intersection(&alloc.nodes.offline);
            node_events::post(turn, alloc, timers, "online", &back, Map::new());
        }),
        NodeRequest::Reload { .. } if alloc.nodes.is_elastic => {
            refuse(EINVAL, "the tables [[allocation]] say which resources there are: config reload")
        }
        NodeRequest::Reload { resources, force } => {
            reload(turn, jobs, alloc, timers, &resources, force)
        }
        NodeRequest::End(end) => move_end(turn, jobs, alloc, timers, end),
        NodeRequest::Journal => {
            let payload = json!({ "events": alloc.nodes.journal.events() });
            turn.effects.after.push(Effect::Respond { to: reply, payload });
            return alloc.nodes.watchers.push(reply);
        }
        NodeRequest::AddMaintenance { targets, from, to, reason } => {
            let now = turn.clock.now;
            let added = new_maintenance(&alloc.nodes, now, &targets, from, to, &reason);
            let added = added.map(|(id, entry)| {
                node_events::post_entry(turn, alloc, timers, entry);
                json!({ "id": id })
            });
            return turn.effects.reply(reply, added);
        }
        NodeRequest::RemoveMaintenance { id } => remove_maintenance(turn, alloc, timers, id),
    };
    turn.effects.reply(reply, result.map(|()| json!({})));
}

fn targets(nodes: &Nodes, text: &str) -> Result<Idset, RequestError> {
    Ok(nodes.targets(text)?)
}

/// Checks `resource.drain`; returns the nodes.
fn check_drain(nodes: &Nodes, targets: &str, mode: DrainMode) -> Result<Idset, RequestError> {
    let ranks = self::targets(nodes, targets)?;
    let excluded = ranks.intersection(&nodes.excluded);
    if !excluded.is_empty() {
        return refuse(EINVAL, format!("{} {excluded} excluded", rank_word(&excluded)));
    }
    // A reason that is missing may be added without force.
    let has_reason = |rank: &u32| nodes.drained.get(rank).is_some_and(|node| node.reason.is_some());
    let known: Idset = ranks.iter().filter(has_reason).collect();
    if mode == DrainMode::New && !known.is_empty() {
        return refuse(EEXIST, format!("{} {known} already drained", rank_word(&known)));
    }
    Ok(ranks)
}

/// Checks `resource.undrain`; returns the nodes.
fn check_undrain(nodes: &Nodes, targets: &str, mode: DrainMode) -> Result<Idset, RequestError> {
    let ranks = self::targets(nodes, targets)?;
    let not = ranks.difference(&nodes.drained_ranks());
    if mode == DrainMode::New && !not.is_empty() {
        return refuse(EINVAL, format!("{} {not} not drained", rank_word(&not)));
    }
    Ok(ranks)
}

/// The context of an `undrain` event.
fn undrain_context(reason: Option<&str>, mode: DrainMode, userid: Uid) -> Map<String, Value> {
    let mut context = Map::new();
    context.insert("overwrite".to_owned(), mode.overwrite().into());
    if let Some(reason) = reason {
        context.insert("reason".to_owned(), reason.into());
    }
    context.insert("userid".to_owned(), userid.as_u32().into());
    context
}

/// Handles the loss of nodes: they are drained, too.
fn take_offline(
    turn: &mut Turn,
    alloc: &mut Allocation,
    timers: &mut Timers,
    lost: &Idset,
    reason: Option<&str>,
    userid: Uid,
) {
    node_events::post(turn, alloc, timers, "offline", lost, Map::new());
    let drained_now = node_events::without_reason(&alloc.nodes, lost);
    let reason = reason.unwrap_or("node failure");
    let context = drain_context(Some(reason), DrainMode::Update, userid);
    node_events::post(turn, alloc, timers, "drain", &drained_now, context);
}

/// `resource.reload`.
fn reload(
    turn: &mut Turn,
    jobs: &mut Jobs,
    alloc: &mut Allocation,
    timers: &mut Timers,
    resources: &ResourceSet,
    force: bool,
) -> Result<(), RequestError> {
    if resources.is_empty() {
        return refuse(EINVAL, "R has no resources");
    }
    let now = turn.clock.now;
    let allocated = alloc.pool.allocated();
    if !force && !allocated.is_subset(resources) {
        let missing = allocated.difference(&resources.intersection(&allocated));
        return refuse(EBUSY, format!("jobs hold {}, which is not there", missing.summary()));
    }
    let end = resources.expiration();
    if end.is_some_and(|end| end <= now.as_secs()) {
        return refuse(EINVAL, "R has expired");
    }
    let before = alloc.nodes.inventory.expiration();
    let ranks = resources.ranks();
    alloc.nodes.inventory = resources.clone();
    alloc.nodes.drained.retain(|rank, _| ranks.contains(*rank));
    alloc.nodes.offline = alloc.nodes.offline.intersection(&ranks);
    alloc.nodes.excluded = alloc.nodes.excluded.intersection(&ranks);
    alloc.pool.set_inventory(resources, &alloc.nodes.excluded);
    let define = [("method", json!("reload")), ("ranks", json!(ranks.to_string()))];
    node_events::define(turn, alloc, timers, define);
    if end != before {
        follow_end(turn, jobs, before.unwrap_or(0.0), end.unwrap_or(0.0));
    }
    Ok(())
}

fn move_end(
    turn: &mut Turn,
    jobs: &mut Jobs,
    alloc: &mut Allocation,
    timers: &mut Timers,
    end: f64,
) -> Result<(), RequestError> {
    let mut resources = alloc.nodes.inventory.clone();
    let moved = resources.set_expiration(end);
    moved.map_err(|error| RequestError::new(EINVAL, error.to_string()))?;
    reload(turn, jobs, alloc, timers, &resources, true)
}

/// Moves the end of running jobs that have no time limit of their own to the new end of the instance. A time of 0 is no
/// end.
fn follow_end(turn: &mut Turn, jobs: &mut Jobs, before: f64, end: f64) {
    let by = |from: f64| ((end - from) * 100.0).round() / 100.0;
    let moved = |from: f64| format!("from {from:.2} to {end:.2} ({:+})", by(from));
    turn.effects.log(Level::Info, format!("resource expiration updated {}", moved(before)));
    let unlimited = jobs.active_where(|record| {
        record.job.state() == State::Run
            && record.job.kept().jobspec.duration() == 0.0
            && record.job.resources().is_some()
    });
    for id in unlimited {
        let resources = jobs.job(id).and_then(|job| job.resources());
        let before = resources.and_then(ResourceSet::expiration).unwrap_or(0.0);
        jobs.post(turn, id, Event::ResourceUpdate { expiration: end });
        turn.effects.log(Level::Info, format!("updated expiration of {id} {}", moved(before)));
    }
}

/// The event for `resource.maintenance-add`, with the id of the maintenance.
fn new_maintenance(
    nodes: &Nodes,
    now: Timestamp,
    targets: &str,
    from: Option<f64>,
    to: Option<f64>,
    reason: &str,
) -> Result<(u64, EventEntry), RequestError> {
    let ranks = self::targets(nodes, targets)?;
    let from = from.unwrap_or(now.as_secs());
    let checked = maintenance::check(ranks.clone(), from, to.unwrap_or(f64::INFINITY));
    checked.map_err(|error| RequestError::new(EINVAL, error.to_string()))?;
    let id = nodes.next_maintenance;
    let context = nodes.maintenance_context(id, &ranks, from, to, reason);
    Ok((id, EventEntry::new(now, "maintenance-add", Some(context))))
}

/// `resource.maintenance-remove`.
fn remove_maintenance(
    turn: &mut Turn,
    alloc: &mut Allocation,
    timers: &mut Timers,
    id: u64,
) -> Result<(), RequestError> {
    if !alloc.nodes.planned.iter().any(|planned| planned.id == id) {
        return refuse(ENOENT, format!("maintenance {id} not found"));
    }
    let entry = events::with(turn.clock.now, "maintenance-remove", [("id", json!(id))]);
    node_events::post_entry(turn, alloc, timers, entry);
    Ok(())
}

/// `resource.status`: all resources, and the state of the nodes.
pub(crate) fn status(alloc: &Allocation, now: Timestamp) -> Value {
    let nodes = &alloc.nodes;
    json!({
        "R": r(&nodes.inventory),
        "online": nodes.online().to_string(),
        "offline": nodes.offline.to_string(),
        "exclude": nodes.excluded.to_string(),
        "torpid": "",
        "allocated": alloc.pool.allocated().ranks().to_string(),
        "housekeeping": alloc.retained.ranks().to_string(),
        "drain": nodes.drain_json(),
        "maintenance": nodes.maintenance_json(now),
    })
}

/// `sched.resource-status`: what the scheduler can allocate, which part of that is down, and what is allocated.
pub(crate) fn sched_status(alloc: &Allocation) -> Value {
    let all = alloc.pool.all();
    let down = all.with_ranks(alloc.pool.down());
    json!({ "all": r(all), "down": r(&down), "allocated": r(&alloc.pool.allocated()) })
}

/// R as a JSON value.
fn r(set: &ResourceSet) -> Value {
    // The text of R is JSON, so this cannot fail.
    serde_json::from_str(&set.to_json()).unwrap_or_default()
}
