//! What happens to nodes, as events in the log of nodes, and what follows from each.

use serde_json::{Map, Value, json};

use super::maintenance;
use super::nodes::{Nodes, RESOURCE_LOG, RESOURCES, rank_word};
use crate::engine::api::{DrainMode, Effect, Level, Write};
use crate::engine::core::Core;
use crate::engine::events;
use crate::engine::jobs::Record;
use crate::eventlog::{EventEntry, decode_log};
use crate::job::{JobId, State};
use crate::resource::Idset;

/// Logs an event about nodes and does what follows from it. Nothing happens without nodes.
pub(crate) fn post(core: &mut Core, name: &'static str, ranks: &Idset, more: Map<String, Value>) {
    if ranks.is_empty() {
        return;
    }
    let mut context = Map::new();
    context.insert("idset".to_owned(), ranks.to_string().into());
    context.insert("nodelist".to_owned(), core.alloc.nodes.hosts(ranks).into());
    context.extend(more);
    post_entry(core, events::with_context(core.clock.now, name, Some(context)));
}

/// Logs an event, applies it, and shows it to watchers.
pub(crate) fn post_entry(core: &mut Core, entry: EventEntry) {
    let nodes = &mut core.alloc.nodes;
    nodes.apply(&entry);
    let (seq, key) = (nodes.lines, RESOURCE_LOG.to_owned());
    nodes.lines += 1;
    core.effects.writes.push(Write::AppendInstance { key, seq, line: entry.encode() });
    tell(core, entry);
    refresh_pool(core);
}

/// Adds an event to those that are shown, and shows it to watchers. What is only told is not in the stored log.
fn tell(core: &mut Core, entry: EventEntry) {
    let nodes = &mut core.alloc.nodes;
    for to in &nodes.watchers {
        let payload = json!({ "events": [entry] });
        core.effects.after.push(Effect::Respond { to: *to, payload });
    }
    nodes.journal.push(entry);
}

/// Tells the pool which nodes it may allocate.
pub(crate) fn refresh_pool(core: &mut Core) {
    let (nodes, pool) = (&core.alloc.nodes, &mut core.alloc.pool);
    pool.set_down(nodes.down());
    let planned: Vec<_> =
        nodes.maintenance(core.clock.now).map(|r| r.maintenance.clone()).collect();
    if planned != pool.maintenance() {
        pool.set_maintenance(planned);
    }
    maintenance::arm_timer(core);
}

/// Returns nodes to the pool when their maintenance ends.
pub(crate) fn end_maintenance(core: &mut Core) {
    core.alloc.nodes.next_end = None;
    refresh_pool(core);
}

/// Drains nodes. `mode` says what happens to nodes that are drained already.
pub(crate) fn drain(
    core: &mut Core,
    ranks: &Idset,
    reason: Option<&str>,
    mode: DrainMode,
    userid: u32,
) {
    let mut context = Map::new();
    if let Some(reason) = reason {
        context.insert("reason".to_owned(), reason.into());
    }
    context.insert("overwrite".to_owned(), mode.overwrite().into());
    context.insert("userid".to_owned(), userid.into());
    post(core, "drain", ranks, context);
}

/// The nodes among these that are not drained with a reason. The manager itself drains no others: the log would fill
/// with events that change nothing.
fn without_reason(core: &Core, ranks: &Idset) -> Idset {
    let drained = &core.alloc.nodes.drained;
    let has_none = |rank: &u32| drained.get(rank).is_none_or(|node| node.reason.is_none());
    ranks.iter().filter(has_none).collect()
}

/// Drains nodes on behalf of a plugin or the executor. Reasons that are there stay.
pub(crate) fn drain_for_owner(core: &mut Core, ranks: &Idset, reason: &str) {
    let known = ranks.intersection(&core.alloc.nodes.inventory.ranks());
    if known.is_empty() {
        let text = format!("drain: {} {ranks} not found: {reason}", rank_word(ranks));
        return core.log(Level::Warning, text);
    }
    let owner = core.owner.as_u32();
    let known = without_reason(core, &known);
    drain(core, &known, Some(reason), DrainMode::Update, owner);
}

/// Handles the loss of nodes: they are drained, and the jobs that run there end.
pub(crate) fn lose(core: &mut Core, ranks: &Idset, reason: Option<&str>, userid: u32) {
    let lost = ranks.difference(&core.alloc.nodes.offline);
    post(core, "offline", &lost, Map::new());
    let reason = reason.unwrap_or("node failure");
    let drained_now = without_reason(core, &lost);
    drain(core, &drained_now, Some(reason), DrainMode::Update, userid);
    for id in jobs_on(core, &lost) {
        let Some(resources) = core.job(id).and_then(|job| job.resources()) else { continue };
        let theirs = resources.ranks().intersection(&lost);
        let note = format!("node failure on {}", core.alloc.nodes.named(&theirs));
        core.raise_fatal(id, "node-failure", &note);
    }
}

/// The jobs that run on one of these nodes.
fn jobs_on(core: &Core, ranks: &Idset) -> Vec<JobId> {
    core.jobs.active_where(|record: &Record| {
        record.job.state == State::Run
            && record.job.resources().is_some_and(|resources| resources.ranks().intersects(ranks))
    })
}

/// Takes over the stored log of nodes.
///
/// # Errors
/// When a line cannot be read: then it is not known which nodes are drained.
pub(crate) fn restore(nodes: &mut Nodes, log: &str) -> Result<(), String> {
    // Counted before decoding: also after a damaged line the next one must not overwrite a line.
    nodes.lines = log.lines().count() as u64;
    let entries = decode_log(log).map_err(|error| format!("{RESOURCE_LOG} is damaged: {error}"))?;
    for entry in entries {
        nodes.apply(&entry);
        nodes.journal.push(entry);
    }
    Ok(())
}

/// Posts the first events of a run. As in Flux, no node is online at first, the first one, which has the manager, is
/// before the others, and these events are not stored.
pub(crate) fn start(core: &mut Core) {
    let nodes = &core.alloc.nodes;
    let context = [
        ("ranks", json!(nodes.inventory.ranks().to_string())),
        ("online", json!("")),
        ("nodelist", json!(nodes.inventory.nodelist().to_string())),
    ];
    let first: Idset = nodes.online().iter().take(1).collect();
    let others = nodes.online().difference(&first);
    tell(core, events::with(core.clock.now, "restart", context));
    let method = match core.config.pointer("/resource/config") {
        Some(_) => "configuration",
        None => "dynamic-discovery",
    };
    define(core, [("method", json!(method))]);
    for ranks in [first, others] {
        if !ranks.is_empty() {
            let context = [("idset", json!(ranks.to_string()))];
            tell(core, events::with(core.clock.now, "online", context));
        }
    }
}

/// Tells which resources there are from now on: by an event, and by the key in which Flux has them.
pub(crate) fn define<const N: usize>(core: &mut Core, context: [(&'static str, Value); N]) {
    post_entry(core, events::with(core.clock.now, "resource-define", context));
    let value = core.alloc.nodes.inventory.to_json();
    core.effects.writes.push(Write::PutInstance { key: RESOURCES.to_owned(), value });
}

/// Takes over `resource.exclude`, `resource.maintenance` and `resource.journal-max` from the configuration.
pub(crate) fn read_config(core: &mut Core) -> Result<(), String> {
    let nodes = &mut core.alloc.nodes;
    let excluded = match core.config.pointer("/resource/exclude") {
        None => Idset::new(),
        Some(Value::String(text)) if text.is_empty() => Idset::new(),
        Some(Value::String(text)) => {
            nodes.targets(text).map_err(|error| format!("resource.exclude: {error}"))?
        }
        Some(_) => return Err("resource.exclude must be a string".to_owned()),
    };
    nodes.configured = maintenance::configured(nodes, &core.config)?;
    nodes.journal.configure(&core.config);
    let before = std::mem::replace(&mut nodes.excluded, excluded.clone());
    if before != excluded {
        core.alloc.pool.set_excluded(&excluded);
    }
    if core.started {
        post(core, "exclude", &excluded.difference(&before), Map::new());
        post(core, "unexclude", &before.difference(&excluded), Map::new());
        refresh_pool(core);
    }
    Ok(())
}
