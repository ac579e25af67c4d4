//! The state of the nodes apart from their jobs: which are drained, offline, excluded or under maintenance.
//!
//! Everything that happens to nodes is an event in `resource.eventlog`, and a replay of that log gives the state. This
//! module is that state machine; the events come from `node_events` and from the requests of administrators.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::journal::Journal;
use crate::api::{ReplyTo, RequestError, TimerId};
use crate::eventlog::EventEntry;
use crate::events::field;
use crate::host::errno::EINVAL;
use crate::job::Timestamp;
use crate::resource::{Hostlist, HostlistError, Idset, ResourceSet};
use crate::sched::Maintenance;

/// The instance key of the eventlog of nodes.
pub const RESOURCE_LOG: &str = "resource.eventlog";

/// The instance key of the resources of the instance, as an R, for readers of the store.
pub(crate) const RESOURCES: &str = "resource.R";

/// A drained node: since when, why and by whom.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drained {
    pub(crate) since: Timestamp,
    pub(crate) reason: Option<String>,
    pub(crate) userid: Option<u64>,
}

/// A period in which no job may run on some nodes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedMaintenance {
    pub(crate) id: u64,
    pub(crate) maintenance: Maintenance,
    pub(crate) reason: String,
}

/// The state of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// All resources of the instance, including those of excluded nodes.
    pub(crate) inventory: ResourceSet,
    /// Whether all nodes but the manager's own are those of allocations on demand.
    pub(crate) is_elastic: bool,
    pub(crate) excluded: Idset,
    pub(crate) offline: Idset,
    /// The nodes of allocations that are given back: no new jobs start there.
    pub(crate) closed: Idset,
    pub(crate) drained: BTreeMap<u32, Drained>,
    /// Maintenance that administrators planned.
    pub(crate) planned: Vec<PlannedMaintenance>,
    /// Maintenance in the configuration.
    pub(crate) configured: Vec<PlannedMaintenance>,
    pub(crate) next_maintenance: u64,
    /// The number of events in the log.
    pub(crate) lines: u64,
    /// The last events, for clients that begin to watch.
    pub(crate) journal: Journal,
    /// When the next maintenance ends, with the timer for it.
    pub(crate) next_end: Option<(Timestamp, TimerId)>,
    /// When a maintenance next comes too near for a pending job, with the timer for it.
    pub(crate) too_near: Option<(Timestamp, TimerId)>,
    /// The requests that watch the log.
    pub(crate) watchers: Vec<ReplyTo>,
}

/// Why a text doesn't say which nodes are meant. The words are Flux's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TargetsError {
    #[error("idset is empty")]
    NoRank,
    #[error("idset is out of range")]
    OutOfRange,
    /// Neither ranks nor hosts.
    #[error("invalid targets: {targets:?}: {error}")]
    Unreadable { targets: String, error: HostlistError },
    #[error("invalid targets: invalid hosts: {0}")]
    UnknownHosts(Hostlist),
}

impl From<TargetsError> for RequestError {
    fn from(error: TargetsError) -> Self {
        Self::new(EINVAL, error.to_string())
    }
}

impl Nodes {
    pub(crate) fn new(inventory: &ResourceSet) -> Self {
        Self { inventory: inventory.clone(), next_maintenance: 1, ..Self::default() }
    }

    /// Removes a watcher whose client has gone.
    pub(crate) fn abandon(&mut self, reply: ReplyTo) {
        self.watchers.retain(|watcher| *watcher != reply);
    }

    /// The ranks that get no new jobs.
    pub(crate) fn down(&self) -> Idset {
        self.drained_ranks().union(&self.offline).union(&self.closed)
    }

    /// The drained ranks.
    pub(crate) fn drained_ranks(&self) -> Idset {
        self.drained.keys().copied().collect()
    }

    /// The ranks that are not offline.
    pub(crate) fn online(&self) -> Idset {
        self.inventory.ranks().difference(&self.offline)
    }

    /// Reads the target of a request: `0-3` are ranks, anything else are hosts.
    pub(crate) fn targets(&self, text: &str) -> Result<Idset, TargetsError> {
        if let Ok(ranks) = text.parse::<Idset>() {
            let unknown = ranks.difference(&self.inventory.ranks());
            return match (ranks.is_empty(), unknown.is_empty()) {
                (true, _) => Err(TargetsError::NoRank),
                (_, true) => Ok(ranks),
                (_, false) => Err(TargetsError::OutOfRange),
            };
        }
        let unreadable = |error| TargetsError::Unreadable { targets: text.to_owned(), error };
        let hosts: Hostlist = text.parse().map_err(unreadable)?;
        let unknown = self.inventory.unknown_hosts(&hosts);
        match unknown.is_empty() {
            false => Err(TargetsError::UnknownHosts(unknown)),
            true => Ok(self.inventory.ranks_on(&hosts)),
        }
    }

    /// The hosts of ranks, as in the `nodelist` of events.
    pub(crate) fn hosts(&self, ranks: &Idset) -> String {
        self.inventory.with_ranks(ranks).nodelist().to_string()
    }

    /// Hosts with their ranks, for messages: `n[1-2] (ranks 1-2)`.
    pub(crate) fn named(&self, ranks: &Idset) -> String {
        format!("{} ({} {ranks})", self.hosts(ranks), rank_word(ranks))
    }

    /// Hosts, for messages; with the ranks where several nodes have one name.
    pub(crate) fn label(&self, ranks: &Idset) -> String {
        let hosts = self.inventory.with_ranks(ranks).nodelist();
        if self.inventory.ranks_on(&hosts) == *ranks {
            hosts.to_string()
        } else {
            self.named(ranks)
        }
    }

    /// The ranks that an event is about. If they have other hosts now than in the event, because the instance's
    /// resources have changed, the event's hosts decide. Otherwise its ranks do, since several nodes may have one name.
    ///
    /// In an elastic instance several hosts have a rank one after the other, and the event's are those that still have it.
    fn ranks_of(&self, entry: &EventEntry) -> Idset {
        let text = |key| field(entry, key).and_then(Value::as_str);
        let ranks: Idset = text("idset").and_then(|ranks| ranks.parse().ok()).unwrap_or_default();
        let here = ranks.intersection(&self.inventory.ranks());
        match text("nodelist") {
            Some(hosts) if self.is_elastic => {
                let hosts: Hostlist = hosts.parse().unwrap_or_default();
                let pairs = ranks.iter().zip(hosts.iter());
                let same =
                    pairs.filter(|(rank, host)| self.inventory.host(*rank).as_ref() == Some(host));
                same.map(|(rank, _)| rank).collect()
            }
            Some(hosts) if self.hosts(&ranks) != hosts => {
                hosts.parse().map(|hosts| self.inventory.ranks_on(&hosts)).unwrap_or_default()
            }
            _ => here,
        }
    }

    /// Applies one event. Events with other names change nothing.
    pub(crate) fn apply(&mut self, entry: &EventEntry) {
        let ranks = self.ranks_of(entry);
        match &*entry.name {
            "drain" => self.drain(entry, &ranks),
            "undrain" => self.drained.retain(|rank, _| !ranks.contains(*rank)),
            "offline" => self.offline = self.offline.union(&ranks),
            "online" => self.offline = self.offline.difference(&ranks),
            "maintenance-add" => self.plan(entry, ranks),
            "maintenance-remove" => {
                let id = field(entry, "id").and_then(Value::as_u64);
                self.planned.retain(|planned| Some(planned.id) != id);
            }
            _ => {}
        }
    }

    fn drain(&mut self, entry: &EventEntry, ranks: &Idset) {
        let overwrite = field(entry, "overwrite").and_then(Value::as_u64).unwrap_or(0);
        let reason = field(entry, "reason").and_then(Value::as_str).map(str::to_owned);
        let userid = field(entry, "userid").and_then(Value::as_u64);
        for rank in ranks.iter() {
            // Modes of Flux: 0 keeps what is there, 1 overwrites the reason, 2 the time too.
            let new = Drained { since: entry.timestamp, reason: reason.clone(), userid };
            match self.drained.get_mut(&rank) {
                None => drop(self.drained.insert(rank, new)),
                Some(old) if overwrite == 2 => *old = new,
                Some(old) if overwrite == 1 || old.reason.is_none() => {
                    *old = Drained { since: old.since, ..new };
                }
                Some(_) => {}
            }
        }
    }

    fn plan(&mut self, entry: &EventEntry, ranks: Idset) {
        let number = |key| field(entry, key).and_then(Value::as_f64);
        let Some(id) = field(entry, "id").and_then(Value::as_u64) else { return };
        let from = number("from").unwrap_or(entry.timestamp.as_secs());
        let to = number("to").unwrap_or(f64::INFINITY);
        let reason = field(entry, "reason").and_then(Value::as_str).unwrap_or_default().to_owned();
        let maintenance = Maintenance { ranks, from, to };
        self.next_maintenance = self.next_maintenance.max(id + 1);
        self.planned.push(PlannedMaintenance { id, maintenance, reason });
    }

    /// The maintenance periods that are not over.
    pub(crate) fn maintenance(&self, now: Timestamp) -> impl Iterator<Item = &PlannedMaintenance> {
        let all = self.configured.iter().chain(&self.planned);
        all.filter(move |planned| planned.maintenance.to > now.as_secs())
    }

    /// The drained nodes, grouped by time, reason and user, as `resource.status` shows them.
    pub(crate) fn drained_groups(&self) -> Vec<(Idset, &Drained)> {
        let mut groups: Vec<(Idset, &Drained)> = Vec::new();
        for (rank, drained) in &self.drained {
            match groups.iter_mut().find(|(_, known)| *known == drained) {
                Some((ranks, _)) => drop(ranks.insert(*rank)),
                None => groups.push((Idset::from(*rank), drained)),
            }
        }
        groups
    }

    /// The same groups as an object, by ranks.
    pub(crate) fn drain_json(&self) -> Value {
        let groups = self.drained_groups().into_iter().map(|(ranks, drained)| {
            let Drained { since, reason, userid } = drained;
            let reason = reason.as_deref().unwrap_or_default();
            (
                ranks.to_string(),
                json!({ "timestamp": since.as_secs(), "reason": reason, "userid": userid }),
            )
        });
        Value::Object(groups.collect::<Map<_, _>>())
    }
}

/// `rank` or `ranks`, for messages.
pub(crate) fn rank_word(ranks: &Idset) -> &'static str {
    if ranks.len() == 1 { "rank" } else { "ranks" }
}
