//! Plugins inside a real slurmctld and slurmd: the file is built from an unchanged plugin crate, and loaded.
//!
//! The Slurms are that of the machine, and those that `.ci/slurm-roots` has made. Slurm 26.05 is there without its
//! source, so only plugins that see nothing but requests run in it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stderr)]

/// Makes tests of functions that take an [`Installation`](jobtap_tests::slurm::Installation), one for each Slurm that is
/// there with its source. Where it isn't, a test ends and says so.
macro_rules! in_each_slurm {
    ($($test:ident)*) => {
        mod slurm_of_the_machine {
            $( #[test]
            fn $test() {
                $crate::in_slurm(jobtap_tests::slurm::Installation::system(), super::$test);
            } )*
        }
        mod slurm_24_11 {
            $( #[test]
            fn $test() {
                $crate::in_slurm(jobtap_tests::slurm::Installation::made("24.11"), super::$test);
            } )*
        }
    };
}

mod built;
mod canary;
mod job_submit;
mod prep;
mod public;
mod upgrade;

use jobtap_tests::slurm::Installation;

fn in_slurm(slurm: Installation, test: fn(&Installation)) {
    match slurm.missing_for_plugins() {
        Some(missing) => eprintln!("skipped: there is no {missing}"),
        None => test(&slurm),
    }
}
