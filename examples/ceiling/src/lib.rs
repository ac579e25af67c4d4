//! `ceiling`: refuses jobs that ask for more than the site allows, and says how much that is.
//!
//! It decides by the request alone, so it also runs inside Flux and, as a job_submit plugin, inside Slurm.
//!
//! ```toml
//! [plugins.ceiling]
//! max-tasks = 1024
//! max-duration = "1d"
//! ```

use jobtap_core::prelude::*;

/// The plugin's settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Settings {
    max_tasks: u64,
    max_duration: Fsd,
}

impl Default for Settings {
    fn default() -> Self {
        let day = std::time::Duration::from_secs(24 * 3600);
        Self { max_tasks: 1024, max_duration: Fsd::from(day) }
    }
}

/// See the crate's documentation.
#[derive(Debug)]
pub struct Ceiling {
    settings: Settings,
}

#[jobtap_plugin(name = "ceiling")]
impl Ceiling {
    #[init]
    fn new(settings: Conf<Settings>) -> Self {
        Self { settings: settings.into_inner() }
    }

    /// Names both numbers, so that the user can correct the request at once.
    #[on("job.validate")]
    fn validate(&self, job: &Job) -> Result<(), Reject> {
        let Settings { max_tasks, max_duration } = &self.settings;
        let tasks = job.jobspec().counts().ntasks;
        if tasks > *max_tasks {
            return Err(Reject::new(format!(
                "ceiling: {tasks} tasks, at most {max_tasks} are allowed"
            )));
        }
        let duration = job.jobspec().duration();
        if duration > max_duration.as_secs() {
            return Err(Reject::new(format!(
                "ceiling: a time limit of {duration} s, at most {} s are allowed",
                max_duration.as_secs()
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::testing::{TestHosts, TestJob, TestManager};
    use jobtap_flux::testing::TestFlux;
    use jobtap_slurm::testing::TestSlurm;
    use serde_json::json;

    use super::*;

    /// The hosts over which each test runs.
    fn hosts() -> TestHosts {
        TestHosts::new()
            .plugin::<Ceiling>()
            .config(json!({"plugins": {"ceiling": {"max-tasks": 4, "max-duration": "10m"}}}))
            .host::<TestManager>()
            .host::<TestFlux>()
            .host::<TestSlurm>()
    }

    #[test]
    fn a_job_within_the_limits_is_accepted() {
        hosts().each(|host| {
            let id = host.submit(TestJob::new().ntasks(4).duration(600.0)).unwrap();
            assert_eq!(host.run(id), Ok(()));
        });
    }

    #[test]
    fn a_refusal_names_what_was_asked_for_and_the_limit() {
        hosts().each(|host| {
            let text = host.submit(TestJob::new().ntasks(5)).unwrap_err();
            assert_eq!(text, "ceiling: 5 tasks, at most 4 are allowed");
            let text = host.submit(TestJob::new().duration(660.0)).unwrap_err();
            assert_eq!(text, "ceiling: a time limit of 660 s, at most 600 s are allowed");
        });
    }
}
