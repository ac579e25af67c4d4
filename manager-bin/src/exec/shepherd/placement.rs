//! The node of its job that a task runs on.

use crate::exec::NodeTasks;

/// The place of a task within its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The index of the node among those of the job.
    pub(super) node: usize,
    /// The index of the task among those of the node.
    pub(super) local: u32,
}

/// Returns the place of a task. Tasks are ranked node by node.
pub(super) fn place(nodes: &[NodeTasks], rank: u32) -> Place {
    let mut local = rank;
    for (node, tasks) in nodes.iter().enumerate() {
        match local.checked_sub(tasks.ntasks) {
            Some(rest) => local = rest,
            None => return Place { node, local },
        }
    }
    Place { node: 0, local: rank }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_ranked_node_by_node() {
        let nodes = [(3, 2), (5, 0), (9, 1)].map(|(rank, ntasks)| NodeTasks { rank, ntasks });
        let places = [0, 1, 2].map(|rank| place(&nodes, rank));
        assert_eq!(places.map(|place| (place.node, place.local)), [(0, 0), (0, 1), (2, 0)]);
        assert_eq!(place(&[], 4), Place { node: 0, local: 4 });
    }
}
