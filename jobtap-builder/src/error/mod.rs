//! Why a manager can't be built. Each text names the plugin or the place, and what to do.
//!
//! | file | what is wrong |
//! |---|---|
//! | `manifest` | the manifest by itself |
//! | `edit` | a change of the manifest |
//! | `place` | a file or a directory |
//! | `sdk` | the SDK, or a plugin that needs another one |
//! | `plan` | the manifest, compared with the SDK and the plugins' crates |
//! | `toolchain` | cargo, or the compiler |
//! | `resolve` | the packages and the lock |
//! | `lineup` | the plugins together, and their order |
//! | `host` | plugins that need more than their host offers |
//! | `compile` | crates that don't compile |
//! | `verify` | the new manager |

mod compile;
mod edit;
mod host;
mod lineup;
mod manifest;
mod place;
mod plan;
mod resolve;
mod sdk;
mod toolchain;
mod verify;

use std::path::{Path, PathBuf};

use jobtap_daemon::composition::CompositionError;

pub use compile::{CompileError, CrateErrors, Culprit, Product};
pub use edit::EditError;
pub use host::{Gap, HostError, Unserved, Whose};
pub use lineup::{Kind, LineupError};
pub use manifest::{ManifestError, NameFault, Named, SyntaxFault};
pub use place::PlaceError;
pub use plan::PlanError;
pub use resolve::{LockError, ResolveError};
pub use sdk::{SdkError, SdkName};
pub use toolchain::ToolchainError;
pub use verify::VerifyError;

/// Why a manager wasn't built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file or directory that can't be read or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        reason: std::io::Error,
    },
    /// The manifest by itself.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A change of the manifest.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// A file or directory that can't be used for what was asked.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The SDK, or a plugin that needs another one.
    #[error(transparent)]
    Sdk(#[from] SdkError),
    /// The manifest, compared with the SDK and the plugins' crates.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Cargo, or the compiler.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    /// The packages.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The lock, with `--locked`.
    #[error("--locked: {0}; build once without --locked and keep the new lock")]
    Lock(#[from] LockError),
    /// The plugins together, and their order.
    #[error(transparent)]
    Lineup(#[from] LineupError),
    /// The Slurm of this machine isn't one that a file can be built for.
    #[error(transparent)]
    Slurm(#[from] crate::SlurmError),
    /// Plugins that need more than their host offers.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Crates that don't compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The new manager differs from what the manifest asks for.
    #[error("the new manager: {0}")]
    Verify(#[from] VerifyError),
    /// The composition can't be read from a file.
    #[error(transparent)]
    Composition(#[from] CompositionError),
    /// What is kept beside the compiled crates or in the manager can't be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl BuildError {
    /// Adds the file to a system error.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |reason| BuildError::File { path: path.to_path_buf(), reason }
    }
}

/// The end of a message that asks whether another name was meant.
fn did_you_mean(meant: Option<&String>) -> String {
    meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default()
}
