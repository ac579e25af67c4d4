//! Finds Slurm's headers.

use std::path::{Path, PathBuf};

use crate::error::BuildError;

/// The directories of Slurm's public headers and of its source.
pub(crate) struct Headers {
    /// The directory that contains `slurm/slurm.h`.
    pub(crate) include: PathBuf,
    /// The directory that contains `src/slurmctld/slurmctld.h`.
    pub(crate) source: PathBuf,
}

/// Where distributions and sites put sources. Every directory directly below is checked for Slurm's source.
const SOURCES: [&str; 3] = ["/usr/src", "/usr/local/src", "/opt"];

/// Finds both directories: by `SLURM_INCLUDE_DIR` and `SLURM_SOURCE_DIR`, or else in the system's directories.
pub(crate) fn find() -> Result<Headers, BuildError> {
    let include = from_environment("SLURM_INCLUDE_DIR", PUBLIC)?
        .or_else(|| system("/usr/include").or_else(|| system("/usr/local/include")))
        .ok_or(BuildError::NoHeaders)?;
    let source = from_environment("SLURM_SOURCE_DIR", CONTROLLER)?
        .or_else(in_sources)
        .ok_or(BuildError::NoSource)?;
    Ok(Headers { include, source })
}

const PUBLIC: &str = "slurm/slurm.h";
const CONTROLLER: &str = "src/slurmctld/slurmctld.h";

/// Returns the directory that an environment variable names. If it doesn't contain the file, that is an error: the
/// system's directories aren't tried instead.
fn from_environment(
    variable: &'static str,
    file: &'static str,
) -> Result<Option<PathBuf>, BuildError> {
    let Some(directory) = std::env::var_os(variable).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let directory = PathBuf::from(directory);
    match directory.join(file).is_file() {
        true => Ok(Some(directory)),
        false => Err(BuildError::WrongDirectory { variable, directory, file }),
    }
}

fn system(directory: &str) -> Option<PathBuf> {
    let directory = Path::new(directory);
    directory.join(PUBLIC).is_file().then(|| directory.to_owned())
}

/// Returns the first source directory by name, so that all builds on one machine use the same.
fn in_sources() -> Option<PathBuf> {
    let below = SOURCES.iter().filter_map(|root| std::fs::read_dir(root).ok()).flatten().flatten();
    let mut found: Vec<PathBuf> = below.map(|entry| entry.path()).collect();
    found.retain(|path| path.join(CONTROLLER).is_file());
    found.sort();
    found.into_iter().next()
}
