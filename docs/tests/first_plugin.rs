//! The plugin of the chapter "The first plugin in five minutes", whose blocks are parts of this file.
#![allow(missing_docs, unreachable_pub)]

use jobtap_core::prelude::*;

/// What a site can set: `[plugins.small-jobs-first]`.
#[derive(Deserialize, JsonSchema)]
struct Settings {
    /// Jobs of more tasks are refused.
    max_tasks: u64,
}

/// Small jobs go first, and large ones don't go at all.
pub struct SmallJobsFirst {
    settings: Settings,
}

#[jobtap_plugin(name = "small-jobs-first")]
impl SmallJobsFirst {
    #[init]
    fn new(settings: Conf<Settings>) -> Self {
        Self { settings: settings.into_inner() }
    }

    #[on("job.validate")]
    fn validate(&self, job: &Job) -> Result<(), Reject> {
        let (asked, limit) = (job.jobspec().counts().ntasks, self.settings.max_tasks);
        if asked > limit {
            return Err(Reject::new(format!(
                "{asked} tasks are more than the {limit} allowed here"
            )));
        }
        Ok(())
    }

    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self, job: &Job) -> Priority {
        Priority::clamped(1e6 - job.jobspec().counts().ncores() as f64)
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::testing::{TestJob, TestManager};

    use super::*;

    fn manager() -> TestManager {
        let config = serde_json::json!({"plugins": {"small-jobs-first": {"max_tasks": 3}}});
        TestManager::new().plugin::<SmallJobsFirst>().config(config).cores(3).start()
    }

    #[test]
    fn a_job_of_too_many_tasks_is_refused() {
        let refusal = manager().submit(TestJob::new().ntasks(4)).unwrap_err();
        assert_eq!(refusal, "4 tasks are more than the 3 allowed here");
    }

    #[test]
    fn the_smaller_of_two_waiting_jobs_is_started() {
        let mut m = manager();
        let running = m.submit(TestJob::new().ntasks(3).run_for(60.0)).unwrap();
        let large = m.submit(TestJob::new().ntasks(3)).unwrap();
        let small = m.submit(TestJob::new().ntasks(1)).unwrap();
        m.advance(61.0);
        m.assert_state(running, State::Inactive);
        m.assert_state(small, State::Run);
        m.assert_state(large, State::Sched);
    }
}
