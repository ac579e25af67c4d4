//! Partitions are what Slurm's policies see of the queues.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, partitions: Partitions<'_>) {
        let _ = partitions;
    }
}

fn main() {}
