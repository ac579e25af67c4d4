//! The doubles of Slurm as hosts of the test kit, as a plugin's tests see them.

use jobtap_core::prelude::*;
use jobtap_core::testing::{TestHost, TestHosts, TestJob, TestManager};
use jobtap_slurm::testing::{TestSlurm, TestSlurmPrep};

#[derive(Default)]
struct Rewrites;

#[jobtap_plugin(name = "rewrites", load = "by-name")]
impl Rewrites {
    #[on("slurm.job_submit")]
    fn submit(&self, mut desc: Descriptor<'_>, cx: Cx<'_, SlurmJobSubmit>) {
        desc.time_limit = desc.time_limit.map(|minutes| minutes.min(60));
        cx.user_message("at most an hour");
    }

    #[on("job.state.priority")]
    fn priority(&self) -> Priority {
        Priority::new(9)
    }
}

#[test]
fn a_request_is_changed_with_a_message_and_a_priority() {
    let hosts = TestHosts::new().plugin::<Rewrites>();
    hosts.host::<TestManager>().host::<TestSlurm>().each(|host| {
        let id = host.submit(TestJob::new().duration(7200.0)).unwrap();
        assert_eq!(host.messages(), ["at most an hour"]);
        assert!(host.messages().is_empty());
        assert_eq!(host.priority(id), Some(9));
        let duration = host.jobspec(id).pointer("/attributes/system/duration").cloned();
        assert_eq!(duration.and_then(|seconds| seconds.as_f64()), Some(3600.0));
        assert_eq!(host.run(id), Ok(()));
        assert_eq!(host.end(id, 0), Ok(()));
    });
}

#[test]
#[should_panic(expected = "a request of Slurm's has no attribute \"tier\"")]
fn a_job_that_slurm_has_no_words_for_fails_the_test() {
    let hosts = TestHosts::new().plugin::<Rewrites>().host::<TestSlurm>();
    hosts.each(|host| drop(host.submit(TestJob::new().attribute("tier", "gold"))));
}

#[derive(Default)]
struct Prepares;

#[jobtap_plugin(name = "prepares", load = "by-name")]
impl Prepares {
    #[on("slurm.prolog_slurmctld")]
    async fn controller(remote: Remote<Self>) -> Result<(), PrologFailed> {
        let end = remote.run_process(Process::new("controller")).await?;
        Ok(end.success()?)
    }

    #[on("slurm.prolog")]
    async fn node(node: Node, remote: Remote<Self>) -> Result<(), PrologFailed> {
        remote.run_process(Process::new("node").arg(node.host)).await?;
        Ok(())
    }

    #[on("slurm.epilog")]
    fn after(&self) -> Result<(), EpilogFailed> {
        Err(EpilogFailed::new("not clean"))
    }
}

#[test]
fn prologs_of_the_controller_come_before_those_of_the_node() {
    TestHosts::new().plugin::<Prepares>().host::<TestSlurmPrep>().each(|host| {
        let id = host.submit(TestJob::new()).unwrap();
        assert_eq!(host.run(id), Ok(()));
        let started = |host: &dyn TestHost| {
            let started = host.started_processes();
            started.into_iter().map(|process| process.program).collect::<Vec<_>>()
        };
        assert_eq!(started(host), ["controller", "node"]);
        assert_eq!(host.end(id, 0).unwrap_err(), "not clean");
        host.end_processes_with(ProcessEnd::new(WaitStatus::from_exit_code(3)));
        let id = host.submit(TestJob::new()).unwrap();
        assert_eq!(host.run(id).unwrap_err(), "exit code 3");
        // The node's prolog doesn't run for a job whose prolog has failed in the controller.
        assert_eq!(started(host), ["controller", "node", "controller"]);
    });
}
