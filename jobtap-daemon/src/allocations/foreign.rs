//! What commands of outer job managers print, for fuzzers.

use super::{command, flux, slurm};

/// How many of the readers, of Slurm's, Flux's and a site's command, find a job in a line.
pub fn outer_jobs(line: &str) -> usize {
    let found = [slurm::read(line), flux::read(line), command::read(line)];
    found.into_iter().flatten().count()
}
