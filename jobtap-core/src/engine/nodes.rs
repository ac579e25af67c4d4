//! The nodes besides their jobs: which are drained, offline or excluded, since when and why.
//!
//! What happens to nodes is a log of its own, `resource.eventlog`, and the state is what its replay
//! gives. Here is that state machine; what clients and plugins ask for is in `node_requests`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::api::{ReplyTo, TimerId};
use super::record::field;
use crate::eventlog::EventEntry;
use crate::job::Timestamp;
use crate::resource::{Hostlist, Idset, ResourceSet};
use crate::sched::Maintenance;

/// The instance key of the log of nodes.
pub const RESOURCE_LOG: &str = "resource.eventlog";

/// Why a node gets no new jobs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Drained {
    pub(super) since: Timestamp,
    pub(super) reason: Option<String>,
    pub(super) userid: Option<u64>,
}

/// Nodes that are to be empty for a while.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reserved {
    pub(super) id: u64,
    pub(super) maintenance: Maintenance,
    pub(super) reason: String,
}

/// What is known of the nodes.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// All of them, those that are excluded too.
    pub(super) inventory: ResourceSet,
    pub(super) excluded: Idset,
    pub(super) offline: Idset,
    pub(super) drained: BTreeMap<u32, Drained>,
    /// Asked for by administrators.
    pub(super) reserved: Vec<Reserved>,
    /// Asked for by the configuration.
    pub(super) configured: Vec<Reserved>,
    pub(super) next_reserved: u64,
    /// Lines of the log.
    pub(super) lines: u64,
    /// The whole log, for those who begin to watch.
    pub(super) log: Vec<EventEntry>,
    /// When the next maintenance ends, and the timer for it.
    pub(super) next_end: Option<(Timestamp, TimerId)>,
    /// Who wants each new line.
    pub(super) watchers: Vec<ReplyTo>,
}

impl Nodes {
    pub(super) fn new(inventory: &ResourceSet) -> Self {
        Self { inventory: inventory.clone(), next_reserved: 1, ..Self::default() }
    }

    /// Those that get no new jobs.
    pub(super) fn down(&self) -> Idset {
        self.drained_ranks().union(&self.offline)
    }

    pub(super) fn drained_ranks(&self) -> Idset {
        self.drained.keys().copied().collect()
    }

    /// Those that can be reached.
    pub(super) fn online(&self) -> Idset {
        self.inventory.ranks().difference(&self.offline)
    }

    /// Reads `0-3` as ranks and anything else as hosts.
    pub(super) fn targets(&self, text: &str) -> Result<Idset, String> {
        if let Ok(ranks) = text.parse::<Idset>() {
            let unknown = ranks.difference(&self.inventory.ranks());
            return match (ranks.is_empty(), unknown.is_empty()) {
                (true, _) => Err("no targets".to_owned()),
                (_, true) => Ok(ranks),
                (_, false) => Err(format!("{} {unknown} not found", rank_word(&unknown))),
            };
        }
        let hosts: Hostlist =
            text.parse().map_err(|error| format!("invalid target {text:?}: {error}"))?;
        let unknown = hosts.iter().find(|host| {
            host.parse().map_or(true, |host| self.inventory.ranks_on(&host).is_empty())
        });
        match unknown {
            Some(host) => Err(format!("host {host} not found")),
            None => Ok(self.inventory.ranks_on(&hosts)),
        }
    }

    /// The hosts of ranks, as the log has them beside the ranks.
    pub(super) fn hosts(&self, ranks: &Idset) -> String {
        self.inventory.with_ranks(ranks).nodelist().to_string()
    }

    /// `n[1-2] (ranks 1-2)`, for people.
    pub(super) fn named(&self, ranks: &Idset) -> String {
        format!("{} ({} {ranks})", self.hosts(ranks), rank_word(ranks))
    }

    /// Hosts, for people; with the ranks where several have one name.
    pub(super) fn label(&self, ranks: &Idset) -> String {
        let hosts = self.inventory.with_ranks(ranks).nodelist();
        if self.inventory.ranks_on(&hosts) == *ranks {
            hosts.to_string()
        } else {
            self.named(ranks)
        }
    }

    /// The ranks that an event is about. The instance may have others since: the hosts count, unless
    /// their names don't tell the ranks apart.
    fn ranks_of(&self, entry: &EventEntry) -> Idset {
        let text = |key| field(entry, key).and_then(Value::as_str);
        let ranks: Idset = text("idset").and_then(|ranks| ranks.parse().ok()).unwrap_or_default();
        let here = ranks.intersection(&self.inventory.ranks());
        match text("nodelist") {
            Some(hosts) if self.hosts(&ranks) != hosts => {
                hosts.parse().map(|hosts| self.inventory.ranks_on(&hosts)).unwrap_or_default()
            }
            _ => here,
        }
    }

    /// Applies one event; those that change nothing here are for the reader.
    pub(super) fn apply(&mut self, entry: &EventEntry) {
        let ranks = self.ranks_of(entry);
        match &*entry.name {
            "drain" => self.drain(entry, &ranks),
            "undrain" => self.drained.retain(|rank, _| !ranks.contains(*rank)),
            "offline" => self.offline = self.offline.union(&ranks),
            "online" => self.offline = self.offline.difference(&ranks),
            "maintenance-add" => self.reserve(entry, ranks),
            "maintenance-remove" => {
                let id = field(entry, "id").and_then(Value::as_u64);
                self.reserved.retain(|reserved| Some(reserved.id) != id);
            }
            _ => {}
        }
    }

    fn drain(&mut self, entry: &EventEntry, ranks: &Idset) {
        let overwrite = field(entry, "overwrite").and_then(Value::as_u64).unwrap_or(0);
        let reason = field(entry, "reason").and_then(Value::as_str).map(str::to_owned);
        let userid = field(entry, "userid").and_then(Value::as_u64);
        for rank in ranks.iter() {
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

    fn reserve(&mut self, entry: &EventEntry, ranks: Idset) {
        let number = |key| field(entry, key).and_then(Value::as_f64);
        let Some(id) = field(entry, "id").and_then(Value::as_u64) else { return };
        let from = number("from").unwrap_or(entry.timestamp.as_secs());
        let to = number("to").unwrap_or(f64::INFINITY);
        let reason = field(entry, "reason").and_then(Value::as_str).unwrap_or_default().to_owned();
        let maintenance = Maintenance { ranks, from, to };
        self.next_reserved = self.next_reserved.max(id + 1);
        self.reserved.push(Reserved { id, maintenance, reason });
    }

    /// What is reserved and not over.
    pub(super) fn maintenance(&self, now: Timestamp) -> impl Iterator<Item = &Reserved> {
        let all = self.configured.iter().chain(&self.reserved);
        all.filter(move |reserved| reserved.maintenance.to > now.as_secs())
    }

    /// Drained nodes with equal reasons and times together, as `resource.status` shows them.
    pub(super) fn drained_groups(&self) -> Vec<(Idset, &Drained)> {
        let mut groups: Vec<(Idset, &Drained)> = Vec::new();
        for (rank, drained) in &self.drained {
            match groups.iter_mut().find(|(_, known)| *known == drained) {
                Some((ranks, _)) => drop(ranks.insert(*rank)),
                None => groups.push((Idset::from(*rank), drained)),
            }
        }
        groups
    }

    /// The groups as an object by ranks.
    pub(super) fn drain_json(&self) -> Value {
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

/// `rank` or `ranks`.
pub(super) fn rank_word(ranks: &Idset) -> &'static str {
    if ranks.len() == 1 { "rank" } else { "ranks" }
}
