//! The queues of an instance as Slurm's partitions.

use super::{INFINITE, PART_FLAG_DEFAULT, PARTITION_SCHED, PARTITION_SUBMIT, Partition};
use crate::job::Fsd;
use crate::queue::{Queue, Queues};
use crate::resource::{Idset, ResourceSet};

impl Partition {
    /// The queues as partitions, in the order of their names. An instance without named queues has one
    /// partition without a name, which is the default.
    ///
    /// | partition | queue |
    /// |---|---|
    /// | `name`, `state_up` | its name; enabled for submissions, started for allocation |
    /// | `flag_default` | the queue of jobs that name none |
    /// | `default_time`, `max_time` | default time limit and `limits.duration`, in minutes |
    /// | `allow_groups` | `access.allow-group` |
    /// | `min_nodes`, `max_nodes` | `limits.job-size.min.nnodes` and `max.nnodes` |
    /// | `nodes`, `total_nodes`, `total_cpus` | the nodes that have the properties which it requires |
    #[must_use]
    pub fn of_queues(queues: &Queues, resources: &ResourceSet) -> Vec<Self> {
        let is_default =
            |queue: &Queue<'_>| !queues.are_named() || queue.name() == queues.default_name();
        queues.iter().map(|queue| of_queue(&queue, is_default(&queue), resources)).collect()
    }
}

fn of_queue(queue: &Queue<'_>, is_default: bool, resources: &ResourceSet) -> Partition {
    let limits = queue.limits();
    let nodes = nodes_of(queue, resources);
    let mut state_up = 0;
    if queue.is_enabled() {
        state_up |= PARTITION_SUBMIT;
    }
    if queue.is_started() {
        state_up |= PARTITION_SCHED;
    }
    Partition {
        name: queue.name().map(str::to_owned),
        state_up,
        allow_groups: queue.access().groups.map(|groups| groups.join(",")),
        flags: if is_default { PART_FLAG_DEFAULT } else { 0 },
        default_time: queue.default_duration().map(minutes),
        max_time: limits.duration.map_or(INFINITE, minutes),
        min_nodes: limits.min.nnodes.and_then(|least| u32::try_from(least).ok()).unwrap_or(0),
        // -1 is no limit.
        max_nodes: limits.max.nnodes.and_then(|most| u32::try_from(most).ok()).unwrap_or(INFINITE),
        nodes: Some(nodes.nodelist().to_string()).filter(|nodes| !nodes.is_empty()),
        total_nodes: u32::try_from(nodes.nnodes()).unwrap_or(u32::MAX),
        total_cpus: u32::try_from(nodes.ncores()).unwrap_or(u32::MAX),
        ..Partition::default()
    }
}

/// A duration in whole minutes, rounded up so that a job of this duration is within the limit; no limit is
/// `INFINITE`.
fn minutes(duration: Fsd) -> u32 {
    let seconds = duration.as_secs();
    if seconds == 0.0 || duration.is_infinite() {
        return INFINITE;
    }
    // `as` saturates.
    ((seconds / 60.0).ceil() as u32).min(INFINITE - 1)
}

/// The nodes that have all properties which a queue requires.
fn nodes_of(queue: &Queue<'_>, resources: &ResourceSet) -> ResourceSet {
    let requires = queue.requires();
    if requires.is_empty() {
        return resources.clone();
    }
    let properties = resources.properties();
    let has = |rank: &u32| {
        let with = |name: &String| properties.get(name).is_some_and(|ranks| ranks.contains(*rank));
        requires.iter().all(with)
    };
    let ranks: Idset = resources.ranks().iter().filter(has).collect();
    resources.with_ranks(&ranks)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::{Children, Hostlist};

    fn partitions(config: serde_json::Value) -> Vec<Partition> {
        let hosts: Hostlist = "n[0-3]".parse().unwrap();
        let cores = Idset::from(0..=7);
        let mut resources = ResourceSet::uniform(0, &hosts, Children::new(cores, Idset::new()));
        resources.set_property("gpu", &Idset::from(2..=3)).unwrap();
        Partition::of_queues(&Queues::read(&config).unwrap(), &resources)
    }

    #[test]
    fn the_anonymous_queue_is_a_partition_without_a_name() {
        let found = partitions(json!({}));
        let [only] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((only.name.as_deref(), only.is_default()), (None, true));
        assert_eq!((only.max_time, only.max_nodes, only.min_nodes), (INFINITE, INFINITE, 0));
        assert_eq!((only.total_nodes, only.total_cpus), (4, 32));
        assert_eq!(only.nodes.as_deref(), Some("n[0-3]"));
        assert_eq!(only.state_up, PARTITION_SUBMIT | PARTITION_SCHED);
    }

    #[test]
    fn named_queues_have_their_limits_and_nodes() {
        let found = partitions(json!({
            "policy": {"jobspec": {"defaults": {"system": {"queue": "batch", "duration": "30m"}}}},
            "queues": {
                "batch": {},
                "gpu": {
                    "requires": ["gpu"],
                    "policy": {"limits": {
                        "duration": "90s",
                        "job-size": {"max": {"nnodes": 2}, "min": {"nnodes": 1}},
                    }},
                },
            },
        }));
        let [batch, gpu] = found.as_slice() else { panic!("{found:?}") };
        assert!(batch.is_default() && !gpu.is_default());
        // Named queues are stopped until they are started.
        assert_eq!(gpu.state_up, PARTITION_SUBMIT);
        assert_eq!((batch.default_time, batch.total_nodes), (Some(30), 4));
        assert_eq!((gpu.max_time, gpu.min_nodes, gpu.max_nodes), (2, 1, 2));
        assert_eq!((gpu.nodes.as_deref(), gpu.total_cpus), (Some("n[2-3]"), 16));
    }
}
