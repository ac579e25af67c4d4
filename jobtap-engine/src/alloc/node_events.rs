//! The events in the log of nodes, and what follows from each.

use serde_json::{Map, Value, json};

use super::maintenance::MaintenanceError;
use super::nodes::{Nodes, RESOURCE_LOG, RESOURCES, TargetsError, rank_word};
use super::{Allocation, maintenance};
use crate::api::{DrainMode, Effect, Effects, Level, Write};
use crate::eventlog::{EventEntry, LogError, decode_log};
use crate::events;
use crate::job::Uid;
use crate::resource::Idset;
use crate::timers::Timers;
use crate::turn::Turn;

/// Logs an event about nodes and does what follows from it. Does nothing if there are no nodes.
pub(crate) fn post(
    turn: &mut Turn,
    alloc: &mut Allocation,
    timers: &mut Timers,
    name: &'static str,
    ranks: &Idset,
    more: Map<String, Value>,
) {
    if ranks.is_empty() {
        return;
    }
    let mut context = Map::new();
    context.insert("idset".to_owned(), ranks.to_string().into());
    context.insert("nodelist".to_owned(), alloc.nodes.hosts(ranks).into());
    context.extend(more);
    post_entry(turn, alloc, timers, EventEntry::new(turn.clock.now, name, Some(context)));
}

/// Logs an event, applies it, and shows it to watchers.
pub(crate) fn post_entry(
    turn: &mut Turn,
    alloc: &mut Allocation,
    timers: &mut Timers,
    entry: EventEntry,
) {
    let nodes = &mut alloc.nodes;
    nodes.apply(&entry);
    let (seq, key) = (nodes.lines, RESOURCE_LOG.to_owned());
    nodes.lines += 1;
    turn.effects.writes.push(Write::AppendInstance { key, seq, line: entry.encode() });
    tell(&mut turn.effects, &mut alloc.nodes, entry);
    refresh_pool(turn, alloc, timers);
}

/// Adds an event to the journal and sends it to watchers, without storing it in the log.
fn tell(effects: &mut Effects, nodes: &mut Nodes, entry: EventEntry) {
    for to in &nodes.watchers {
        let payload = json!({ "events": [entry] });
        effects.after.push(Effect::Respond { to: *to, payload });
    }
    nodes.journal.push(entry);
}

/// Tells the pool which nodes it may allocate.
pub(crate) fn refresh_pool(turn: &mut Turn, alloc: &mut Allocation, timers: &mut Timers) {
    let (nodes, pool) = (&alloc.nodes, &mut alloc.pool);
    pool.set_down(nodes.down());
    let planned: Vec<_> =
        nodes.maintenance(turn.clock.now).map(|r| r.maintenance.clone()).collect();
    if planned != pool.maintenance() {
        pool.set_maintenance(planned);
    }
    maintenance::arm_timer(turn, alloc, timers);
}

/// Returns nodes to the pool when their maintenance ends.
pub(crate) fn end_maintenance(turn: &mut Turn, alloc: &mut Allocation, timers: &mut Timers) {
    alloc.nodes.next_end = None;
    refresh_pool(turn, alloc, timers);
}

/// The context of a `drain` event. `mode` says what happens to nodes that are drained already.
pub(crate) fn drain_context(
    reason: Option<&str>,
    mode: DrainMode,
    userid: Uid,
) -> Map<String, Value> {
    let mut context = Map::new();
    if let Some(reason) = reason {
        context.insert("reason".to_owned(), reason.into());
    }
    context.insert("overwrite".to_owned(), mode.overwrite().into());
    context.insert("userid".to_owned(), userid.as_u32().into());
    context
}

/// Those of these nodes that are not drained with a reason. The manager itself drains only these, so that the log
/// doesn't fill with events that change nothing.
pub(crate) fn without_reason(nodes: &Nodes, ranks: &Idset) -> Idset {
    let drained = &nodes.drained;
    let has_none = |rank: &u32| drained.get(rank).is_none_or(|node| node.reason.is_none());
    ranks.iter().filter(has_none).collect()
}

/// Drains nodes on behalf of a plugin or the executor. Existing reasons stay.
pub(crate) fn drain_for_owner(
    turn: &mut Turn,
    alloc: &mut Allocation,
    timers: &mut Timers,
    ranks: &Idset,
    reason: &str,
) {
    let known = ranks.intersection(&alloc.nodes.inventory.ranks());
    if known.is_empty() {
        let text = format!("drain: {} {ranks} not found: {reason}", rank_word(ranks));
        return turn.effects.log(Level::Warning, text);
    }
    let known = without_reason(&alloc.nodes, &known);
    let context = drain_context(Some(reason), DrainMode::Update, turn.owner);
    post(turn, alloc, timers, "drain", &known, context);
}

/// The stored log of nodes is damaged, so that it is not known which nodes are drained.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{RESOURCE_LOG} is damaged: {0}")]
pub struct NodeLogError(LogError);

/// Why the configuration of nodes can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeConfigError {
    #[error("resource.exclude must be a string")]
    ExcludeNoString,
    #[error("resource.exclude: {0}")]
    Exclude(TargetsError),
    #[error("{0}")]
    Maintenance(#[from] MaintenanceError),
}

/// Restores the state of the nodes from their stored log.
///
/// # Errors
/// When a line cannot be read: then it is not known which nodes are drained.
pub(crate) fn restore(nodes: &mut Nodes, log: &str) -> Result<(), NodeLogError> {
    // Counted before decoding, so that the next line doesn't overwrite another even if a line is damaged.
    nodes.lines = log.lines().count() as u64;
    let entries = decode_log(log).map_err(NodeLogError)?;
    for entry in entries {
        nodes.apply(&entry);
        nodes.journal.push(entry);
    }
    Ok(())
}

/// Posts the first events of a run. As in Flux, no node is online at first; then the first node, where the manager
/// runs, comes online before the others. The `restart` and `online` events are not stored.
pub(crate) fn start(turn: &mut Turn, alloc: &mut Allocation, timers: &mut Timers, config: &Value) {
    let nodes = &alloc.nodes;
    let context = [
        ("ranks", json!(nodes.inventory.ranks().to_string())),
        ("online", json!("")),
        ("nodelist", json!(nodes.inventory.nodelist().to_string())),
    ];
    let first: Idset = nodes.online().iter().take(1).collect();
    let others = nodes.online().difference(&first);
    tell(&mut turn.effects, &mut alloc.nodes, events::with(turn.clock.now, "restart", context));
    let method = match config.pointer("/resource/config") {
        Some(_) => "configuration",
        None => "dynamic-discovery",
    };
    define(turn, alloc, timers, [("method", json!(method))]);
    for ranks in [first, others] {
        if !ranks.is_empty() {
            let context = [("idset", json!(ranks.to_string()))];
            tell(
                &mut turn.effects,
                &mut alloc.nodes,
                events::with(turn.clock.now, "online", context),
            );
        }
    }
}

/// Publishes the resources of the instance, in an event and under the key where Flux has them.
pub(crate) fn define<const N: usize>(
    turn: &mut Turn,
    alloc: &mut Allocation,
    timers: &mut Timers,
    context: [(&'static str, Value); N],
) {
    post_entry(turn, alloc, timers, events::with(turn.clock.now, "resource-define", context));
    let value = alloc.nodes.inventory.to_json();
    turn.effects.writes.push(Write::PutInstance { key: RESOURCES.to_owned(), value });
}

/// Applies `resource.exclude`, `resource.maintenance` and `resource.journal-max` from the configuration.
pub(crate) fn read_config(
    turn: &mut Turn,
    alloc: &mut Allocation,
    timers: &mut Timers,
    config: &Value,
    started: bool,
) -> Result<(), NodeConfigError> {
    let nodes = &mut alloc.nodes;
    let excluded = match config.pointer("/resource/exclude") {
        // The manager's own host takes no jobs if it has allocations for them.
        None if nodes.is_elastic => Idset::from(0),
        None => Idset::new(),
        Some(Value::String(text)) if text.is_empty() => Idset::new(),
        Some(Value::String(text)) => nodes.targets(text).map_err(NodeConfigError::Exclude)?,
        Some(_) => return Err(NodeConfigError::ExcludeNoString),
    };
    nodes.configured = maintenance::configured(nodes, config)?;
    nodes.journal.configure(config);
    let before = std::mem::replace(&mut nodes.excluded, excluded.clone());
    if before != excluded {
        alloc.pool.set_excluded(&excluded);
    }
    if started {
        post(turn, alloc, timers, "exclude", &excluded.difference(&before), Map::new());
        post(turn, alloc, timers, "unexclude", &before.difference(&excluded), Map::new());
        refresh_pool(turn, alloc, timers);
    }
    Ok(())
}
