//! What administrators do with nodes, and what clients read of resources.

use serde_json::{Map, Value, json};

use super::owner_only;
use crate::engine::alloc::nodes::rank_word;
use crate::engine::alloc::{Allocation, maintenance, node_events};
use crate::engine::api::{Cred, DrainMode, Effect, Level, NodeRequest, ReplyTo, RequestError};
use crate::engine::core::Core;
use crate::engine::events;
use crate::host::errno::{EBUSY, EEXIST, EINVAL, ENOENT};
use crate::job::{State, Timestamp};
use crate::resource::{Idset, ResourceSet};

fn refuse<T>(errno: i32, text: impl Into<String>) -> Result<T, RequestError> {
    Err(RequestError::new(errno, text))
}

/// Handles a request about nodes. All of them are for the owner of the instance.
pub(super) fn handle(core: &mut Core, reply: ReplyTo, cred: Cred, request: NodeRequest) {
    if let Err(error) = owner_only(cred) {
        return core.reply(reply, Err(error));
    }
    let userid = cred.userid.as_u32();
    let result = match request {
        NodeRequest::Drain { targets, reason, mode } => {
            drain(core, &targets, reason.as_deref(), mode, userid)
        }
        NodeRequest::Undrain { targets, reason, mode } => {
            undrain(core, &targets, reason.as_deref(), mode, userid)
        }
        NodeRequest::Offline { targets, reason } => self::targets(&core.alloc, &targets)
            .map(|ranks| node_events::lose(core, &ranks, reason.as_deref(), userid)),
        NodeRequest::Online { targets } => self::targets(&core.alloc, &targets).map(|ranks| {
            let back = ranks.intersection(&core.alloc.nodes.offline);
            node_events::post(core, "online", &back, Map::new());
        }),
        NodeRequest::Reload { resources, force } => reload(core, &resources, force),
        NodeRequest::End(end) => move_end(core, end),
        NodeRequest::Journal => {
            let payload = json!({ "events": core.alloc.nodes.journal.events() });
            core.effects.after.push(Effect::Respond { to: reply, payload });
            return core.alloc.nodes.watchers.push(reply);
        }
        NodeRequest::AddMaintenance { targets, from, to, reason } => {
            let id = add_maintenance(core, &targets, from, to, &reason);
            return core.reply(reply, id.map(|id| json!({ "id": id })));
        }
        NodeRequest::RemoveMaintenance { id } => remove_maintenance(core, id),
    };
    core.reply(reply, result.map(|()| json!({})));
}

fn targets(alloc: &Allocation, text: &str) -> Result<Idset, RequestError> {
    alloc.nodes.targets(text).map_err(|text| RequestError::new(EINVAL, text))
}

/// `resource.drain`.
fn drain(
    core: &mut Core,
    targets: &str,
    reason: Option<&str>,
    mode: DrainMode,
    userid: u32,
) -> Result<(), RequestError> {
    let ranks = self::targets(&core.alloc, targets)?;
    let nodes = &core.alloc.nodes;
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
    node_events::drain(core, &ranks, reason, mode, userid);
    Ok(())
}

/// `resource.undrain`.
fn undrain(
    core: &mut Core,
    targets: &str,
    reason: Option<&str>,
    mode: DrainMode,
    userid: u32,
) -> Result<(), RequestError> {
    let ranks = self::targets(&core.alloc, targets)?;
    let not = ranks.difference(&core.alloc.nodes.drained_ranks());
    if mode == DrainMode::New && !not.is_empty() {
        return refuse(EINVAL, format!("{} {not} not drained", rank_word(&not)));
    }
    let mut context = Map::new();
    context.insert("overwrite".to_owned(), mode.overwrite().into());
    if let Some(reason) = reason {
        context.insert("reason".to_owned(), reason.into());
    }
    context.insert("userid".to_owned(), userid.into());
    // As in Flux, the event has all nodes of the request, drained or not.
    node_events::post(core, "undrain", &ranks, context);
    Ok(())
}

/// `resource.reload`.
fn reload(core: &mut Core, resources: &ResourceSet, force: bool) -> Result<(), RequestError> {
    if resources.is_empty() {
        return refuse(EINVAL, "R has no resources");
    }
    let now = core.clock.now;
    let alloc = &mut core.alloc;
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
    node_events::define(core, define);
    if end != before {
        follow_end(core, before.unwrap_or(0.0), end.unwrap_or(0.0));
    }
    Ok(())
}

fn move_end(core: &mut Core, end: f64) -> Result<(), RequestError> {
    let mut resources = core.alloc.nodes.inventory.clone();
    let moved = resources.set_expiration(end);
    moved.map_err(|error| RequestError::new(EINVAL, error.to_string()))?;
    reload(core, &resources, true)
}

/// Moves the end of running jobs that have none of their own to the new end of the instance. A time of
/// 0 is no end.
fn follow_end(core: &mut Core, before: f64, end: f64) {
    let by = |from: f64| ((end - from) * 100.0).round() / 100.0;
    let moved = |from: f64| format!("from {from:.2} to {end:.2} ({:+})", by(from));
    core.log(Level::Info, format!("resource expiration updated {}", moved(before)));
    let unlimited = core.jobs.active_where(|record| {
        record.job.state == State::Run
            && record.job.jobspec.duration() == 0.0
            && record.job.resources().is_some()
    });
    for id in unlimited {
        let resources = core.job(id).and_then(|job| job.resources());
        let before = resources.and_then(ResourceSet::expiration).unwrap_or(0.0);
        let context = [("expiration", json!(end))];
        core.post(id, events::with(core.clock.now, "resource-update", context));
        core.log(Level::Info, format!("updated expiration of {id} {}", moved(before)));
    }
}

/// `resource.maintenance-add`. Returns the id of the maintenance.
fn add_maintenance(
    core: &mut Core,
    targets: &str,
    from: Option<f64>,
    to: Option<f64>,
    reason: &str,
) -> Result<u64, RequestError> {
    let ranks = self::targets(&core.alloc, targets)?;
    let now = core.clock.now;
    let from = from.unwrap_or(now.as_secs());
    let checked = maintenance::check(ranks.clone(), from, to.unwrap_or(f64::INFINITY));
    checked.map_err(|text| RequestError::new(EINVAL, text))?;
    let nodes = &core.alloc.nodes;
    let id = nodes.next_maintenance;
    let context = nodes.maintenance_context(id, &ranks, from, to, reason);
    let entry = events::with_context(now, "maintenance-add", Some(context));
    node_events::post_entry(core, entry);
    Ok(id)
}

/// `resource.maintenance-remove`.
fn remove_maintenance(core: &mut Core, id: u64) -> Result<(), RequestError> {
    if !core.alloc.nodes.planned.iter().any(|planned| planned.id == id) {
        return refuse(ENOENT, format!("maintenance {id} not found"));
    }
    let entry = events::with(core.clock.now, "maintenance-remove", [("id", json!(id))]);
    node_events::post_entry(core, entry);
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

/// `sched.resource-status`: what the scheduler can allocate, what of it is down, and what is allocated.
pub(crate) fn sched_status(alloc: &Allocation) -> Value {
    let all = alloc.pool.all();
    let down = all.with_ranks(alloc.pool.down());
    json!({ "all": r(all), "down": r(&down), "allocated": r(&alloc.pool.allocated()) })
}

/// R as a JSON value.
fn r(set: &ResourceSet) -> Value {
    // Its text is JSON, so that this cannot fail.
    serde_json::from_str(&set.to_json()).unwrap_or_default()
}
