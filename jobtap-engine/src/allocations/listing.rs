//! `allocation.list`: the tables and the allocations, as clients read them.

use serde_json::{Map, Value, json};

use super::state::State;
use super::{Allocations, Ordered};
use crate::allocation::{AllocationId, Table};
use crate::core::Core;
use crate::job::Timestamp;
use crate::resource::{Hostlist, Idset};

/// See [`Engine::allocations`](crate::Engine::allocations).
pub(crate) fn list(core: &Core) -> Value {
    let (allocations, now) = (&core.allocations, core.turn.clock.now);
    let known = allocations.known.iter();
    let offline = &core.alloc.nodes.offline;
    let known = known.map(|(id, known)| allocation(*id, known, offline));
    let tables = allocations.tables.iter().map(|known| table(allocations, known, now));
    json!({ "allocations": known.collect::<Vec<_>>(), "tables": tables.collect::<Vec<_>>() })
}

fn allocation(id: AllocationId, known: &Ordered, offline: &Idset) -> Value {
    let mut shown = Map::new();
    let mut add = |key: &str, value: Value| {
        if !value.is_null() {
            shown.insert(key.to_owned(), value);
        }
    };
    add("id", json!(id));
    add("table", json!(known.table));
    add("state", json!(known.state.word()));
    add("job", json!(known.job()));
    let (reason, idle_since) = match &known.state {
        State::Waiting { reason, .. } => (reason.as_deref(), None),
        State::Running { idle_since, .. } => (None, *idle_since),
        State::Draining { reason, .. } | State::Ending { reason, .. } => (Some(&**reason), None),
        State::Asked => (known.unanswered.as_deref(), None),
    };
    add("reason", json!(reason));
    add("ranks", json!(known.ranks));
    add("nodes", json!(known.ranks.len()));
    add("hosts", json!(hosts(known)));
    let joined: Idset = known.joined.keys().copied().collect();
    add("online", json!(joined.difference(offline)));
    add("time_limit", json!(known.time_limit));
    add("t_asked", json!(known.asked));
    add("t_started", json!(known.started()));
    add("t_end", json!(known.ends_at()));
    add("t_idle", json!(idle_since));
    Value::Object(shown)
}

/// The hostlist of the nodes that have joined.
fn hosts(known: &Ordered) -> String {
    let mut hosts = Hostlist::new();
    for host in known.joined.values() {
        // Checked when it joined.
        let _ = hosts.push(host);
    }
    hosts.to_string()
}

fn table(allocations: &Allocations, table: &Table, now: Timestamp) -> Value {
    let history = allocations.histories.get(&table.name);
    let next = history.and_then(|history| history.next_try(now, table.requests_per_hour));
    let refusal = history.and_then(|history| history.refusal.as_ref());
    let mut shown = json!({
        "name": table.name, "engine": table.engine.word(), "nodes": table.nodes, "cores": table.cores,
        "gpus": table.gpus, "min": table.min, "max": table.max,
        "count": allocations.of_table(&table.name).count(),
        "core_hours": allocations.core_hours(table, now),
        "requests": history.map_or(0, |history| history.requests_in_hour(now)),
        "requests_per_hour": table.requests_per_hour,
        "refusals": history.map_or(0, |history| history.refusals),
    });
    let more = [
        ("core_hours_per_day", json!(table.core_hours_per_day)),
        ("time_limit", json!(table.time_limit.map(|limit| limit.as_secs()))),
        ("refusal", json!(refusal.map(|(reason, _)| reason))),
        ("t_next", json!(next)),
    ];
    if let Some(shown) = shown.as_object_mut() {
        let more = more.into_iter().filter(|(_, value)| !value.is_null());
        shown.extend(more.map(|(key, value)| (key.to_owned(), value)));
    }
    shown
}
