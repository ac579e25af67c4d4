//! Custom managers: chosen plugins, one binary.
//!
//! What `jobtap build` and `jobtap new` do, without their command line. A [`Manifest`] says what is wanted; [`build`]
//! compares it with the SDK, has cargo resolve the crates, refuses what can't work, compiles, and starts the new binary
//! to check that it has the plugins of the manifest.

mod cargo;
mod checksum;
mod compile;
mod diff;
mod edit;
pub mod error;
mod explain;
mod generate;
mod host;
mod host_gaps;
mod lineup;
mod manifest;
mod needs;
mod new;
mod pipeline;
mod plan;
mod requirement;
mod resolve;
mod sbom;
mod scan;
mod sdk;
mod slurm;
mod vendor;
mod verify;

pub use diff::differences;
pub use edit::{add_plugin, remove_plugin, set_builtin};
pub use error::BuildError;
pub use explain::{Explained, Explanation, explain, recover};
pub use host::Library;
pub use jobtap_daemon::composition::{Composition, CrateInfo, Host, PluginInfo};
pub use manifest::{ManagerTable, Manifest, Part, PluginEntry};
pub use new::{new_manager, new_plugin};
pub use pipeline::{Built, Options, build, print_crate};
pub use slurm::SlurmError;
