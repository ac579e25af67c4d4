//! Planned maintenance of nodes: from `[[resource.maintenance]]` or from an administrator,
//! kept in the log of nodes, and followed by the pool, and so by the schedulers.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::nodes::{Nodes, PlannedMaintenance};
use crate::engine::api::RequestError;
use crate::engine::core::Core;
use crate::engine::jobs::Record;
use crate::engine::timers::Due;
use crate::host::errno::EINVAL;
use crate::job::Timestamp;
use crate::resource::Idset;
use crate::sched::Maintenance;

/// An entry of `[[resource.maintenance]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Ranks or hosts.
    nodes: String,
    from: Date,
    #[serde(default)]
    to: Option<Date>,
    #[serde(default)]
    reason: String,
}

/// Seconds since the UNIX epoch, or a text such as `2026-01-31T08:00:00Z`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Date {
    Seconds(f64),
    Text(String),
}

impl Date {
    fn seconds(&self) -> Result<f64, String> {
        match self {
            Self::Seconds(seconds) => Ok(*seconds),
            Self::Text(text) => Timestamp::parse(text)
                .map(Timestamp::as_secs)
                .ok_or_else(|| format!("{text:?} is no time: write 2026-01-31T08:00:00Z")),
        }
    }
}

/// The maintenance in the configuration. Its id is 0: no request can remove it.
pub(crate) fn configured(nodes: &Nodes, config: &Value) -> Result<Vec<PlannedMaintenance>, String> {
    let Some(entries) = config.pointer("/resource/maintenance") else {
        return Ok(Vec::new());
    };
    let entries = entries.as_array().ok_or("resource.maintenance must be an array of tables")?;
    let read = |(index, entry): (usize, &Value)| {
        read_entry(nodes, entry)
            .map_err(|text| format!("resource.maintenance {}: {text}", index + 1))
    };
    entries.iter().enumerate().map(read).collect()
}

fn read_entry(nodes: &Nodes, entry: &Value) -> Result<PlannedMaintenance, String> {
    let entry = Entry::deserialize(entry).map_err(|error| error.to_string())?;
    let ranks = nodes.targets(&entry.nodes)?;
    let from = entry.from.seconds()?;
    let to = entry.to.map_or(Ok(f64::INFINITY), |to| to.seconds())?;
    let maintenance = check(ranks, from, to)?;
    Ok(PlannedMaintenance { id: 0, maintenance, reason: entry.reason })
}

/// Checks a period, in UNIX seconds.
pub(crate) fn check(ranks: Idset, from: f64, to: f64) -> Result<Maintenance, String> {
    if !from.is_finite() || from < 0.0 {
        return Err("the beginning must be a time".to_owned());
    }
    if to.is_nan() || to <= from {
        return Err("the end must be after the beginning".to_owned());
    }
    Ok(Maintenance { ranks, from, to })
}

impl Nodes {
    /// Refuses to move the end of a job, if the job would then still run when a maintenance of its
    /// nodes begins.
    pub(crate) fn check_new_end(
        &self,
        now: Timestamp,
        record: &Record,
        expiration: f64,
    ) -> Result<(), RequestError> {
        let Some(allocated) = record.unreleased_resources() else { return Ok(()) };
        let before = allocated.expiration().unwrap_or(f64::INFINITY);
        let conflicts = |planned: &&PlannedMaintenance| {
            let Maintenance { ranks, from, .. } = &planned.maintenance;
            before <= *from && expiration > *from && allocated.ranks().intersects(ranks)
        };
        match self.maintenance(now).find(conflicts) {
            None => Ok(()),
            Some(PlannedMaintenance { maintenance, reason, .. }) => {
                let hosts = self.hosts(&maintenance.ranks);
                let text = format!("job would run into the maintenance of {hosts} ({reason})");
                Err(RequestError::new(EINVAL, text))
            }
        }
    }

    /// The maintenance that is not over, for `resource.status`.
    pub(crate) fn maintenance_json(&self, now: Timestamp) -> Value {
        let one = |planned: &PlannedMaintenance| {
            let PlannedMaintenance { id, maintenance, reason } = planned;
            let Maintenance { ranks, from, to } = maintenance;
            let to = to.is_finite().then_some(*to);
            json!({
                "id": id, "ranks": ranks.to_string(), "nodelist": self.hosts(ranks),
                "from": from, "to": to, "reason": reason,
            })
        };
        self.maintenance(now).map(one).collect()
    }

    /// The context of a `maintenance-add` event.
    pub(crate) fn maintenance_context(
        &self,
        id: u64,
        ranks: &Idset,
        from: f64,
        to: Option<f64>,
        reason: &str,
    ) -> Map<String, Value> {
        let mut context = Map::new();
        context.insert("id".to_owned(), id.into());
        context.insert("idset".to_owned(), ranks.to_string().into());
        context.insert("nodelist".to_owned(), self.hosts(ranks).into());
        context.insert("from".to_owned(), from.into());
        if let Some(to) = to {
            context.insert("to".to_owned(), to.into());
        }
        context.insert("reason".to_owned(), reason.into());
        context
    }
}

/// Sets the timer for the end of the next maintenance: jobs that wait for that may start then, and no
/// other event says so.
pub(crate) fn arm_timer(core: &mut Core) {
    let nodes = &core.alloc.nodes;
    let ends = nodes.maintenance(core.clock.now).map(|planned| planned.maintenance.to);
    let next = ends.filter(|end| end.is_finite()).min_by(f64::total_cmp);
    let next = next.map(Timestamp::from_secs);
    if next == nodes.next_end.map(|(at, _)| at) {
        return;
    }
    let old = core.alloc.nodes.next_end.take().map(|(_, timer)| timer);
    core.timers.stop(old);
    core.alloc.nodes.next_end =
        next.map(|at| (at, core.timers.start(&mut core.effects, at, Due::MaintenanceEnd)));
}
