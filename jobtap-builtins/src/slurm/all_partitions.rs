//! `all_partitions`: a job that names no partition may run in any.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "all_partitions" }]
//! ```
//!
//! As in Slurm, the partition of such a job becomes the list of all partitions that accept submissions. A job
//! has one queue here: it is submitted to the first of the list, and the list is kept with the job.

use jobtap_core::prelude::*;

/// The plugin `all_partitions`.
#[derive(Debug, Default)]
pub struct AllPartitions;

#[jobtap_plugin(name = "all_partitions", load = "by-name")]
impl AllPartitions {
    #[on("slurm.job_submit")]
    fn submit(mut desc: Descriptor<'_>, partitions: Partitions<'_>) {
        if desc.partition.is_some() {
            return;
        }
        let open = partitions.iter().filter(|partition| partition.accepts_submissions());
        let names: Vec<&str> = open.filter_map(|partition| partition.name.as_deref()).collect();
        // Without named queues there is nothing to choose.
        if !names.is_empty() {
            desc.partition = Some(names.join(","));
        }
    }
}
