//! Which tasks of a job run on which of its nodes: in blocks, as a job shell numbers them.

use jobtap_core::jobspec::{Counts, Jobspec};
use jobtap_core::resource::{RankResources, ResourceSet};
use serde_json::Value;

use crate::exec::NodeTasks;

/// Returns the nodes of R in the order of ranks, with the number of tasks on each.
///
/// With tasks per resource (the shell option `per-resource`) the resources in R are counted. The tasks of
/// a job that asked for nodes are spread evenly; those of a job that asked for slots run where its slots
/// are, and tasks without a slot are spread evenly over all nodes.
pub(super) fn nodes(jobspec: &Jobspec, resources: &ResourceSet) -> Vec<NodeTasks> {
    let per = jobspec.attribute("system.shell.options.per-resource");
    if let Some(per_node) = per.and_then(per_resource) {
        return resources.iter().map(|node| tasks(node.rank(), per_node(&node))).collect();
    }
    let counts = jobspec.counts();
    let mut left = counts.ntasks;
    let mut nodes: Vec<(u32, u64)> = Vec::new();
    for node in resources.iter() {
        let here = if counts.nnodes > 0 { 0 } else { slots(&node, &counts).min(left) };
        left -= here;
        nodes.push((node.rank(), here));
    }
    let mut behind = nodes.len() as u64;
    for (_, here) in &mut nodes {
        let more = left.div_ceil(behind.max(1));
        *here += more;
        left -= more;
        behind -= 1;
    }
    nodes.into_iter().map(|(rank, here)| tasks(rank, here)).collect()
}

fn tasks(rank: u32, ntasks: u64) -> NodeTasks {
    NodeTasks { rank, ntasks: u32::try_from(ntasks).unwrap_or(u32::MAX) }
}

fn slots(node: &RankResources<'_>, counts: &Counts) -> u64 {
    let fit = |have: usize, need: u64| (have as u64).checked_div(need).unwrap_or(u64::MAX);
    fit(node.cores().len(), counts.slot_size).min(fit(node.gpus().len(), counts.slot_gpus))
}

/// How many tasks a node gets; `None` for an unknown kind of resource.
fn per_resource(per: &Value) -> Option<impl Fn(&RankResources<'_>) -> u64 + use<>> {
    let count = per.get("count").and_then(Value::as_u64).unwrap_or(1);
    let per_core = match per.get("type").and_then(Value::as_str)? {
        "core" => true,
        "node" => false,
        _ => return None,
    };
    Some(move |node: &RankResources<'_>| {
        let resources = if per_core { node.cores().len() as u64 } else { 1 };
        resources.saturating_mul(count)
    })
}

#[cfg(test)]
mod tests {
    use jobtap_core::jobspec::JobspecBuilder;
    use jobtap_core::resource::{Children, Idset};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Nodes with these numbers of cores.
    fn resources(cores: &[u32]) -> ResourceSet {
        let mut set = ResourceSet::new();
        for (rank, cores) in (0..).zip(cores) {
            set.insert(rank..=rank, Children::new(Idset::from(0..=cores - 1), Idset::new()));
        }
        set
    }

    fn spread(builder: JobspecBuilder, cores: &[u32]) -> Vec<u32> {
        let jobspec = builder.build().unwrap();
        nodes(&jobspec, &resources(cores)).into_iter().map(|node| node.ntasks).collect()
    }

    fn job() -> JobspecBuilder {
        JobspecBuilder::new(["true"])
    }

    #[test]
    fn tasks_follow_the_slots_or_are_spread_over_the_nodes() {
        assert_eq!(spread(job().ntasks(5), &[4, 1]), [4, 1]);
        assert_eq!(spread(job().ntasks(3).cores_per_task(2), &[4, 3]), [2, 1]);
        assert_eq!(spread(job().nodes(3).ntasks(4), &[2, 2, 2]), [2, 1, 1]);
        assert_eq!(spread(job().nodes(2).ntasks(2).exclusive(true), &[8, 8]), [1, 1]);
    }

    #[test]
    fn tasks_per_resource_follow_from_r() {
        let per = |kind: &str| {
            let per = json!({"type": kind, "count": 2});
            job().attribute("shell.options.per-resource", per).unwrap().ntasks(1)
        };
        assert_eq!(spread(per("core"), &[4, 1]), [8, 2]);
        assert_eq!(spread(per("node"), &[4, 1]), [2, 2]);
    }

    proptest! {
        #[test]
        fn every_task_is_somewhere(ntasks in 1u64..50, cores in prop::collection::vec(1u32..9, 1..6)) {
            let placed: u32 = spread(job().ntasks(ntasks), &cores).into_iter().sum();
            prop_assert_eq!(u64::from(placed), ntasks);
        }
    }
}
