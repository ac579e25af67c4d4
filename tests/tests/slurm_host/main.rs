//! Plugins inside a real slurmctld and slurmd: the file is built from an unchanged plugin crate, and loaded.
#![allow(clippy::unwrap_used)]

/// Ends a test where Slurm is missing, and says so.
macro_rules! needs_slurm {
    () => {
        if let Some(missing) = jobtap_tests::slurm::Slurm::missing_for_plugins() {
            eprintln!("skipped: there is no {missing}");
            return;
        }
    };
}

mod built;
mod job_submit;
mod prep;
