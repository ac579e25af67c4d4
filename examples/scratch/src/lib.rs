//! `scratch`: runs a program of the site that prepares a directory for each job, before the job's tasks start.
//!
//! The program gets the ids of the job and of its user as arguments. If it fails, the job doesn't start. The handler is
//! asynchronous: it waits for the program without keeping the manager from other work. Inside Flux it is a prolog of
//! the job manager, inside Slurm a PrologSlurmctld of a PrEp plugin.
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

    /// Runs the program. If that fails, the job's exception says why.
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
    use jobtap_core::testing::{TestHosts, TestJob, TestManager};
    use jobtap_flux::testing::TestFlux;
    use jobtap_slurm::testing::TestSlurmPrep;
    use serde_json::json;

    use super::*;

    const PROGRAM: &str = "/usr/local/sbin/make-scratch";

    /// The hosts over which each test runs. In Slurm the plugin is a PrEp plugin.
    fn hosts() -> TestHosts {
        TestHosts::new()
            .plugin::<Scratch>()
            .config(json!({"plugins": {"scratch": {"program": PROGRAM}}}))
            .host::<TestManager>()
            .host::<TestFlux>()
            .host::<TestSlurmPrep>()
    }

    #[test]
    fn a_job_starts_when_its_directory_is_there() {
        hosts().each(|host| {
            let id = host.submit(TestJob::new()).unwrap();
            assert_eq!(host.run(id), Ok(()));
            let started = host.started_processes();
            assert_eq!(started[0].program, PROGRAM);
            assert_eq!(started[0].args, [id.as_u64().to_string(), "1000".to_owned()]);
        });
    }

    /// Sets a priority, as the builtin plugins do in a real manager.
    #[derive(Default)]
    struct Default16;

    #[jobtap_plugin(name = "default-16")]
    impl Default16 {
        #[on("job.state.priority")]
        fn priority(&self) -> Priority {
            Priority::new(16)
        }
    }

    #[test]
    fn a_job_waits_for_its_directory() {
        let config = json!({"plugins": {"scratch": {"program": PROGRAM}}});
        let mut m =
            TestManager::new().config(config).plugin::<Default16>().plugin::<Scratch>().start();
        m.hold_processes();
        let id = m.submit(TestJob::new()).unwrap();
        assert!(!m.events(id).contains(&"start".to_owned()));
        m.end_process(PROGRAM, WaitStatus::from_exit_code(0));
        assert!(m.events(id).contains(&"start".to_owned()));
    }

    #[test]
    fn a_job_without_its_directory_never_starts() {
        hosts().each(|host| {
            host.end_processes_with(ProcessEnd::new(WaitStatus::from_exit_code(3)));
            let id = host.submit(TestJob::new()).unwrap();
            let text = host.run(id).unwrap_err();
            assert_eq!(text, "/usr/local/sbin/make-scratch: exit code 3");
            assert!(!host.events(id).contains(&"start".to_owned()));
        });
    }
}
