//! `deadline`: the job with the earliest deadline starts first.
//!
//! A user says when a job must be done with `--setattr=deadline=SECONDS` (UNIX time). A job that
//! has none is due some time after it was submitted. Each step of urgency above the default
//! moves the deadline a little earlier, each step below a little later.
//!
//! ```toml
//! [plugins.deadline]
//! default = "1d"        # a job without a deadline is due this long after it was submitted
//! urgency-step = "1h"   # what one step of urgency is worth
//! ```

use jobtap_core::prelude::*;

/// The plugin's settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Settings {
    default: Fsd,
    urgency_step: Fsd,
}

impl Default for Settings {
    fn default() -> Self {
        let hours = |h: u64| Fsd::from(std::time::Duration::from_secs(h * 3600));
        Self { default: hours(24), urgency_step: hours(1) }
    }
}

/// See the crate's documentation.
#[derive(Debug)]
pub struct Deadline {
    settings: Settings,
}

#[jobtap_plugin(name = "deadline")]
impl Deadline {
    #[init]
    fn new(settings: Conf<Settings>) -> Result<Self, ConfError> {
        if settings.default.is_infinite() || settings.urgency_step.is_infinite() {
            return Err(ConfError::new("[plugins.deadline]: a duration can't be infinite"));
        }
        Ok(Self { settings: settings.into_inner() })
    }

    /// At submission, when the user can still correct it, refuses a deadline that can't be met.
    #[on("job.validate")]
    fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        let Some(deadline) = asked(job)? else {
            return Ok(());
        };
        let left = deadline - cx.now().as_secs();
        if left <= 0.0 {
            return Err(Reject::new("deadline: it has passed already"));
        }
        let duration = job.jobspec().duration();
        if duration > left {
            return Err(Reject::new(format!(
                "deadline: the job may take {duration} s, but only {left:.0} s are left"
            )));
        }
        Ok(())
    }

    /// Computes the priority from the deadline. Deadlines are absolute, so priorities need not be computed
    /// again as time passes.
    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self, job: &Job) -> Priority {
        let due = asked(job).ok().flatten();
        let due = due.unwrap_or_else(|| job.t_submit().as_secs() + self.settings.default.as_secs());
        let steps = f64::from(job.urgency().value()) - f64::from(Urgency::DEFAULT.value());
        let due = due - steps * self.settings.urgency_step.as_secs();
        // The maximum is reserved for expedited jobs, and 0 would hold the job.
        Priority::clamped((f64::from(u32::MAX) - 1.0 - due).max(1.0))
    }
}

/// Returns the deadline that the user requested, in UNIX seconds.
fn asked(job: &Job) -> Result<Option<f64>, Reject> {
    let Some(value) = job.jobspec().attribute("deadline") else {
        return Ok(None);
    };
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite());
    seconds.map(Some).ok_or_else(|| {
        Reject::new(format!(
            "attributes.system.deadline must be a time in UNIX seconds, not {value}: use \
             --setattr=deadline=$(date -d tomorrow +%s)"
        ))
    })
}

#[cfg(test)]
mod tests {
    use jobtap_core::testing::{TestHosts, TestJob, TestManager};
    use jobtap_flux::testing::TestFlux;
    use jobtap_slurm::testing::TestSlurm;
    use serde_json::json;

    use super::*;

    fn manager() -> TestManager {
        TestManager::new().plugin::<Deadline>().cores(1).start()
    }

    fn due_in(m: &TestManager, seconds: f64) -> TestJob {
        let at = m.now().as_secs() + seconds;
        TestJob::new().attribute("deadline", at).run_for(1.0)
    }

    /// Submits jobs to a stopped queue, and returns the order in which they start.
    fn order(m: &mut TestManager, jobs: Vec<TestJob>) -> Vec<usize> {
        m.scheduling(false).unwrap();
        let ids: Vec<JobId> = jobs.into_iter().map(|job| m.submit(job).unwrap()).collect();
        m.scheduling(true).unwrap();
        m.advance(100.0);
        let mut order: Vec<usize> = (0..ids.len()).collect();
        order.sort_by(|a, b| {
            let alloc = |i: usize| {
                let log = m.eventlog(ids[i]);
                log.into_iter().find(|entry| entry.name == "alloc").unwrap().timestamp
            };
            alloc(*a).total_cmp(&alloc(*b))
        });
        order
    }

    #[test]
    fn the_earliest_deadline_goes_first() {
        let mut m = manager();
        let jobs = [900.0, 300.0, 600.0].map(|seconds| due_in(&m, seconds));
        assert_eq!(order(&mut m, jobs.into()), [1, 2, 0]);
    }

    #[test]
    fn urgency_moves_a_deadline_by_an_hour_a_step() {
        let mut m = manager();
        let late_but_urgent = due_in(&m, 3.5 * 3600.0).urgency(19);
        let early = due_in(&m, 3600.0);
        assert_eq!(order(&mut m, vec![early, late_but_urgent]), [1, 0]);
    }

    #[test]
    fn a_job_without_a_deadline_is_due_after_the_sites_default() {
        let config = json!({"plugins": {"deadline": {"default": "10m"}}});
        let mut m = TestManager::new().plugin::<Deadline>().cores(1).config(config).start();
        let jobs = vec![due_in(&m, 900.0), TestJob::new().run_for(1.0), due_in(&m, 300.0)];
        assert_eq!(order(&mut m, jobs), [2, 1, 0]);
    }

    #[test]
    fn hold_and_expedite_still_hold_and_expedite() {
        let mut m = manager();
        let held = m.submit(due_in(&m, 60.0).urgency(0)).unwrap();
        assert_eq!(m.job(held).priority(), Some(0));
        let first = m.submit(TestJob::new().urgency(31)).unwrap();
        assert_eq!(m.job(first).priority(), Some(u32::MAX));
    }

    /// The hosts whose jobs can have attributes that a site defines.
    fn hosts_with_attributes() -> TestHosts {
        TestHosts::new().plugin::<Deadline>().host::<TestManager>().host::<TestFlux>()
    }

    #[test]
    fn a_deadline_that_cannot_be_met_is_refused() {
        hosts_with_attributes().each(|host| {
            let now = host.now().as_secs();
            let due_in = |seconds: f64| TestJob::new().attribute("deadline", now + seconds);
            let text = host.submit(due_in(-1.0)).unwrap_err();
            assert_eq!(text, "deadline: it has passed already");
            let text = host.submit(due_in(60.0).duration(120.0)).unwrap_err();
            assert_eq!(text, "deadline: the job may take 120 s, but only 60 s are left");
            let text =
                host.submit(TestJob::new().attribute("deadline", "soon")).unwrap_err().text();
            assert!(text.starts_with("attributes.system.deadline must be a time"), "{text}");
            assert_eq!(host.submit(due_in(60.0).duration(50.0)).map(drop), Ok(()));
        });
    }

    #[test]
    fn the_earlier_deadline_has_the_higher_priority_in_each_host() {
        hosts_with_attributes().each(|host| {
            let now = host.now().as_secs();
            let due_in = |seconds: f64| TestJob::new().attribute("deadline", now + seconds);
            let later = host.submit(due_in(900.0)).unwrap();
            let sooner = host.submit(due_in(300.0)).unwrap();
            let ahead = host.priority(sooner).unwrap() - host.priority(later).unwrap();
            assert_eq!(ahead, 600);
        });
    }

    #[test]
    fn an_urgent_job_is_ahead_of_another_one_in_each_host() {
        let hosts = hosts_with_attributes().host::<TestSlurm>();
        hosts.each(|host| {
            let other = host.submit(TestJob::new()).unwrap();
            let urgent = host.submit(TestJob::new().urgency(19)).unwrap();
            let ahead = host.priority(urgent).unwrap() - host.priority(other).unwrap();
            // In Slurm's test double, time passes between the two submissions.
            assert!((3 * 3600 - 20..=3 * 3600).contains(&ahead), "{ahead}");
        });
    }

    #[test]
    fn a_misspelt_setting_is_refused_at_start() {
        let config = json!({"plugins": {"deadline": {"defualt": "10m"}}});
        let start = TestManager::new().plugin::<Deadline>().config(config).try_start();
        let text = start.err().unwrap().text();
        assert!(text.contains("[plugins.deadline]") && text.contains("defualt"), "{text}");
    }
}
