//! Why a manager can't be built. Each text names the plugin or the place, and what to do.

use std::path::{Path, PathBuf};

use super::slurm::SlurmError;
use crate::composition::CompositionError;

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
    /// A manifest that can't be read.
    #[error("{place}:{line}: {message}")]
    Manifest {
        /// The file.
        place: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// A contradiction or an unknown name in the manifest or in an option.
    #[error("{0}")]
    Refused(String),
    /// The Slurm of this machine isn't one that a file can be built for.
    #[error(transparent)]
    Slurm(#[from] SlurmError),
    /// A plugin that needs another SDK than the manager has.
    #[error("{0}")]
    Sdk(String),
    /// Orders that contradict each other.
    #[error(
        "the plugins {} are each declared to come before another one of them: drop one `before` or `after`, of the manifest or of #[jobtap_plugin]",
        .0.join(", ")
    )]
    Cycle(Vec<String>),
    /// cargo can't be started.
    #[error(
        "can't run {program}: {reason}; building a manager needs cargo and rustc: https://rustup.rs"
    )]
    NoCargo {
        /// The program.
        program: String,
        /// The system's error.
        reason: std::io::Error,
    },
    /// Cargo can't find or resolve a dependency.
    #[error("cargo can't resolve this manager's packages:\n{0}")]
    Resolve(String),
    /// A lock that doesn't fit the manifest, with `--locked`.
    #[error("--locked: {0}; build once without --locked and keep the new lock")]
    Lock(String),
    /// Crates that don't compile.
    #[error("{0}")]
    Compile(String),
    /// A binary whose plugins differ from those of the manifest.
    #[error("{0}")]
    Linked(String),
    /// A file that doesn't say what it was made of.
    #[error(transparent)]
    Composition(#[from] CompositionError),
}

impl BuildError {
    /// Adds the file to a system error.
    pub(super) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |reason| BuildError::File { path: path.to_path_buf(), reason }
    }

    /// Returns a refusal with this text.
    pub(super) fn refused(text: impl Into<String>) -> Self {
        BuildError::Refused(text.into())
    }
}
