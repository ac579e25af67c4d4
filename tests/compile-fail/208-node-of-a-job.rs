//! A job may have many nodes.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("slurm.prolog_slurmctld")]
    async fn prepare(node: Node) -> Result<(), PrologFailed> {
        let _ = node;
        Ok(())
    }
}

fn main() {}
