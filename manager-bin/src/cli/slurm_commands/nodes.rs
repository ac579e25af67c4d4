//! The nodes as `sinfo` and `scontrol show node` show them, in Slurm's words.

use std::collections::BTreeMap;

use jobtap_core::resource::{Hostlist, Idset};

use super::job_line::ANONYMOUS;
use crate::cli::common::message::CliError;
use crate::cli::common::resources::resources;
use crate::cli::common::when::now;
use crate::cli::resource::Queues;
use crate::client::Client;
use crate::rpc::services::queue::{GetOverview, Queue};
use crate::rpc::services::resource::{GetSchedStatus, GetStatus};

/// What a node does for jobs, in the order in which `sinfo` lists the states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NodeState {
    Down,
    Maintenance,
    Drained,
    Draining,
    Mixed,
    Allocated,
    Idle,
}

/// Slurm's other words.
const OF_SLURM: [&str; 16] = [
    "unknown",
    "unk",
    "future",
    "futr",
    "no_respond",
    "reserved",
    "resv",
    "completing",
    "comp",
    "fail",
    "failing",
    "planned",
    "plnd",
    "cloud",
    "power_down",
    "reboot",
];

impl NodeState {
    /// Slurm's abbreviation.
    pub(super) fn short(self) -> &'static str {
        match self {
            Self::Down => "down*",
            Self::Maintenance => "maint",
            Self::Drained => "drain",
            Self::Draining => "drng",
            Self::Mixed => "mix",
            Self::Allocated => "alloc",
            Self::Idle => "idle",
        }
    }

    pub(super) fn long(self) -> &'static str {
        match self {
            Self::Down => "down*",
            Self::Maintenance => "maint",
            Self::Drained => "drained",
            Self::Draining => "draining",
            Self::Mixed => "mixed",
            Self::Allocated => "allocated",
            Self::Idle => "idle",
        }
    }

    /// The word of `scontrol show node`, for a node that has jobs or has none.
    pub(super) fn flags(self, busy: bool) -> &'static str {
        match self {
            Self::Down => "DOWN*",
            Self::Maintenance if busy => "ALLOCATED+MAINTENANCE",
            Self::Maintenance => "IDLE+MAINTENANCE",
            Self::Drained => "IDLE+DRAIN",
            Self::Draining => "ALLOCATED+DRAIN",
            Self::Mixed => "MIXED",
            Self::Allocated => "ALLOCATED",
            Self::Idle => "IDLE",
        }
    }

    /// The state of a node that jobs can use, of whose cores so many are used.
    fn by_use(used: usize, all: usize) -> Self {
        match used {
            0 => Self::Idle,
            used if used < all => Self::Mixed,
            _ => Self::Allocated,
        }
    }

    /// Whether an option of `sinfo` names this state.
    fn is_named(self, word: &str) -> bool {
        let bare = |name: &'static str| name.trim_end_matches('*');
        let drains = matches!(self, Self::Drained | Self::Draining);
        word.eq_ignore_ascii_case(bare(self.short()))
            || word.eq_ignore_ascii_case(bare(self.long()))
            || (drains && word.eq_ignore_ascii_case("drain"))
    }

    const ALL: [Self; 7] = [
        Self::Down,
        Self::Maintenance,
        Self::Drained,
        Self::Draining,
        Self::Mixed,
        Self::Allocated,
        Self::Idle,
    ];

    /// Whether a word names a state here or in Slurm. No node is in a state that only Slurm has.
    pub(super) fn is_word(word: &str) -> bool {
        Self::ALL.iter().any(|state| state.is_named(word))
            || OF_SLURM.iter().any(|known| word.eq_ignore_ascii_case(known))
    }

    /// The words that name a state.
    pub(super) fn words() -> Vec<&'static str> {
        let bare = |state: Self| state.long().trim_end_matches('*');
        let short = ["drain", "alloc", "mix"].into_iter();
        Self::ALL.into_iter().map(bare).chain(short).collect()
    }

    /// Its place from idle to down, in which Slurm's states ascend.
    pub(super) fn rank(self) -> f64 {
        -f64::from(self as u8)
    }

    /// The column of `A/I/O/T` in which a node counts that has jobs on some of its cores.
    pub(super) fn is_unavailable(self) -> bool {
        matches!(self, Self::Down | Self::Maintenance | Self::Drained)
    }
}

/// A node.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) host: String,
    pub(super) cores: usize,
    pub(super) busy_cores: usize,
    pub(super) gpus: usize,
    pub(super) busy_gpus: usize,
    pub(super) properties: Vec<String>,
    pub(super) state: NodeState,
    /// Why it is unavailable, since when, and who said so.
    pub(super) reason: Option<Reason>,
    /// The partitions that it belongs to.
    pub(super) partitions: Vec<String>,
}

impl Node {
    /// Whether an option of `sinfo` names this node's state. As in Slurm, a node that is drained or in maintenance is also
    /// in the state that its jobs give it.
    pub(super) fn is_named(&self, word: &str) -> bool {
        let by_use = || NodeState::by_use(self.busy_cores, self.cores);
        self.state.is_named(word) || (self.state != NodeState::Down && by_use().is_named(word))
    }
}

/// Why a node is unavailable.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reason {
    pub(super) text: String,
    pub(super) since: f64,
    pub(super) userid: Option<u32>,
}

/// The nodes and the partitions.
pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    pub(super) partitions: Vec<Queue>,
}

impl Cluster {
    /// Asks the manager.
    ///
    /// # Errors
    /// The manager refuses, or a response can't be read.
    pub(super) async fn fetch(client: &Client) -> Result<Self, CliError> {
        let (status, sched) =
            (client.call(GetStatus {}).await?, client.call(GetSchedStatus {}).await?);
        let mut partitions = client.call(GetOverview {}).await?.queues;
        let queues = Queues::fetch(client).await;
        let (all, busy) = (resources("R", &status.r)?, resources("allocated", &sched.allocated)?);
        let set = |text: &str| text.parse::<Idset>().unwrap_or_default();
        let (offline, excluded) = (set(&status.offline), set(&status.exclude));
        let mut reasons: BTreeMap<u32, Reason> = BTreeMap::new();
        for (ranks, about) in &status.drain {
            for rank in set(ranks).iter() {
                let text = about.reason.clone().unwrap_or_default();
                let userid = about.userid.and_then(|userid| u32::try_from(userid).ok());
                reasons.insert(rank, Reason { text, since: about.timestamp, userid });
            }
        }
        let drained: Idset = reasons.keys().copied().collect();
        let mut maintained = Idset::new();
        for plan in &status.maintenance {
            let (from, to) = (plan.from.unwrap_or_default(), plan.to.unwrap_or(f64::INFINITY));
            if (from..to).contains(&now()) {
                for rank in set(&plan.ranks).iter() {
                    maintained.insert(rank);
                    let reason = Reason { text: plan.reason.clone(), since: from, userid: None };
                    reasons.entry(rank).or_insert(reason);
                }
            }
        }
        for partition in partitions.iter_mut().filter(|partition| partition.name.is_empty()) {
            ANONYMOUS.clone_into(&mut partition.name);
            partition.default = true;
        }
        let node = |rank: u32| -> Option<Node> {
            let own = all.with_ranks(&Idset::from(rank..=rank));
            let used = busy.with_ranks(&Idset::from(rank..=rank));
            let used = used.intersection(&own);
            let has_jobs = !used.is_empty();
            let state = if offline.contains(rank) || excluded.contains(rank) {
                NodeState::Down
            } else if drained.contains(rank) {
                if has_jobs { NodeState::Draining } else { NodeState::Drained }
            } else if maintained.contains(rank) {
                NodeState::Maintenance
            } else {
                NodeState::by_use(used.ncores(), own.ncores())
            };
            let properties: Vec<String> = own.properties().into_keys().collect();
            let words: Vec<&str> = properties.iter().map(String::as_str).collect();
            let of_queues = queues.for_properties(&words);
            let belongs = |partition: &&Queue| {
                partition.name == ANONYMOUS || of_queues.contains(&partition.name.as_str())
            };
            let names = partitions.iter().filter(belongs).map(|partition| partition.name.clone());
            Some(Node {
                host: all.host(rank)?,
                cores: own.ncores(),
                busy_cores: used.ncores(),
                gpus: own.ngpus(),
                busy_gpus: used.ngpus(),
                state,
                reason: reasons.get(&rank).cloned(),
                partitions: names.collect(),
                properties: properties.clone(),
            })
        };
        let nodes = all.ranks().iter().filter_map(node).collect();
        Ok(Self { nodes, partitions })
    }
}

/// Hosts in the short form, `n[1-3]`.
pub(super) fn hostlist<'n>(hosts: impl Iterator<Item = &'n str>) -> String {
    let mut list = Hostlist::default();
    for host in hosts {
        // The name of a node can be in a list.
        let _ = list.push(host);
    }
    list.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_named_in_short_and_long() {
        assert!(NodeState::Drained.is_named("drain") && NodeState::Drained.is_named("DRAINED"));
        assert!(NodeState::Draining.is_named("drain") && NodeState::Draining.is_named("drng"));
        assert!(NodeState::Down.is_named("down") && !NodeState::Idle.is_named("drain"));
        assert_eq!(hostlist(["n1", "n2", "n5"].into_iter()), "n[1-2,5]");
    }
}
