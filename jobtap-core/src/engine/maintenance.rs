//! Maintenance of nodes: asked for by `[[resource.maintenance]]` or by an administrator, kept in the
//! log of nodes, and told to the pool, which the schedulers go by.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::api::RequestError;
use super::nodes::Reserved;
use super::record::Record;
use super::requests::refused;
use super::{Engine, events};
use crate::job::Timestamp;
use crate::resource::Idset;
use crate::sched::Maintenance;

const EINVAL: i32 = 22;
const ENOENT: i32 = 2;

/// An entry of `[[resource.maintenance]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Ranks or hosts.
    nodes: String,
    from: Moment,
    #[serde(default)]
    to: Option<Moment>,
    #[serde(default)]
    reason: String,
}

/// Seconds since the UNIX epoch, or `2026-01-31T08:00:00Z`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Moment {
    Seconds(f64),
    Text(String),
}

impl Moment {
    fn seconds(&self) -> Result<f64, String> {
        match self {
            Self::Seconds(seconds) => Ok(*seconds),
            Self::Text(text) => Timestamp::parse(text)
                .map(Timestamp::as_secs)
                .ok_or_else(|| format!("{text:?} is no time: write 2026-01-31T08:00:00Z")),
        }
    }
}

impl Engine {
    /// What the configuration asks for; its ids are 0.
    pub(super) fn configured_maintenance(&self) -> Result<Vec<Reserved>, String> {
        let Some(entries) = self.config.pointer("/resource/maintenance") else {
            return Ok(Vec::new());
        };
        let entries =
            entries.as_array().ok_or("resource.maintenance must be an array of tables")?;
        let read = |(index, entry): (usize, &Value)| {
            self.entry(entry).map_err(|text| format!("resource.maintenance {}: {text}", index + 1))
        };
        entries.iter().enumerate().map(read).collect()
    }

    fn entry(&self, entry: &Value) -> Result<Reserved, String> {
        let entry = Entry::deserialize(entry).map_err(|error| error.to_string())?;
        let ranks = self.nodes.targets(&entry.nodes)?;
        let from = entry.from.seconds()?;
        let to = entry.to.map_or(Ok(f64::INFINITY), |to| to.seconds())?;
        let maintenance = checked(ranks, from, to)?;
        Ok(Reserved { id: 0, maintenance, reason: entry.reason })
    }

    pub(super) fn maintain(
        &mut self,
        targets: &str,
        from: Option<f64>,
        to: Option<f64>,
        reason: &str,
    ) -> Result<u64, RequestError> {
        let ranks = self.targets(targets)?;
        let from = from.unwrap_or(self.now.as_secs());
        let until = to.unwrap_or(f64::INFINITY);
        checked(ranks.clone(), from, until).map_err(|text| refused(EINVAL, text))?;
        let id = self.nodes.next_reserved;
        let mut context = Map::new();
        context.insert("id".to_owned(), id.into());
        context.insert("idset".to_owned(), ranks.to_string().into());
        context.insert("nodelist".to_owned(), self.nodes.hosts(&ranks).into());
        context.insert("from".to_owned(), from.into());
        if let Some(to) = to {
            context.insert("to".to_owned(), to.into());
        }
        context.insert("reason".to_owned(), reason.into());
        self.post_node_event(events::given(self.now, "maintenance-add", Some(context)));
        Ok(id)
    }

    pub(super) fn end_maintenance(&mut self, id: u64) -> Result<(), RequestError> {
        if !self.nodes.reserved.iter().any(|reserved| reserved.id == id) {
            return Err(refused(ENOENT, format!("maintenance {id} not found")));
        }
        let entry = events::with(self.now, "maintenance-remove", [("id", json!(id))]);
        self.post_node_event(entry);
        Ok(())
    }

    /// Refuses a later end of a job that would still run when a maintenance of its nodes begins.
    pub(super) fn stays_out_of_maintenance(
        &self,
        record: &Record,
        expiration: f64,
    ) -> Result<(), RequestError> {
        let Some(held) = record.held() else { return Ok(()) };
        let before = held.expiration().unwrap_or(f64::INFINITY);
        let late = |reserved: &&Reserved| {
            let Maintenance { ranks, from, .. } = &reserved.maintenance;
            before <= *from && expiration > *from && held.ranks().intersects(ranks)
        };
        match self.nodes.maintenance(self.now).find(late) {
            None => Ok(()),
            Some(Reserved { maintenance, reason, .. }) => {
                let hosts = self.nodes.hosts(&maintenance.ranks);
                let text = format!("job would run into the maintenance of {hosts} ({reason})");
                Err(refused(EINVAL, text))
            }
        }
    }

    /// What is reserved and not over, for listings.
    pub(super) fn maintenance_json(&self) -> Value {
        let one = |reserved: &Reserved| {
            let Reserved { id, maintenance, reason } = reserved;
            let Maintenance { ranks, from, to } = maintenance;
            let to = to.is_finite().then_some(*to);
            json!({
                "id": id, "ranks": ranks.to_string(), "nodelist": self.nodes.hosts(ranks),
                "from": from, "to": to, "reason": reason,
            })
        };
        self.nodes.maintenance(self.now).map(one).collect()
    }

    /// Jobs that wait for the end of a maintenance may start then: no other event tells it.
    pub(super) fn arm_maintenance(&mut self) {
        let ends = self.nodes.maintenance(self.now).map(|reserved| reserved.maintenance.to);
        let next = ends.filter(|end| end.is_finite()).min_by(f64::total_cmp);
        let next = next.map(Timestamp::from_secs);
        let set = self.nodes.next_end.map(|(at, _)| at);
        if next == set {
            return;
        }
        let old = self.nodes.next_end.take().map(|(_, timer)| timer);
        self.stop_timer(old);
        self.nodes.next_end = next.map(|at| (at, self.maintenance_until(at)));
    }

    /// One is over.
    pub(super) fn maintenance_over(&mut self) {
        self.nodes.next_end = None;
        self.refresh_nodes();
    }
}

fn checked(ranks: Idset, from: f64, to: f64) -> Result<Maintenance, String> {
    if !from.is_finite() || from < 0.0 {
        return Err("the beginning must be a time".to_owned());
    }
    if to.is_nan() || to <= from {
        return Err("the end must be after the beginning".to_owned());
    }
    Ok(Maintenance { ranks, from, to })
}
