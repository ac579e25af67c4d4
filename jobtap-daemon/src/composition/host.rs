//! The program that loads what `jobtap build` makes, if that isn't a manager itself.

use jobtap_core::host::HostKind;
use serde::{Deserialize, Serialize};

/// The program that loads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Host {
    /// A Flux instance's job manager: `flux jobtap load FILE`
    Flux,
    /// Slurm's slurmctld, by JobSubmitPlugins
    SlurmJobSubmit,
    /// Slurm's slurmctld and slurmd, by PrEpPlugins
    SlurmPrep,
}

impl Host {
    /// The host as the SDK knows it.
    pub fn kind(self) -> HostKind {
        match self {
            Host::Flux => HostKind::Flux,
            Host::SlurmJobSubmit => HostKind::SlurmSubmit,
            Host::SlurmPrep => HostKind::SlurmPrep,
        }
    }
}
