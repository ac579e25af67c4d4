//! Why nothing can be built for the Slurm of this machine, as its builder reads it.
//!
//! Without the crate `thiserror`, which every build of this crate would have to wait for.

use std::path::PathBuf;
use std::{fmt, io};

/// Why the headers can't be used.
#[derive(Debug)]
pub(crate) enum BuildError {
    /// The script was not started by cargo.
    NoOutDir,
    /// No directory has Slurm's public headers.
    NoHeaders,
    /// No directory has Slurm's source.
    NoSource,
    /// An environment variable names a directory without the file that is looked for.
    WrongDirectory { variable: &'static str, directory: PathBuf, file: &'static str },
    /// A file can't be read or written.
    File { file: PathBuf, error: io::Error },
    /// The headers don't say their version.
    NoVersion { file: PathBuf },
    /// The headers are of a Slurm for which this crate is not made.
    UnknownSeries { file: PathBuf, series: String, known: &'static [&'static str] },
    /// The headers and the source are not of one release.
    TwoReleases { include: PathBuf, of_headers: String, source: PathBuf, of_source: String },
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
            Self::NoHeaders => f.write_str(
                "no slurm/slurm.h found: install the headers of your Slurm (Debian: apt-get install \
                 libslurm-dev; Red Hat: dnf install slurm-devel), or set SLURM_INCLUDE_DIR to the directory \
                 that has slurm/slurm.h",
            ),
            Self::NoSource => f.write_str(
                "no src/slurmctld/slurmctld.h found: unpack the source of your Slurm (Debian: `apt-get source \
                 --download-only slurm-wlm` and `tar xf slurm-wlm_*.orig.tar.gz`; else the archive of SchedMD), \
                 and set SLURM_SOURCE_DIR to the directory that has src/slurmctld/slurmctld.h. It is read and \
                 not compiled",
            ),
            Self::WrongDirectory { variable, directory, file } => {
                write!(f, "{variable}={}: there is no {file}", directory.display())
            }
            Self::File { file, error } => write!(f, "{}: {error}", file.display()),
            Self::NoVersion { file } => write!(f, "{}: no SLURM_VERSION_NUMBER", file.display()),
            Self::UnknownSeries { file, series, known } => write!(
                f,
                "{} is of Slurm {series}, and this version of jobtap-slurm knows {}: what Slurm passes to its \
                 plugins changes between its versions, so nothing is built for one that was not tried. Use a \
                 newer jobtap, or build against a Slurm of these",
                file.display(),
                known.join(", ")
            ),
            Self::TwoReleases { include, of_headers, source, of_source } => write!(
                f,
                "the headers below {} are of Slurm {of_headers}, and the source in {} of {of_source:?}: take \
                 both of one release, that of your daemons",
                include.display(),
                source.display()
            ),
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
