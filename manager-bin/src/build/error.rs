//! Why a manager can't be built. Each text names the plugin or the place, and the way out.

use std::path::{Path, PathBuf};

/// Why a manager wasn't built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file or directory that can't be read or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's words.
        reason: std::io::Error,
    },
    /// A manifest that isn't one.
    #[error("{place}:{line}: {message}")]
    Manifest {
        /// The file.
        place: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// Something that contradicts itself or that nobody knows, in the manifest or in an option.
    #[error("{0}")]
    Refused(String),
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
        /// What was to be run.
        program: String,
        /// The system's words.
        reason: std::io::Error,
    },
    /// cargo can't find or resolve what the manager is made of.
    #[error("cargo can't resolve this manager's packages:\n{0}")]
    Resolve(String),
    /// `--locked` without a lock that fits.
    #[error("--locked: {0}; build once without --locked and keep the new lock")]
    Lock(String),
    /// Crates that don't compile.
    #[error("{0}")]
    Compile(String),
    /// A binary whose plugins aren't those that were asked for.
    #[error("{0}")]
    Linked(String),
    /// A file that isn't a manager made by `jobtap build`.
    #[error("{}: {reason}", path.display())]
    NotBuilt {
        /// Which.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
}

impl BuildError {
    /// Names the file in a system's error.
    pub(super) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |reason| BuildError::File { path: path.to_path_buf(), reason }
    }

    /// A refusal.
    pub(super) fn refused(text: impl Into<String>) -> Self {
        BuildError::Refused(text.into())
    }
}
