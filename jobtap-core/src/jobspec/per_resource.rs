//! The other way to ask for resources: so many cores or nodes, and so many tasks on each of them.
//! The slots follow from the resources then, not from the tasks.

use serde_json::{Value, json};

use super::JobspecError;

/// What tasks are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Per {
    Node,
    Core,
}

/// `--cores`, `--gpus-per-node`, and `--tasks-per-node` or `--tasks-per-core`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PerResource {
    pub(super) cores: Option<u64>,
    pub(super) gpus_per_node: u64,
    pub(super) tasks_per_node: Option<u64>,
    pub(super) tasks_per_core: Option<u64>,
}

impl PerResource {
    /// Whether any of the options is given.
    pub(super) fn is_asked(&self) -> bool {
        self.cores.is_some() || self.gpus_per_node > 0 || self.tasks().is_some()
    }

    fn tasks(&self) -> Option<(Per, u64)> {
        let per_node = self.tasks_per_node.map(|tasks| (Per::Node, tasks));
        per_node.or(self.tasks_per_core.map(|tasks| (Per::Core, tasks)))
    }

    /// Whether these fit to each other and to the number of nodes.
    ///
    /// # Errors
    /// The words of the tools.
    pub(super) fn check(&self, nodes: Option<u64>) -> Result<(), JobspecError> {
        let refuse = |text: &str| Err(JobspecError::Request(text.to_owned()));
        if self.tasks_per_node.is_some() && self.tasks_per_core.is_some() {
            return refuse("Do not specify both the number of tasks per node and per core");
        }
        match self.tasks() {
            Some((Per::Node, 0)) => return refuse("--tasks-per-node must be >= 1"),
            Some((Per::Core, 0)) => return refuse("--tasks-per-core must be >= 1"),
            _ => {}
        }
        match (self.cores, nodes) {
            (_, None) if self.gpus_per_node > 0 => refuse("--gpus-per-node requires --nodes"),
            (None, None) => refuse("must specify node or core count with per_resource"),
            (Some(0), _) => refuse("core count must be an integer >= 1"),
            (Some(cores), Some(nodes)) if cores < nodes => {
                refuse("number of cores cannot be less than nnodes")
            }
            (Some(cores), Some(nodes)) if !cores.is_multiple_of(nodes.max(1)) => {
                refuse("number of cores must be evenly divisible by node count")
            }
            _ => Ok(()),
        }
    }

    /// Slots on each node, or in all without nodes, and the cores of each: nodes have one slot with
    /// their share of the cores, and cores without nodes have a slot each.
    pub(super) fn slots(&self, nodes: Option<u64>) -> (u64, u64) {
        match (self.cores, nodes) {
            (Some(cores), Some(nodes)) => (1, cores / nodes.max(1)),
            (Some(cores), None) => (cores, 1),
            (None, _) => (1, 1),
        }
    }

    /// The option for the job shell, which starts the tasks once it knows the resources.
    pub(super) fn shell_option(&self) -> Option<Value> {
        let (per, count) = self.tasks()?;
        let kind = match per {
            Per::Node => "node",
            Per::Core => "core",
        };
        Some(json!({"type": kind, "count": count}))
    }
}
