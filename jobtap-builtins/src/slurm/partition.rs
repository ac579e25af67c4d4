//! `partition`: sends a job that names no partition to the partition of the highest tier that accepts it.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "partition" }]
//!
//! [plugins.partition]
//! priority_tier = { debug = 10, long = 0 }   # 1 for the others
//! ```
//!
//! A partition takes the job if it accepts submissions and the job asks for no more memory than the partition
//! allows. Among partitions of the same tier, the first by name is chosen. In Slurm, tiers belong to
//! partitions; queues have none, so the table sets them. A job stays without a partition if none accepts it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jobtap_core::prelude::*;
use jobtap_core::slurm::{self, JobDescriptor, MEM_PER_CPU};

/// The plugin `partition`.
#[derive(Debug)]
pub struct Partition {
    tiers: BTreeMap<String, u16>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// The tiers of partitions by name; 1 for one that is not here.
    priority_tier: BTreeMap<String, u16>,
}

#[jobtap_plugin(name = "partition", load = "by-name")]
impl Partition {
    #[init]
    fn new(settings: Conf<Settings>) -> Self {
        Self { tiers: settings.into_inner().priority_tier }
    }

    #[on("slurm.job_submit")]
    fn submit(&self, mut desc: Descriptor<'_>, partitions: Partitions<'_>) {
        if desc.partition.is_some() {
            return;
        }
        let open = partitions.iter().filter(|partition| partition.accepts_submissions());
        let fitting = open.filter(|partition| has_memory(partition, &desc));
        // `min_by_key` returns the first minimum, and partitions are sorted by name.
        let best = fitting.min_by_key(|partition| Reverse(self.tier(partition)));
        desc.partition = best.and_then(|partition| partition.name.clone());
    }

    fn tier(&self, partition: &slurm::Partition) -> u16 {
        let name = partition.name.as_deref().unwrap_or_default();
        self.tiers.get(name).copied().unwrap_or(partition.priority_tier)
    }
}

/// Whether a partition allows as much memory as the job asks for. A limit for each CPU and a request for each
/// node, or the other way round, can't be compared.
fn has_memory(partition: &slurm::Partition, desc: &JobDescriptor) -> bool {
    let limit = partition.max_mem_per_cpu;
    match desc.pn_min_memory {
        Some(wanted) if limit != 0 && (wanted ^ limit) & MEM_PER_CPU == 0 => wanted <= limit,
        _ => true,
    }
}
