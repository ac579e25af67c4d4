//! Planned maintenance of nodes: it comes from `[[resource.maintenance]]` or from an administrator, who adds it by an
//! event in the log of nodes. The pool, and so the schedulers, observe it.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Allocation;
use super::nodes::{Nodes, PlannedMaintenance, TargetsError};
use crate::api::RequestError;
use crate::host::errno::EINVAL;
use crate::job::Timestamp;
use crate::jobs::Record;
use crate::resource::Idset;
use crate::sched::Maintenance;
use crate::timers::{Due, Timers};
use crate::turn::Turn;

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

/// Seconds since the UNIX epoch, or a string such as `2026-01-31T08:00:00Z`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Date {
    Seconds(f64),
    Text(String),
}

/// Why maintenance can't be planned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MaintenanceError {
    #[error("resource.maintenance must be an array of tables")]
    NotTables,
    /// The entry at this place, from 1, in the configuration.
    #[error("resource.maintenance {place}: {error}")]
    Entry { place: usize, error: Box<MaintenanceError> },
    #[error("{0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("{0:?} is no time: write 2026-01-31T08:00:00Z")]
    NoTime(String),
    #[error("{0}")]
    Targets(#[from] TargetsError),
    #[error("the beginning must be a time")]
    NoBeginning,
    #[error("the end must be after the beginning")]
    EndsBefore,
}

impl Date {
    fn seconds(&self) -> Result<f64, MaintenanceError> {
        match self {
            Self::Seconds(seconds) => Ok(*seconds),
            Self::Text(text) => Timestamp::parse(text)
                .map(Timestamp::as_secs)
                .ok_or_else(|| MaintenanceError::NoTime(text.clone())),
        }
    }
}

/// The maintenance in the configuration. Its id is 0: no request can remove it.
pub(crate) fn configured(
    nodes: &Nodes,
    config: &Value,
) -> Result<Vec<PlannedMaintenance>, MaintenanceError> {
    let Some(entries) = config.pointer("/resource/maintenance") else {
        return Ok(Vec::new());
    };
    let entries = entries.as_array().ok_or(MaintenanceError::NotTables)?;
    let read = |(index, entry): (usize, &Value)| {
        read_entry(nodes, entry)
            .map_err(|error| MaintenanceError::Entry { place: index + 1, error: error.into() })
    };
    entries.iter().enumerate().map(read).collect()
}

fn read_entry(nodes: &Nodes, entry: &Value) -> Result<PlannedMaintenance, MaintenanceError> {
    let entry = Entry::deserialize(entry)?;
    let ranks = nodes.targets(&entry.nodes)?;
    let from = entry.from.seconds()?;
    let to = entry.to.map_or(Ok(f64::INFINITY), |to| to.seconds())?;
    let maintenance = check(ranks, from, to)?;
    Ok(PlannedMaintenance { id: 0, maintenance, reason: entry.reason })
}

/// Checks a period, in UNIX seconds.
pub(crate) fn check(ranks: Idset, from: f64, to: f64) -> Result<Maintenance, MaintenanceError> {
    if !from.is_finite() || from < 0.0 {
        return Err(MaintenanceError::NoBeginning);
    }
    if to.is_nan() || to <= from {
        return Err(MaintenanceError::EndsBefore);
    }
    Ok(Maintenance { ranks, from, to })
}

impl Nodes {
    /// Refuses to move the end of a job past the start of a maintenance period of its nodes.
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

    /// The maintenance periods that are not over, for `resource.status`.
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

/// Sets the timer for the next end of a maintenance period: jobs that wait for it may start then, and no other input
/// triggers that.
pub(crate) fn arm_timer(turn: &mut Turn, alloc: &mut Allocation, timers: &mut Timers) {
    let nodes = &alloc.nodes;
    let ends = nodes.maintenance(turn.clock.now).map(|planned| planned.maintenance.to);
    let next = ends.filter(|end| end.is_finite()).min_by(f64::total_cmp);
    let next = next.map(Timestamp::from_secs);
    if next == nodes.next_end.map(|(at, _)| at) {
        return;
    }
    let old = alloc.nodes.next_end.take().map(|(_, timer)| timer);
    timers.stop(old);
    alloc.nodes.next_end =
        next.map(|at| (at, timers.start(&mut turn.effects, at, Due::MaintenanceEnd)));
}

/// Sets the timer for the time, in UNIX seconds, at which a maintenance comes too near for a pending job, unless it is set
/// for an earlier one: other jobs may pass that job then, and no other input triggers that.
pub(crate) fn note_too_near(turn: &mut Turn, alloc: &mut Allocation, timers: &mut Timers, at: f64) {
    let at = Timestamp::from_secs(at);
    let known = &mut alloc.nodes.too_near;
    if known.is_none_or(|(known, _)| at < known) {
        timers.stop(known.map(|(_, timer)| timer));
        *known = Some((at, timers.start(&mut turn.effects, at, Due::MaintenanceTooNear)));
    }
}

/// Lets the schedulers plan anew when a maintenance has come too near for a pending job.
pub(crate) fn has_come_too_near(alloc: &mut Allocation) {
    alloc.nodes.too_near = None;
    alloc.pool.plan_anew();
}
