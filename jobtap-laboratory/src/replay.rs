//! The recorded jobs of a manager, given to one plugin.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jobtap_core::engine::{
    self, HostCheck, RecordedJob, ReplayOptions, Replayed, Setup, StartError,
};
use jobtap_core::host::{NoReturn, Ticks};
use jobtap_core::job::Uid;
use jobtap_core::resource::ResourceSet;
use jobtap_daemon::archive::RecordedJobs;
use jobtap_daemon::daemon::resources::{ResourceError, configured_set};
use jobtap_daemon::linked::{self, LinkedError};

use crate::policy::Policy;
use crate::recorded::{self, RecordedError};

/// The owner of the instance, as in a simulation.
const OWNER: Uid = Uid(0);

/// Why recorded jobs can't be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// They can't be read.
    #[error(transparent)]
    Recorded(#[from] RecordedError),
    /// The configuration has a mistake in its resources.
    #[error(transparent)]
    Resources(#[from] ResourceError),
    /// The plugins of this binary can't be used together.
    #[error(transparent)]
    Linked(#[from] LinkedError),
    /// The manager doesn't start with this configuration, or the plugin can't be loaded.
    #[error(transparent)]
    Start(#[from] StartError),
    /// There is no job that can be replayed.
    #[error(
        "{}: no job can be replayed{}",
        path.display(),
        left_out.iter().map(|reason| format!("\n  {reason}")).collect::<String>()
    )]
    NoJobs {
        /// The dump or the state directory.
        path: PathBuf,
        /// Why the first few were left out.
        left_out: Vec<String>,
    },
}

/// Gives the jobs in a dump or a state directory to the plugin of this name, which is loaded if the policy doesn't load
/// it, and compares its answers with those that were recorded.
///
/// # Errors
/// [`ReplayError`].
pub fn replay(
    policy: Policy,
    plugin: &str,
    path: &Path,
    options: ReplayOptions,
) -> Result<Replayed, ReplayError> {
    let RecordedJobs { jobs, unusable } = recorded::jobs(path)?;
    let Policy { config, directory, .. } = policy;
    let setup = Setup {
        owner: OWNER,
        resources: configured_set(&config)?.unwrap_or_else(|| allocated(&jobs)),
        config,
        config_directory: directory,
        registry: linked::registry()?,
        remote: Arc::new(NoReturn),
        ticks: Ticks::default(),
        host_check: HostCheck::default(),
    };
    let mut report = engine::replay(setup, plugin, jobs, options)?;
    for (id, reason) in unusable {
        report.leave_out(format!("{id}: {reason}"));
    }
    match report.jobs {
        0 => Err(ReplayError::NoJobs { path: path.to_owned(), left_out: report.first_left_out }),
        _ => Ok(report),
    }
}

/// All resources that the jobs had, which are all that is known of the machine.
fn allocated(jobs: &[RecordedJob]) -> ResourceSet {
    let mut all = ResourceSet::new();
    for resources in jobs.iter().filter_map(|job| job.resources.as_ref()?.parse().ok()) {
        all.union_with(&resources);
    }
    all
}
