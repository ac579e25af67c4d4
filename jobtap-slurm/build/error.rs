//! Why nothing can be built for a Slurm, as its builder reads it.

use std::path::PathBuf;
use std::{fmt, io};

use crate::installed::InstalledError;

/// Why the layout of the structures isn't known.
#[derive(Debug)]
pub(crate) enum BuildError {
    /// The script was not started by cargo.
    NoOutDir,
    /// The headers can't be used.
    Installed(InstalledError),
    /// There is no source, and nobody has said that none is needed.
    NoSource,
    /// A file can't be read or written.
    File { file: PathBuf, error: io::Error },
    /// A header has no declaration of a structure.
    NoDeclaration { file: PathBuf, c_type: &'static str },
    /// A declaration without a member that can be used.
    NoMembers { c_type: &'static str },
    /// The C compiler can't be started.
    NoCompiler { compiler: String, error: io::Error },
    /// The C compiler doesn't accept the headers.
    Compiler { compiler: String, said: String },
    /// The output of the C compiler lacks a member.
    NoAnswer { member: String },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOutDir => f.write_str("OUT_DIR is not set"),
            Self::Installed(error) => error.fmt(f),
            Self::NoSource => f.write_str(
                "no source of this version of Slurm found: set SLURM_SOURCE_DIR to the directory that has \
                 src/slurmctld/slurmctld.h, or to \"none\" if no plugin of the file needs jobs or partitions",
            ),
            Self::File { file, error } => write!(f, "{}: {error}", file.display()),
            Self::NoDeclaration { file, c_type } => {
                write!(f, "{}: no declaration of {c_type}", file.display())
            }
            Self::NoMembers { c_type } => write!(f, "no members of {c_type} found in the headers"),
            Self::NoCompiler { compiler, error } => write!(
                f,
                "the C compiler {compiler}, which tells the layout of Slurm's structures: {error}"
            ),
            Self::Compiler { compiler, said } => {
                write!(f, "{compiler} can't read Slurm's headers:\n{said}")
            }
            Self::NoAnswer { member } => write!(f, "the C compiler says nothing of {member}"),
        }
    }
}

impl From<InstalledError> for BuildError {
    fn from(error: InstalledError) -> Self {
        Self::Installed(error)
    }
}
