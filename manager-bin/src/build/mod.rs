//! Custom managers: chosen plugins, one binary.
//!
//! What `jobtap build` does, as a library. [`Manifest`] says what is wanted; [`build`] sets it against
//! the SDK, has cargo resolve the crates, refuses what can't work, compiles, and starts the new
//! binary to see that it has the plugins that were asked for.

mod cargo;
mod checksum;
mod compile;
mod composition;
mod error;
mod freshness;
mod generate;
mod job;
mod lineup;
pub(crate) mod linked;
mod manifest;
mod plan;
mod requirement;
mod resolve;
mod sbom;
mod scan;
mod sdk;
mod vendor;
mod verify;

pub use composition::{Composition, CrateInfo};
pub(crate) use composition::{declare, own};
pub use error::BuildError;
pub use job::{Built, Options, build, print_crate};
pub use linked::LinkedError;
pub use manifest::{ManagerTable, Manifest, PluginEntry};
