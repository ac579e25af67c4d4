//! How allocations end, and what becomes of the jobs there.

use super::*;

/// A manager with a job that runs in an allocation of this table.
fn running(table: Value, job: TestJob) -> (TestManager, JobId) {
    let mut m = start(json!([table]));
    m.let_allocations_wait(0.0);
    let job = m.submit(job).unwrap();
    m.advance(1.0);
    m.assert_state(job, State::Run);
    (m, job)
}

#[test]
fn an_idle_allocation_is_given_back() {
    let (mut m, job) = running(small(), job());
    m.advance(600.0);
    assert_eq!(states(&m), ["running"]);
    m.finish(job, 0);
    m.advance(50.0);
    assert_eq!(states(&m), ["running"]);
    m.advance(12.0);
    assert_eq!(states(&m), [""; 0]);
    assert!(m.outer_jobs().is_empty());
}

#[test]
fn a_job_takes_an_idle_allocation() {
    let (mut m, first) = running(small(), job());
    m.finish(first, 0);
    m.advance(30.0);
    let second = m.submit(job()).unwrap();
    m.assert_state(second, State::Run);
    m.advance(600.0);
    assert_eq!((m.orders().len(), states(&m)), (1, vec!["running".to_owned()]));
}

#[test]
fn a_job_does_not_start_where_its_time_reaches_beyond_the_end() {
    let (mut m, _) = running(small(), TestJob::new());
    let fits = m.submit(TestJob::new().duration(3000.0).run_for(10.0)).unwrap();
    m.assert_state(fits, State::Run);
    m.advance(1000.0);
    let long = m.submit(TestJob::new().duration(3000.0)).unwrap();
    m.assert_state(long, State::Sched);
    let why = m.why(long).join(" ");
    assert!(why.contains("its time limit reaches beyond the end of the allocations"), "{why}");
    let unlimited = m.submit(TestJob::new()).unwrap();
    m.assert_state(unlimited, State::Run);
    // Another allocation is asked for.
    m.advance(2.0);
    m.assert_state(long, State::Run);
    assert_eq!(m.job(long).resources().unwrap().nodelist().to_string(), "n1");
}

#[test]
fn jobs_of_an_allocation_that_ends_are_submitted_again() {
    let (mut m, first) = running(small(), job().name("sweep"));
    m.advance(3600.0);
    m.assert_exception(first, "node-failure", "node failure on n0 (rank 1); submitted again");
    let again = m.jobs().into_iter().find(|id| *id != first).unwrap();
    assert_eq!(m.job(again).jobspec().attribute("job.name"), Some(&json!("sweep")));
    m.advance(2.0);
    m.assert_state(again, State::Run);
    assert_eq!(m.job(again).resources().unwrap().nodelist().to_string(), "n1");
}

#[test]
fn a_job_array_loses_no_element_with_an_allocation() {
    let mut m = start(json!([small_with(json!({"max": 2}))]));
    m.let_allocations_wait(0.0);
    let elements = serde_json::from_value(json!({"indexes": "1-100"})).unwrap();
    let array = m.submit(TestJob::new().run_for(10.0).elements(elements)).unwrap();
    m.advance(15.0);
    assert_eq!(m.outer_jobs().len(), 2);
    m.end_allocation(id(1), "preempted");
    m.advance(300.0);
    assert_eq!(m.array(array)["completed"], "1-100");
    assert!(m.outer_jobs().is_empty());
}

#[test]
fn a_job_that_outlasts_every_allocation_is_held_in_the_end() {
    let (mut m, _) = running(small(), job());
    m.advance(10.0 * 3600.0);
    let last = *m.jobs().last().unwrap();
    assert_eq!((m.jobs().len(), m.job(last).priority()), (5, Some(0)));
    assert_eq!(states(&m), [""; 0]);
}

#[test]
fn on_loss_fail_and_jobs_that_forbid_it_are_not_submitted_again() {
    for (table, job) in [
        (small_with(json!({"on-loss": "fail"})), job()),
        (small(), job().attribute("slurm", json!({"requeue": 0}))),
    ] {
        let (mut m, job) = running(table, job);
        m.end_allocation(id(1), "preempted");
        m.assert_exception(job, "node-failure", "node failure on n0 (rank 1)");
        m.assert_state(job, State::Inactive);
        assert_eq!(m.jobs(), [job]);
    }
}

#[test]
fn a_node_that_is_lost_is_used_again_by_the_next_allocation() {
    let (mut m, job) = running(small(), job());
    m.lose_nodes("1").unwrap();
    m.assert_exception(job, "node-failure", "; submitted again");
    assert_eq!(m.resource_status()["drain"].as_object().unwrap().len(), 1);
    m.end_allocation(id(1), "NODE_FAIL");
    assert_eq!(m.resource_status()["drain"], json!({}));
    m.advance(3.0);
    let again = m.jobs().into_iter().find(|id| *id != job).unwrap();
    m.assert_state(again, State::Run);
}

/// A manager with jobs that were handed to the executor ahead of their turn, in an allocation of one core.
fn with_jobs_ahead(on_loss: &str) -> (TestManager, Vec<JobId>) {
    let table = small_with(json!({"cores": 1, "max": 1, "on-loss": on_loss}));
    let config = json!({ "allocation": [table] });
    let mut m = TestManager::new().plugin::<Asks>().config(config).prefill().start();
    let job = || TestJob::new().duration(60.0);
    let short = m.submit(job()).unwrap();
    m.advance(0.11);
    m.finish(short, 0);
    let jobs: Vec<JobId> = (0..3).map(|_| m.submit(job()).unwrap()).collect();
    m.submit(job().urgency(0)).unwrap();
    let why = m.why(jobs[1]);
    assert!(why[0].starts_with("its turn comes as soon as"), "{why:?}");
    (m, jobs)
}

#[test]
fn jobs_ahead_of_their_turn_are_not_lost_with_their_node() {
    let (mut m, _) = with_jobs_ahead("requeue");
    m.end_allocation(id(1), "preempted");
    for _ in 0..20 {
        m.advance(2.0);
        m.executing().into_iter().for_each(|id| m.finish(id, 0));
    }
    let results: Vec<_> = m.jobs().into_iter().map(|id| m.job(id).result()).collect();
    let completed = results.iter().filter(|result| **result == Some(JobResult::Completed)).count();
    assert_eq!(completed, 4, "{results:?}");
}

#[test]
fn a_job_that_was_begun_on_a_node_that_is_gone_ends_too() {
    let (mut m, jobs) = with_jobs_ahead("fail");
    m.let_allocations_wait(f64::INFINITY);
    m.end_allocation(id(1), "preempted");
    m.advance(2.0);
    assert_eq!(m.executing(), []);
    m.assert_exception(jobs[0], "node-failure", "n0");
    m.assert_exception(jobs[1], "node-failure", "n0");
    m.assert_state(jobs[2], State::Sched);
}

#[test]
fn a_released_allocation_takes_no_new_jobs_and_ends_with_the_last() {
    let (mut m, first) = running(small_with(json!({"max": 1})), TestJob::new());
    m.release_allocation(id(1)).unwrap();
    assert_eq!(states(&m), ["draining"]);
    let next = m.submit(TestJob::new()).unwrap();
    m.assert_state(next, State::Sched);
    m.finish(first, 0);
    m.advance(0.5);
    assert_eq!(m.outer_jobs().len(), 0);
    m.advance(2.0);
    m.assert_state(next, State::Run);
    assert_eq!(m.release_allocation(id(1)).unwrap_err(), "there is no allocation 1");
}

#[test]
fn an_allocation_on_order_is_cancelled_by_its_release() {
    let mut m = start(json!([small()]));
    let job = m.submit(job()).unwrap();
    m.advance(1.0);
    m.cancel(job).unwrap();
    m.release_allocation(id(1)).unwrap();
    assert!(m.outer_jobs().is_empty());
    m.advance(600.0);
    assert_eq!(m.orders().len(), 1);
}

#[test]
fn a_node_with_an_impossible_place_is_not_taken() {
    use jobtap_core::engine::AllocationEvent;
    let mut m = start(json!([small()]));
    m.submit(job()).unwrap();
    m.advance(1.0);
    for (rank, host) in [(2, "n7"), (1, "n[7"), (1, "n[7-8]")] {
        m.report_allocation(AllocationEvent::Joined { id: id(1), rank, host: host.to_owned() });
    }
    assert_eq!(m.resource_status()["offline"], "1-3");
}
