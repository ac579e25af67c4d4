//! `scratch`: prepares a directory for each job with a program of the site, before its tasks start.
//!
//! The program gets the job's id and the user's as arguments. When it fails, the job doesn't start. The handler is
//! asynchronous: it waits for the program without keeping the manager from other work. Inside Flux it is a prolog
//! of the job manager, inside Slurm a PrologSlurmctld of a PrEp plugin.
//!
//! ```toml
//! [plugins.scratch]
//! program = "/usr/local/sbin/make-scratch"
//! ```

use jobtap_core::prelude::*;

/// The plugin's settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    program: String,
}

/// See the crate's documentation.
#[derive(Debug)]
pub struct Scratch {
    settings: Settings,
}

#[jobtap_plugin(name = "scratch")]
impl Scratch {
    #[init]
    fn new(settings: Conf<Settings>) -> Self {
        Self { settings: settings.into_inner() }
    }

    /// Runs the program. What became of it stands in the job's exception.
    #[on("job.state.run", timeout = "5m")]
    async fn prepare(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
        let program = remote.call(|plugin, _| plugin.settings.program.clone()).await?;
        let (id, user) = (job.id.as_u64().to_string(), job.userid.0.to_string());
        let end = remote.run_process(Process::new(&program).args([id, user])).await?;
        end.success().map_err(|why| PrologFailed::new(format!("{program}: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::job::WaitStatus;
    use jobtap_core::testing::{TestJob, TestManager};
    use serde_json::json;

    use super::*;

    /// Sets a priority, which the builtin plugins do in a manager.
    #[derive(Default)]
    struct Default16;

    #[jobtap_plugin(name = "default-16")]
    impl Default16 {
        #[on("job.state.priority")]
        fn priority(&self) -> Priority {
            Priority::new(16)
        }
    }

    const PROGRAM: &str = "/usr/local/sbin/make-scratch";

    fn manager() -> TestManager {
        let config = json!({"plugins": {"scratch": {"program": PROGRAM}}});
        let mut m =
            TestManager::new().config(config).plugin::<Default16>().plugin::<Scratch>().start();
        m.hold_processes();
        m
    }

    #[test]
    fn a_job_starts_when_its_directory_is_there() {
        let mut m = manager();
        let id = m.submit(TestJob::new()).unwrap();
        assert_eq!(m.started_processes()[0].args, [id.as_u64().to_string(), "1000".to_owned()]);
        assert!(!m.events(id).contains(&"start".to_owned()));
        m.end_process(PROGRAM, WaitStatus::from_exit_code(0));
        assert!(m.events(id).contains(&"start".to_owned()));
    }

    #[test]
    fn a_job_without_its_directory_never_starts() {
        let mut m = manager();
        let id = m.submit(TestJob::new()).unwrap();
        m.end_process(PROGRAM, WaitStatus::from_exit_code(3));
        m.assert_exception(id, "prolog", "/usr/local/sbin/make-scratch: exit code 3");
        assert!(!m.events(id).contains(&"start".to_owned()));
    }
}
