//! The programs in which plugins run.

use std::fmt;

/// A program in which plugins run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostKind {
    /// Our manager, and the test kit.
    Jobtap,
    /// The job manager of a Flux instance, which loads a jobtap plugin.
    Flux,
    /// Slurm's slurmctld, which loads a job_submit plugin.
    SlurmSubmit,
    /// Slurm's slurmctld and slurmd, which load a PrEp plugin.
    SlurmPrep,
}

impl HostKind {
    /// Every host, our manager first.
    pub const ALL: [HostKind; 4] =
        [HostKind::Jobtap, HostKind::Flux, HostKind::SlurmSubmit, HostKind::SlurmPrep];

    /// The name by which `jobtap build --host` knows it.
    pub const fn name(self) -> &'static str {
        match self {
            HostKind::Jobtap => "jobtap",
            HostKind::Flux => "flux",
            HostKind::SlurmSubmit => "slurm-job-submit",
            HostKind::SlurmPrep => "slurm-prep",
        }
    }

    /// The host of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }
}

impl fmt::Display for HostKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HostKind::Jobtap => "jobtap's manager",
            HostKind::Flux => "Flux",
            HostKind::SlurmSubmit => "Slurm's job_submit",
            HostKind::SlurmPrep => "Slurm's PrEp",
        })
    }
}
