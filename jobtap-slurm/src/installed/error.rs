//! Why the headers of a Slurm can't be used, as the one who builds for it reads it.
//!
//! Without the crate `thiserror`, which every build script of this crate would have to wait for.

use std::path::PathBuf;
use std::{fmt, io};

use super::release::RELEASES;
use super::version::Version;

/// Why the headers can't be used.
#[derive(Debug)]
pub enum InstalledError {
    /// No directory has Slurm's public headers.
    NoHeaders,
    /// An environment variable names a directory without the file that is looked for.
    WrongDirectory {
        /// The variable.
        variable: &'static str,
        /// The directory.
        directory: PathBuf,
        /// The file.
        file: &'static str,
    },
    /// A file can't be read.
    File {
        /// The file.
        file: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The headers don't say their version.
    NoVersion {
        /// The header.
        file: PathBuf,
    },
    /// The headers are of a release for which this crate is not made.
    UnknownRelease {
        /// The directory of the headers.
        include: PathBuf,
        /// Their version.
        version: Version,
    },
    /// The headers and the source are not of one version.
    TwoReleases {
        /// The directory of the headers.
        include: PathBuf,
        /// Their version.
        version: Version,
        /// The directory of the source.
        source: PathBuf,
        /// Its version.
        of_source: String,
    },
}

impl fmt::Display for InstalledError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHeaders => f.write_str(
                "no slurm/slurm.h found: install the headers of your Slurm (Debian: apt-get install \
                 libslurm-dev; Red Hat: dnf install slurm-devel; OpenHPC: dnf install slurm-devel-ohpc), or set \
                 SLURM_INCLUDE_DIR to the directory that has slurm/slurm.h",
            ),
            Self::WrongDirectory { variable, directory, file } => {
                write!(f, "{variable}={}: there is no {file}", directory.display())
            }
            Self::File { file, error } => write!(f, "{}: {error}", file.display()),
            Self::NoVersion { file } => write!(f, "{}: no SLURM_VERSION_NUMBER", file.display()),
            Self::UnknownRelease { include, version } => {
                let known: Vec<String> = RELEASES.iter().map(|release| release.name()).collect();
                write!(
                    f,
                    "the headers below {} are of Slurm {version}, and this version of jobtap knows {}: what \
                     Slurm passes to its plugins changes between releases. Use a newer jobtap; or take the \
                     release for the newest known one with --force-layout, and try the file in a Slurm that no \
                     one needs",
                    include.display(),
                    known.join(", ")
                )
            }
            Self::TwoReleases { include, version, source, of_source } => write!(
                f,
                "the headers below {} are of Slurm {version}, and the source in {} of {of_source:?}: take both of \
                 one version, that of your daemons",
                include.display(),
                source.display()
            ),
        }
    }
}

impl std::error::Error for InstalledError {}
