//! The plugins that come with Slurm, with the same names and in Slurm's terms. Each is loaded by name.

#[cfg(feature = "all_partitions")]
mod all_partitions;
#[cfg(feature = "defaults")]
mod defaults;
#[cfg(feature = "logging")]
mod logging;
#[cfg(feature = "partition")]
mod partition;
#[cfg(feature = "require_timelimit")]
mod require_timelimit;
#[cfg(feature = "throttle")]
mod throttle;

#[cfg(feature = "all_partitions")]
pub use all_partitions::AllPartitions;
#[cfg(feature = "defaults")]
pub use defaults::Defaults;
#[cfg(feature = "logging")]
pub use logging::Logging;
#[cfg(feature = "partition")]
pub use partition::Partition;
#[cfg(feature = "require_timelimit")]
pub use require_timelimit::RequireTimelimit;
#[cfg(feature = "throttle")]
pub use throttle::Throttle;
