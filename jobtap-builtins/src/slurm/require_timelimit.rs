//! `require_timelimit`: refuses jobs without a time limit, or with an infinite one.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "require_timelimit" }]
//! ```

use jobtap_core::prelude::*;
use jobtap_core::slurm::{INFINITE, SlurmError, errno};

/// The plugin `require_timelimit`.
#[derive(Debug, Default)]
pub struct RequireTimelimit;

#[jobtap_plugin(name = "require_timelimit", load = "by-name")]
impl RequireTimelimit {
    #[on("slurm.job_submit")]
    fn submit(desc: Descriptor<'_>) -> Result<(), SlurmError> {
        match desc.time_limit {
            None => Err(errno::ESLURM_MISSING_TIME_LIMIT),
            Some(INFINITE) => Err(errno::ESLURM_INVALID_TIME_LIMIT),
            Some(_) => Ok(()),
        }
    }

    #[on("slurm.job_modify")]
    fn modify(desc: Descriptor<'_>) -> Result<(), SlurmError> {
        match desc.time_limit {
            Some(INFINITE) => Err(errno::ESLURM_INVALID_TIME_LIMIT),
            _ => Ok(()),
        }
    }
}
