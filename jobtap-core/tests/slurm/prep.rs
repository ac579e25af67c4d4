//! Slurm's prologs and epilogs: when they are called, what waits for them, and what their failure leads to.

use jobtap_core::engine::Request;
use jobtap_core::plugin::{Plugin, TextError};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

use crate::common::ByUrgency;

/// Runs a process at each of the four topics.
#[derive(Default)]
struct Scripts;

async fn run(remote: Remote<Scripts>, program: &str, on: &str) -> Result<(), TextError> {
    let end = remote.run_process(Process::new(program).arg(on)).await.or_error()?;
    end.success().or_error()
}

#[jobtap_plugin(name = "scripts")]
impl Scripts {
    #[on("slurm.prolog_slurmctld")]
    async fn prepare(_job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
        Ok(run(remote, "prepare", "").await?)
    }

    #[on("slurm.prolog", timeout = "10s")]
    async fn prolog(node: Node, r: ResourceSet, remote: Remote<Self>) -> Result<(), PrologFailed> {
        assert!(r.ranks().contains(node.rank));
        Ok(run(remote, "prolog", &node.host).await?)
    }

    #[on("slurm.epilog")]
    async fn epilog(node: Node, remote: Remote<Self>) -> Result<(), EpilogFailed> {
        Ok(run(remote, "epilog", &node.host).await?)
    }

    #[on("slurm.epilog_slurmctld")]
    async fn conclude(remote: Remote<Self>) -> Result<(), EpilogFailed> {
        Ok(run(remote, "conclude", "").await?)
    }
}

fn manager_with<P: Plugin>() -> TestManager {
    let mut m = TestManager::new().plugin::<ByUrgency>().plugin::<P>().hosts(2).start();
    m.hold_processes();
    m
}

fn manager() -> TestManager {
    manager_with::<Scripts>()
}

fn on_two_nodes() -> TestJob {
    TestJob::new().nodes(2).ntasks(8)
}

/// The running processes, each as its program and its argument.
fn running(m: &TestManager) -> Vec<String> {
    let mut running: Vec<String> = m
        .running_processes()
        .map(|(process, _)| format!("{} {}", process.program, process.args.concat()))
        .collect();
    running.sort();
    running
}

fn end_well(m: &mut TestManager, program: &str) {
    m.end_process(program, WaitStatus::SUCCESS);
}

fn drained(m: &TestManager) -> String {
    let log = m.resource_log();
    let drains = log.iter().filter(|entry| entry.name == "drain");
    drains
        .filter_map(|entry| entry.context.as_ref())
        .map(|context| {
            format!(
                "{} {}",
                context["idset"].as_str().unwrap(),
                context["reason"].as_str().unwrap()
            )
        })
        .collect::<Vec<_>>()
        .join("; ")
}

fn exception(m: &TestManager, id: JobId) -> (String, String) {
    let log = m.eventlog(id);
    let context = log.iter().find(|entry| entry.name == "exception").unwrap().context.clone();
    let text = |key: &str| context.as_ref().unwrap()[key].as_str().unwrap().to_owned();
    (text("type"), text("note"))
}

/// The job that was submitted in place of another one.
fn successor(m: &TestManager, of: JobId) -> JobId {
    let names = |id: &JobId| {
        let jobspec = m.job(*id).jobspec().value().clone();
        jobspec.pointer("/attributes/system/slurm/requeue_of") == Some(&json!(of.to_string()))
    };
    m.jobs().into_iter().find(names).unwrap()
}

#[test]
fn prologs_and_epilogs_run_in_slurms_order() {
    let mut m = manager();
    let id = m.submit(on_two_nodes()).unwrap();
    assert_eq!(running(&m), ["prepare "]);
    end_well(&mut m, "prepare");
    assert_eq!(running(&m), ["prolog testhost0", "prolog testhost1"]);
    end_well(&mut m, "prolog");
    assert!(!m.events(id).contains(&"start".to_owned()));
    end_well(&mut m, "prolog");
    assert_eq!(m.events(id).last().unwrap(), "start");
    m.finish(id, 0);
    assert_eq!(running(&m), ["conclude ", "epilog testhost0", "epilog testhost1"]);
    end_well(&mut m, "epilog");
    end_well(&mut m, "conclude");
    m.assert_state(id, State::Cleanup);
    end_well(&mut m, "epilog");
    m.assert_state(id, State::Inactive);
    let open: Vec<String> = m.events(id).into_iter().filter(|name| name.contains("log-")).collect();
    assert_eq!(open.len(), 12);
}

#[test]
fn a_job_without_resources_has_neither_prolog_nor_epilog() {
    let mut m = manager();
    let id = m.submit(on_two_nodes().urgency(0)).unwrap();
    m.cancel(id).unwrap();
    m.assert_state(id, State::Inactive);
    assert_eq!(m.started_processes().len(), 0);
}

#[test]
fn cancelling_drops_the_prolog_and_runs_the_epilogs() {
    let mut m = manager();
    let id = m.submit(TestJob::new()).unwrap();
    m.cancel(id).unwrap();
    assert_eq!(running(&m), ["conclude ", "epilog testhost0"]);
    end_well(&mut m, "conclude");
    end_well(&mut m, "epilog");
    m.assert_state(id, State::Inactive);
}

#[test]
fn a_failed_prolog_drains_its_node_and_the_job_is_submitted_again_held() {
    let mut m = manager();
    let id = m.submit(on_two_nodes().user(1001).duration(60.0)).unwrap();
    end_well(&mut m, "prepare");
    m.end_process("prolog", WaitStatus::from_exit_code(3));
    let note = "prolog on testhost0: exit code 3; submitted again, held";
    assert_eq!(exception(&m, id), ("prolog".to_owned(), note.to_owned()));
    assert_eq!(drained(&m), "0 Prolog error: exit code 3");
    // The prolog of the other node is dropped.
    assert_eq!(running(&m), ["conclude ", "epilog testhost0", "epilog testhost1"]);
    let again = successor(&m, id);
    let job = m.job(again);
    assert_eq!(
        (job.urgency(), job.userid(), job.jobspec().duration()),
        (Urgency::HOLD, Uid(1001), 60.0)
    );
}

#[test]
fn prologs_that_fail_on_several_nodes_submit_one_job() {
    let mut m = manager();
    let id = m.submit(on_two_nodes()).unwrap();
    end_well(&mut m, "prepare");
    m.advance(11.0);
    assert_eq!(
        exception(&m, id).1,
        "prolog on testhost0: scripts.prolog@testhost0: no end after 10 s; submitted again, held"
    );
    assert_eq!(m.jobs().len(), 2);
}

#[test]
fn a_failed_controller_prolog_submits_the_job_again_until_it_is_held() {
    let mut m = manager();
    let mut id = m.submit(TestJob::new()).unwrap();
    for _ in 0..3 {
        m.end_process("prepare", WaitStatus::from_exit_code(1));
        assert_eq!(exception(&m, id).1, "prolog: exit code 1; submitted again");
        end_well(&mut m, "conclude");
        end_well(&mut m, "epilog");
        m.assert_state(id, State::Inactive);
        id = successor(&m, id);
        assert_eq!(running(&m), ["prepare "]);
    }
    m.end_process("prepare", WaitStatus::from_exit_code(1));
    assert_eq!(exception(&m, id).1, "prolog: exit code 1; submitted again, held");
    assert_eq!(m.job(successor(&m, id)).urgency(), Urgency::HOLD);
    assert_eq!(drained(&m), "");
}

/// Requeues the job; the error is the refusal.
fn requeue(m: &mut TestManager, id: JobId) -> Result<(), String> {
    let request = m.open_request(TestJob::OWNER.0, Request::Requeue { id, hold: true });
    m.answered(request).unwrap().map(drop).map_err(|error| error.text)
}

#[test]
fn a_job_is_submitted_again_once() {
    let again = Err("job was requeued already".to_owned());
    // Its prolog has failed.
    let mut m = manager();
    let id = m.submit(TestJob::new()).unwrap();
    m.end_process("prepare", WaitStatus::from_exit_code(1));
    m.assert_state(id, State::Cleanup);
    assert_eq!(requeue(&mut m, id), again);
    m.crash_and_restart();
    assert_eq!(requeue(&mut m, id), again);
    assert_eq!(m.jobs().len(), 2);
    // It was requeued, while its prolog ran and while its epilog did.
    let mut m = manager();
    let id = m.submit(TestJob::new()).unwrap();
    requeue(&mut m, id).unwrap();
    assert_eq!(requeue(&mut m, id), again);
    let mut m = manager();
    let id = m.submit(TestJob::new()).unwrap();
    end_well(&mut m, "prepare");
    end_well(&mut m, "prolog");
    m.finish(id, 0);
    requeue(&mut m, id).unwrap();
    assert_eq!(requeue(&mut m, id), again);
    m.crash_and_restart();
    assert_eq!(requeue(&mut m, id), again);
    end_well(&mut m, "conclude");
    end_well(&mut m, "epilog");
    m.assert_state(id, State::Inactive);
    assert_eq!(m.job(id).result(), Some(JobResult::Completed));
    assert_eq!(m.jobs().len(), 2);
}

/// Takes a minute for each job that is submitted again, and refuses those with a certain name.
#[derive(Default)]
struct Thinks;

#[jobtap_plugin(name = "thinks")]
impl Thinks {
    #[on("job.validate")]
    async fn validate(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
        if job.jobspec.value().pointer("/attributes/system/slurm/requeue_of").is_none() {
            return Ok(());
        }
        remote.sleep(60.0).await?;
        match job.jobspec.name() {
            Some("once") => Err(Reject::new("not twice")),
            _ => Ok(()),
        }
    }
}

fn thinking_manager() -> TestManager {
    let setup = TestManager::new().plugin::<ByUrgency>().plugin::<Scripts>().plugin::<Thinks>();
    let mut m = setup.hosts(2).start();
    m.hold_processes();
    m
}

/// The job, whose prolog on its node has failed.
fn failed_on_its_node(m: &mut TestManager, job: TestJob) -> JobId {
    let id = m.submit(job).unwrap();
    end_well(m, "prepare");
    m.end_process("prolog", WaitStatus::from_exit_code(3));
    id
}

#[test]
fn a_job_with_a_failed_prolog_ends_when_its_successor_is_accepted() {
    let mut m = thinking_manager();
    let id = failed_on_its_node(&mut m, TestJob::new());
    m.advance(59.0);
    m.assert_state(id, State::Run);
    assert_eq!(m.events(id).last().unwrap(), "prolog-start");
    m.advance(2.0);
    let events = m.events(id);
    let at = events.iter().position(|name| name == "requeue").unwrap();
    assert_eq!(events[at..at + 3], ["requeue", "exception", "prolog-finish"]);
    let again = successor(&m, id);
    let context = m.eventlog(id)[at].context.clone().unwrap();
    assert_eq!(context["id"], again.as_u64());
    assert_eq!(m.job(again).urgency(), Urgency::HOLD);
    // Without a successor it ends all the same.
    let id = failed_on_its_node(&mut m, TestJob::new().name("once"));
    m.advance(61.0);
    // The first node is drained.
    let note = "prolog on testhost1: exit code 3; can't be submitted again: not twice";
    assert_eq!(exception(&m, id).1, note);
    assert!(!m.events(id).contains(&"requeue".to_owned()));
}

#[test]
fn no_eventlog_promises_a_job_that_a_crash_has_prevented() {
    let mut m = thinking_manager();
    let id = failed_on_its_node(&mut m, TestJob::new());
    m.crash_and_restart();
    let note = "prolog scripts.prolog@testhost0: the manager was restarted while it was open";
    assert_eq!(exception(&m, id).1, note);
    assert_eq!(m.jobs(), [id]);
}

#[test]
fn a_prolog_that_fails_while_a_requeue_waits_holds_the_successor() {
    let mut m = thinking_manager();
    let id = m.submit(TestJob::new()).unwrap();
    let asked = m.open_request(TestJob::OWNER.0, Request::Requeue { id, hold: false });
    end_well(&mut m, "prepare");
    m.end_process("prolog", WaitStatus::from_exit_code(3));
    m.advance(61.0);
    let again = successor(&m, id);
    assert_eq!(m.answered(asked), Some(Ok(json!({ "id": again }))));
    assert_eq!(exception(&m, id).1, "prolog on testhost0: exit code 3; submitted again, held");
    assert_eq!(m.job(again).urgency(), Urgency::HOLD);
    m.assert_state(again, State::Sched);
}

#[test]
fn a_job_that_is_canceled_before_its_successor_is_accepted_has_none() {
    let mut m = thinking_manager();
    let asked_for = m.submit(TestJob::new()).unwrap();
    let request = Request::Requeue { id: asked_for, hold: false };
    let asked = m.open_request(TestJob::OWNER.0, request);
    m.cancel(asked_for).unwrap();
    let error = m.answered(asked).unwrap().unwrap_err();
    assert_eq!(error.text, "the job was canceled before it was submitted again");
    let failed = failed_on_its_node(&mut m, TestJob::new());
    m.cancel(failed).unwrap();
    m.advance(61.0);
    assert_eq!(m.jobs(), [asked_for, failed]);
    while !running(&m).is_empty() {
        for program in ["conclude", "epilog"] {
            end_well(&mut m, program);
        }
    }
    m.assert_state(failed, State::Inactive);
}

#[test]
fn a_job_at_a_terminal_and_one_that_is_not_to_be_requeued_only_end() {
    let mut m = manager();
    let stdin = json!({"input": {"stdin": {"type": "service"}}});
    let id = m.submit(TestJob::new().attribute("shell.options", stdin)).unwrap();
    m.end_process("prepare", WaitStatus::from_exit_code(1));
    assert_eq!(exception(&m, id).1, "prolog: exit code 1; job killed");
    let id = m.submit(TestJob::new().attribute("slurm.requeue", 0)).unwrap();
    m.end_process("prepare", WaitStatus::from_exit_code(1));
    assert_eq!(exception(&m, id).1, "prolog: exit code 1");
    assert_eq!(m.jobs().len(), 2);
}

#[test]
fn a_failed_epilog_drains_and_a_failed_controller_epilog_is_logged() {
    let mut m = manager();
    let id = m.submit(TestJob::new()).unwrap();
    end_well(&mut m, "prepare");
    end_well(&mut m, "prolog");
    m.finish(id, 0);
    m.end_process("conclude", WaitStatus::from_exit_code(1));
    m.end_process("epilog", WaitStatus::from_exit_code(2));
    m.assert_state(id, State::Inactive);
    assert_eq!(m.job(id).result(), Some(JobResult::Completed));
    assert_eq!(drained(&m), "0 Epilog error: exit code 2");
    assert!(
        m.log().any(|(_, text)| text.contains("slurm.epilog_slurmctld: job")
            && text.contains("exit code 1"))
    );
}

#[test]
fn a_prolog_that_is_open_at_a_restart_has_failed() {
    let mut m = manager();
    let id = m.submit(TestJob::new()).unwrap();
    m.crash_and_restart();
    let note = "prolog scripts.prepare: the manager was restarted while it was open";
    assert_eq!(exception(&m, id).1, note);
}

#[test]
fn an_epilog_that_is_open_at_a_restart_runs_again() {
    let mut m = manager();
    let id = m.submit(TestJob::new()).unwrap();
    end_well(&mut m, "prepare");
    end_well(&mut m, "prolog");
    m.finish(id, 0);
    end_well(&mut m, "conclude");
    assert_eq!(running(&m), ["epilog testhost0"]);
    m.crash_and_restart();
    m.assert_state(id, State::Cleanup);
    assert_eq!(running(&m), ["conclude ", "epilog testhost0"]);
    end_well(&mut m, "conclude");
    end_well(&mut m, "epilog");
    m.assert_state(id, State::Inactive);
    assert_eq!(m.job(id).result(), Some(JobResult::Completed));
}

#[test]
fn a_removed_plugin_fails_its_prolog() {
    let mut m = manager();
    let id = m.submit(TestJob::new()).unwrap();
    m.remove_plugin("scripts").unwrap();
    assert_eq!(exception(&m, id).1, "prolog scripts.prepare: its plugin was removed");
    m.assert_state(id, State::Inactive);
}

/// Fails synchronously, depending on the name of the job.
#[derive(Default)]
struct AtOnce;

#[jobtap_plugin(name = "at-once")]
impl AtOnce {
    #[on("slurm.prolog")]
    fn prolog(&self, job: &Job, node: Node) -> Result<(), PrologFailed> {
        match job.jobspec().name() {
            Some("boom") => panic!("no scratch"),
            Some("bad") if node.rank == 1 => Err(PrologFailed::new("no scratch")),
            _ => Ok(()),
        }
    }
}

#[test]
fn a_handler_that_fails_at_once_keeps_the_job_from_starting() {
    let mut m = manager_with::<AtOnce>();
    let id = m.submit(on_two_nodes().name("bad")).unwrap();
    assert_eq!(exception(&m, id).1, "prolog on testhost1: no scratch; submitted again, held");
    assert_eq!(drained(&m), "1 Prolog error: no scratch");
    // Here the plugin is at fault, not the node.
    let id = m.submit(TestJob::new().name("boom")).unwrap();
    assert_eq!(exception(&m, id).1, "prolog: panicked: no scratch; submitted again, held");
    assert!(!m.events(id).contains(&"start".to_owned()));
    assert_eq!(drained(&m), "1 Prolog error: no scratch");
    let id = m.submit(TestJob::new().name("good")).unwrap();
    m.assert_state(id, State::Run);
}

#[test]
fn a_faulted_plugin_lets_no_job_start_and_drains_no_node() {
    let mut m = manager_with::<AtOnce>();
    for _ in 0..3 {
        m.submit(TestJob::new().name("boom")).unwrap();
    }
    let id = m.submit(TestJob::new().name("good")).unwrap();
    let note = "prolog: plugin at-once has failed repeatedly; submitted again, held";
    assert_eq!(exception(&m, id).1, note);
    assert_eq!(drained(&m), "");
    m.remove_plugin("at-once").unwrap();
    m.urgency(successor(&m, id), 16).unwrap();
    m.assert_state(successor(&m, id), State::Run);
}
