//! What a seed makes of a run before its first step: how large the instance is, and which faults it meets. Few faults at a
//! time find more than all at once, since some hide others.

use serde_json::{Value, json};

use crate::dice::Dice;

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The manager is killed, between two steps or within a commit.
    Crash,
    /// The host of the manager loses its power.
    Power,
    /// The disk is full, or a write or a sync fails.
    Disk,
    /// Channels to nodes are cut or stall.
    Network,
    /// Nodes go down, and come back.
    Nodes,
    /// Clocks are set, hosts sleep, and clocks run apart.
    Clocks,
    /// Clients leave in the middle.
    Clients,
    /// Plugins panic, hang, answer late or contradict themselves.
    Plugins,
    /// Plugins and the configuration are loaded again.
    Reload,
    /// Processes can't be killed, and claims can't be written.
    Processes,
}

/// All kinds.
pub const KINDS: [Kind; 10] = [
    Kind::Crash,
    Kind::Power,
    Kind::Disk,
    Kind::Network,
    Kind::Nodes,
    Kind::Clocks,
    Kind::Clients,
    Kind::Plugins,
    Kind::Reload,
    Kind::Processes,
];

/// What a run is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The number of nodes.
    pub nodes: u32,
    /// The cores of each.
    pub cores: u32,
    /// The faults.
    pub kinds: Vec<Kind>,
    /// Whether the jobs of others are hidden from guests.
    pub private: bool,
    /// Whether a plugin limits what a user may have.
    pub limits: bool,
    /// Whether nodes that are down in the end stay down until all jobs are canceled.
    pub stay_down: bool,
    /// Whether most jobs are equal and end at once, as those that a manager hands over ahead of their turn.
    pub is_hasty: bool,
}

impl Profile {
    /// The profile of a seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x5150);
        // A quarter has one node, which is the manager's own host.
        let nodes = if dice.hits(1, 6) { 0 } else { dice.below(8) };
        let nodes = u32::try_from(1 + nodes).unwrap_or(1);
        let cores = u32::try_from(1 + dice.below(4)).unwrap_or(1);
        let some = 2 + dice.below(6);
        let kinds = KINDS.into_iter().filter(|_| dice.hits(some, 8)).collect();
        let (private, limits) = (dice.hits(1, 2), dice.hits(1, 3));
        let (stay_down, is_hasty) = (dice.hits(1, 2), dice.hits(1, 2) && nodes == 1);
        Self { nodes, cores, kinds, private, limits, stay_down, is_hasty }
    }

    /// Whether the only node is the manager's own host.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.nodes == 1
    }

    /// Whether faults of this kind occur.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    /// The configuration of the manager.
    #[must_use]
    pub fn config(&self) -> Value {
        json!({
            "access": { "allow-guest-user": true, "private-mode": self.private },
        })
    }
}
