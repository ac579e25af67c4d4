//! `.allocation-plan`: allocations are asked for as pending jobs need them, kept, and given back.

use std::num::NonZeroU64;

use jobtap_builtins::{AllocationPlan, PriorityDefault};
use jobtap_core::allocation::AllocationId;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

fn table(name: &str, more: Value) -> Value {
    let mut table = json!({
        "name": name, "engine": "slurm", "cores": 4, "max": 4, "time-limit": "1h", "idle-time": "1m",
    });
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    table
}

fn start(tables: Value) -> TestManager {
    let m = TestManager::new().plugin::<PriorityDefault>().plugin::<AllocationPlan>();
    let mut m = m.config(json!({ "allocation": tables })).start();
    m.let_allocations_wait(f64::INFINITY);
    m
}

/// The tables of the allocations outside, by id.
fn outside(m: &TestManager) -> Vec<&str> {
    m.outer_jobs().values().map(|job| &*job.table).collect()
}

fn start_all(m: &mut TestManager) {
    let ids: Vec<AllocationId> = m.outer_jobs().keys().copied().collect();
    ids.into_iter().for_each(|id| m.start_allocation(id));
}

fn submit(m: &mut TestManager, count: usize, job: &TestJob) -> Vec<JobId> {
    (0..count).map(|_| m.submit(job.clone()).unwrap()).collect()
}

#[test]
fn as_many_are_asked_for_as_the_jobs_fill() {
    for (jobs, tasks, allocations) in
        [(1, 1, 1), (4, 1, 1), (5, 1, 2), (2, 3, 2), (3, 2, 2), (99, 1, 4)]
    {
        let mut m = start(json!([table("small", json!({}))]));
        submit(&mut m, jobs, &TestJob::new().ntasks(tasks));
        m.advance(100.0);
        assert_eq!(outside(&m).len(), allocations, "{jobs} jobs of {tasks} cores");
    }
}

#[test]
fn what_is_on_order_is_not_asked_for_again() {
    let mut m = start(json!([table("small", json!({}))]));
    let job = TestJob::new().ntasks(4);
    submit(&mut m, 2, &job);
    m.advance(10.0);
    submit(&mut m, 1, &job);
    m.advance(10.0);
    assert_eq!(m.orders().len(), 3);
    start_all(&mut m);
    m.advance(300.0);
    assert_eq!(m.orders().len(), 3);
}

#[test]
fn the_first_table_that_could_run_a_job_is_asked_then_the_next() {
    let gpus = table("gpus", json!({"gpus": 2, "max": 1}));
    let mut m = start(json!([table("small", json!({"max": 1})), gpus, table("more", json!({}))]));
    submit(&mut m, 1, &TestJob::new().gpus_per_task(1));
    m.advance(10.0);
    assert_eq!(outside(&m), ["gpus"]);
    submit(&mut m, 3, &TestJob::new().ntasks(4));
    m.advance(10.0);
    // What the first job leaves of `gpus` has no room for a job of four cores.
    assert_eq!(outside(&m)[1..], ["small", "more", "more"]);
}

#[test]
fn nothing_is_asked_for_what_can_not_run() {
    let mut m = start(json!([table("small", json!({}))]));
    submit(&mut m, 5, &TestJob::new().duration(3601.0));
    m.advance(600.0);
    assert_eq!(m.orders().len(), 0);
    submit(&mut m, 1, &TestJob::new().duration(3500.0));
    m.advance(2.0);
    assert_eq!(m.orders().len(), 1);
    start_all(&mut m);
    m.advance(10.0);
    assert_eq!(m.orders().len(), 1);
}

#[test]
fn a_backlog_has_to_gather_first() {
    let mut m = start(json!([table("small", json!({"backlog": 6}))]));
    submit(&mut m, 5, &TestJob::new());
    m.advance(600.0);
    assert_eq!(m.orders().len(), 0);
    submit(&mut m, 1, &TestJob::new());
    m.advance(2.0);
    assert_eq!(m.orders().len(), 2);
}

#[test]
fn some_are_kept_without_jobs() {
    let mut m = start(json!([table("small", json!({"min": 2}))]));
    m.advance(2.0);
    assert_eq!(outside(&m).len(), 2);
    start_all(&mut m);
    m.advance(3000.0);
    assert_eq!(outside(&m).len(), 2, "idle ones are kept");
    m.let_allocations_wait(0.0);
    m.advance(700.0);
    assert_eq!((outside(&m).len(), m.orders().len()), (2, 4), "ended ones are replaced");
    submit(&mut m, 3, &TestJob::new().ntasks(4).run_for(10.0));
    m.advance(5.0);
    assert_eq!(outside(&m).len(), 3);
    m.advance(90.0);
    assert_eq!(outside(&m).len(), 2);
}

#[test]
fn an_idle_one_is_given_back() {
    let mut m = start(json!([table("small", json!({}))]));
    let jobs = submit(&mut m, 2, &TestJob::new().ntasks(4));
    m.advance(2.0);
    start_all(&mut m);
    m.finish(jobs[0], 0);
    m.advance(65.0);
    assert_eq!(outside(&m).len(), 1);
    m.assert_state(jobs[1], State::Run);
}

#[test]
fn one_on_order_that_no_job_needs_is_cancelled_after_the_idle_time() {
    let mut m = start(json!([table("small", json!({}))]));
    let jobs = submit(&mut m, 2, &TestJob::new().ntasks(4));
    m.advance(2.0);
    // However long it has been on order.
    m.advance(300.0);
    m.cancel(jobs[0]).unwrap();
    m.advance(30.0);
    assert_eq!(outside(&m).len(), 2);
    // A job that comes meanwhile takes it.
    let other = submit(&mut m, 1, &TestJob::new().ntasks(4))[0];
    m.advance(50.0);
    assert_eq!((outside(&m).len(), m.orders().len()), (2, 2));
    m.cancel(other).unwrap();
    m.advance(130.0);
    assert_eq!(m.outer_jobs().keys().collect::<Vec<_>>(), [&AllocationId(NonZeroU64::MIN)]);
}

#[test]
fn a_job_of_several_nodes_gets_as_many_allocations_as_it_needs() {
    let mut m = start(json!([table("pairs", json!({"nodes": 2}))]));
    let job = submit(&mut m, 1, &TestJob::new().nodes(5).ntasks(5).exclusive())[0];
    m.advance(2.0);
    assert_eq!(outside(&m).len(), 3);
    start_all(&mut m);
    m.assert_state(job, State::Run);
}

#[test]
fn a_plugin_of_the_site_has_the_last_word() {
    /// Asks for one allocation of `night`, and leaves the rest to the default.
    #[derive(Default)]
    struct Night;
    #[jobtap_plugin(name = "night")]
    impl Night {
        #[on("allocation.plan")]
        fn plan(&self, demand: &Demand) -> Option<Plan> {
            demand.allocations.is_empty().then(|| Plan::new().order("night", 1))
        }
    }
    let m = TestManager::new().plugin::<PriorityDefault>().plugin::<AllocationPlan>();
    let config = json!({"allocation": [table("small", json!({})), table("night", json!({}))]});
    let mut m = m.plugin::<Night>().config(config).start();
    m.let_allocations_wait(f64::INFINITY);
    submit(&mut m, 2, &TestJob::new().ntasks(4));
    m.advance(3.0);
    assert_eq!(outside(&m), ["night", "small"]);
    assert!(m.outer_jobs().contains_key(&AllocationId(NonZeroU64::MIN)));
}
