//! Where Slurm's headers are.

use std::path::{Path, PathBuf};

/// Slurm's public headers, and the tree of its source.
pub(crate) struct Headers {
    /// The directory that has `slurm/slurm.h`.
    pub(crate) include: PathBuf,
    /// The directory that has `src/slurmctld/slurmctld.h`.
    pub(crate) source: PathBuf,
}

/// Where distributions and sites put sources, each with any directory of Slurm's below it.
const SOURCES: [&str; 3] = ["/usr/src", "/usr/local/src", "/opt"];

/// Finds both, by `SLURM_INCLUDE_DIR` and `SLURM_SOURCE_DIR` or in the system's places.
pub(crate) fn find() -> Result<Headers, String> {
    let include = from_environment("SLURM_INCLUDE_DIR", PUBLIC)?
        .or_else(|| system("/usr/include").or_else(|| system("/usr/local/include")))
        .ok_or(
            "no slurm/slurm.h found: install the headers of your Slurm (Debian: apt-get install \
             libslurm-dev; Red Hat: dnf install slurm-devel), or set SLURM_INCLUDE_DIR to the directory \
             that has slurm/slurm.h",
        )?;
    let source = from_environment("SLURM_SOURCE_DIR", CONTROLLER)?
        .or_else(in_sources)
        .ok_or(
            "no src/slurmctld/slurmctld.h found: unpack the source of your Slurm (Debian: `apt-get source \
             --download-only slurm-wlm` and `tar xf slurm-wlm_*.orig.tar.gz`; else the archive of SchedMD), \
             and set SLURM_SOURCE_DIR to the directory that has src/slurmctld/slurmctld.h. It is read and \
             not compiled",
        )?;
    Ok(Headers { include, source })
}

const PUBLIC: &str = "slurm/slurm.h";
const CONTROLLER: &str = "src/slurmctld/slurmctld.h";

/// The directory that a variable names. One that lacks the file is an error and not passed over.
fn from_environment(variable: &str, file: &str) -> Result<Option<PathBuf>, String> {
    let Some(directory) = std::env::var_os(variable).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let directory = PathBuf::from(directory);
    match directory.join(file).is_file() {
        true => Ok(Some(directory)),
        false => Err(format!("{variable}={}: there is no {file}", directory.display())),
    }
}

fn system(directory: &str) -> Option<PathBuf> {
    let directory = Path::new(directory);
    directory.join(PUBLIC).is_file().then(|| directory.to_owned())
}

/// The first by name, so that two builds on one machine take the same.
fn in_sources() -> Option<PathBuf> {
    let below = SOURCES.iter().filter_map(|root| std::fs::read_dir(root).ok()).flatten().flatten();
    let mut found: Vec<PathBuf> = below.map(|entry| entry.path()).collect();
    found.retain(|path| path.join(CONTROLLER).is_file());
    found.sort();
    found.into_iter().next()
}
