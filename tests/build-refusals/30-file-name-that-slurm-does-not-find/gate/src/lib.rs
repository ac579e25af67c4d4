use jobtap_core::prelude::*;

#[derive(Default)]
struct Gate;

#[jobtap_plugin(name = "gate")]
impl Gate {
    #[on("slurm.prolog_slurmctld")]
    fn prolog(&self) {}
}
