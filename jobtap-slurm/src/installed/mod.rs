//! The Slurm that a file is built for: where its headers are, and which release they are of.
//!
//! The build script of this crate and `jobtap build` both look for it, so that `jobtap build` can say what is missing
//! before it starts the compiler.

mod error;
mod release;
mod version;

use std::path::{Path, PathBuf};
use std::{env, fs};

pub use error::InstalledError;
pub use release::{C_TYPES, CType, Declared, File, RELEASES, Release};
pub use version::Version;

/// Names the directory that contains `slurm/slurm.h`.
pub const INCLUDE_DIR: &str = "SLURM_INCLUDE_DIR";
/// Names the directory that contains `src/slurmctld/slurmctld.h`, or is [`NO_SOURCE`].
pub const SOURCE_DIR: &str = "SLURM_SOURCE_DIR";
/// The value of [`SOURCE_DIR`] for a file whose plugins need Slurm's public headers only.
pub const NO_SOURCE: &str = "none";
/// If it is 1, a release that isn't known is taken for the newest one that is: `--force-layout` of `jobtap build`.
pub const FORCE_LAYOUT: &str = "JOBTAP_FORCE_LAYOUT";

/// Slurm's headers on this machine.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The directory that contains `slurm/slurm.h`.
    pub include: PathBuf,
    /// The version of these headers.
    pub version: Version,
    /// What this crate knows of their release.
    pub release: &'static Release,
    /// Whether the release isn't known, and [`FORCE_LAYOUT`] was given.
    pub is_forced: bool,
    /// The directory that contains the source of the same version. `None` without one, and then only Slurm's public
    /// structures are known.
    pub source: Option<PathBuf>,
}

/// Where to look for the headers.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// The directory that contains `slurm/slurm.h`; `None` looks in the system's directories.
    pub include: Option<PathBuf>,
    /// The source.
    pub source: Source,
    /// Whether a release that isn't known is taken for the newest one that is.
    pub is_forced: bool,
}

/// Where the source is.
#[derive(Debug, Clone, Default)]
pub enum Source {
    /// Looked for in the directories where sources are put.
    #[default]
    Anywhere,
    /// In this directory.
    In(PathBuf),
    /// None is needed.
    NotNeeded,
}

impl Search {
    /// What the environment says.
    pub fn from_environment() -> Self {
        let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let source = match variable(SOURCE_DIR) {
            None => Source::Anywhere,
            Some(value) if value == NO_SOURCE => Source::NotNeeded,
            Some(directory) => Source::In(directory.into()),
        };
        let include = variable(INCLUDE_DIR).map(PathBuf::from);
        Self {
            include,
            source,
            is_forced: variable(FORCE_LAYOUT).is_some_and(|value| value == "1"),
        }
    }
}

/// Where distributions and sites put sources. Every directory directly below is checked for Slurm's source.
const SOURCES: [&str; 3] = ["/usr/src", "/usr/local/src", "/opt"];
const INCLUDES: [&str; 4] =
    ["/usr/include", "/usr/local/include", "/opt/slurm/include", "/usr/local/slurm/include"];

const PUBLIC: &str = "slurm/slurm.h";
const CONTROLLER: &str = "src/slurmctld/slurmctld.h";

impl Installed {
    /// Finds the headers.
    ///
    /// # Errors
    /// When there are no public headers, when their release isn't known, or when a directory that was named hasn't what
    /// it should have.
    pub fn find(search: &Search) -> Result<Self, InstalledError> {
        let in_system = || INCLUDES.iter().map(Path::new).find(|at| at.join(PUBLIC).is_file());
        let include = match &search.include {
            Some(include) => in_named(INCLUDE_DIR, include, PUBLIC)?,
            None => in_system().map(Path::to_owned).ok_or(InstalledError::NoHeaders)?,
        };
        let version = Version::of_headers(&include)?;
        let known = Release::for_version(version);
        let release = known.or_else(|| RELEASES.last().filter(|_| search.is_forced));
        let Some(release) = release else {
            return Err(InstalledError::UnknownRelease { include, version });
        };
        let source = match &search.source {
            Source::NotNeeded => None,
            Source::In(directory) => Some(in_named(SOURCE_DIR, directory, CONTROLLER)?),
            Source::Anywhere => in_sources(version),
        };
        if let Some(source) = &source {
            check_source(source, &include, version)?;
        }
        Ok(Self { include, version, release, is_forced: known.is_none(), source })
    }

    /// The path of a header; `None` if it is in the source, and there is none.
    pub fn path(&self, file: File) -> Option<PathBuf> {
        match file {
            File::Public(file) => Some(self.include.join(file)),
            File::Source(file) => self.source.as_ref().map(|source| source.join(file)),
        }
    }
}

/// Returns a directory that a variable names. If it doesn't contain the file, that is an error: the system's
/// directories aren't tried instead.
fn in_named(
    variable: &'static str,
    directory: &Path,
    file: &'static str,
) -> Result<PathBuf, InstalledError> {
    match directory.join(file).is_file() {
        true => Ok(directory.to_owned()),
        false => {
            Err(InstalledError::WrongDirectory { variable, directory: directory.to_owned(), file })
        }
    }
}

/// Returns the source of this version, the first by name so that all builds on one machine use the same.
fn in_sources(version: Version) -> Option<PathBuf> {
    let below = SOURCES.iter().filter_map(|root| fs::read_dir(root).ok()).flatten().flatten();
    let mut found: Vec<PathBuf> = below.map(|entry| entry.path()).collect();
    found.retain(|path| path.join(CONTROLLER).is_file());
    found.retain(|path| Version::of_source(path).is_ok_and(|of| of == version.to_string()));
    found.sort();
    found.into_iter().next()
}

/// Checks that the source is of the version of the public headers. Otherwise a member could be read at a wrong offset.
fn check_source(source: &Path, include: &Path, version: Version) -> Result<(), InstalledError> {
    let of_source = Version::of_source(source)?;
    if of_source == version.to_string() {
        return Ok(());
    }
    Err(InstalledError::TwoReleases {
        include: include.to_owned(),
        version,
        source: source.to_owned(),
        of_source,
    })
}
