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
    use jobtap_core::testing::{TestJob, TestManager};
    use serde_json::json;

    use super::*;

    fn refusal(job: TestJob) -> Option<String> {
        let config = json!({"plugins": {"ceiling": {"max-tasks": 4, "max-duration": "10m"}}});
        let mut m = TestManager::new().config(config).plugin::<Ceiling>().cores(8).start();
        m.submit(job).err()
    }

    #[test]
    fn a_job_within_the_limits_is_accepted() {
        assert_eq!(refusal(TestJob::new().ntasks(4).duration(600.0)), None);
    }

    #[test]
    fn a_refusal_names_what_was_asked_for_and_the_limit() {
        let text = refusal(TestJob::new().ntasks(5));
        assert_eq!(text.as_deref(), Some("ceiling: 5 tasks, at most 4 are allowed"));
        let text = refusal(TestJob::new().duration(601.0));
        let expected = "ceiling: a time limit of 601 s, at most 600 s are allowed";
        assert_eq!(text.as_deref(), Some(expected));
    }
}
