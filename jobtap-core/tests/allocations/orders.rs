//! What is asked for, and for whom: a pending job brings an allocation, whose nodes run it.

use super::*;

#[test]
fn a_pending_job_brings_an_allocation_within_a_second() {
    let mut m = start(json!([small()]));
    let job = m.submit(job()).unwrap();
    m.assert_state(job, State::Sched);
    m.advance(1.0);
    assert_eq!(m.orders().len(), 1);
    assert_eq!(m.outer_jobs()[&id(1)].time_limit, Some(3600.0));
    m.start_allocation(id(1));
    m.assert_state(job, State::Run);
    let resources = m.job(job).resources().unwrap().clone();
    assert_eq!(
        (resources.ranks().to_string(), resources.nodelist().to_string()),
        ("1".into(), "n0".into())
    );
}

#[test]
fn jobs_that_come_while_one_is_planned_for_are_planned_for_a_second_later() {
    let mut m = start(json!([small()]));
    m.submit(job()).unwrap();
    m.advance(0.5);
    assert_eq!(m.orders().len(), 1);
    m.submit(job()).unwrap();
    m.advance(0.5);
    assert_eq!(m.orders().len(), 1);
    m.advance(0.7);
    assert_eq!(m.orders().len(), 2);
}

#[test]
fn what_is_on_order_counts() {
    let mut m = start(json!([small()]));
    for _ in 0..4 {
        m.submit(TestJob::new()).unwrap();
    }
    m.advance(600.0);
    assert_eq!(m.orders().len(), 1, "four jobs of a core fit on one node");
}

#[test]
fn no_allocation_is_asked_for_a_job_that_could_not_run_there() {
    let mut m = start(json!([small()]));
    let refused = m.submit(TestJob::new().ntasks(5).nodes(1)).unwrap();
    m.assert_exception(refused, "alloc", "unsatisfiable request");
    let long = m.submit(job().duration(3600.0)).unwrap();
    let held = m.submit(job().urgency(0)).unwrap();
    m.advance(600.0);
    assert_eq!(m.orders().len(), 0);
    assert!(
        m.why(long)[0].contains("no allocation lasts as long as its time limit"),
        "{:?}",
        m.why(long)
    );
    m.urgency(held, 16).unwrap();
    m.advance(1.1);
    assert_eq!(m.orders().len(), 1);
}

#[test]
fn the_managers_own_host_takes_no_jobs() {
    let mut m = start(json!([small()]));
    m.submit(TestJob::new()).unwrap();
    assert_eq!(m.resource_status()["exclude"], "0");
    assert_eq!(m.resource_status()["offline"], "1-3");
    assert_eq!(m.resource_status()["online"], "0");
    let config = json!({"allocation": [small()], "resource": {"exclude": ""}});
    let mut m = TestManager::new().plugin::<Asks>().config(config).start();
    let job = m.submit(TestJob::new()).unwrap();
    m.assert_state(job, State::Run);
}

#[test]
fn a_constraint_chooses_the_table() {
    let large = json!({"name": "large", "engine": "flux", "cores": 4, "properties": ["fat"]});
    let mut m = start(json!([small(), large]));
    let wants = TestJob::new().attribute("constraints", json!({"properties": ["fat"]}));
    m.submit(wants).unwrap();
    m.advance(1.0);
    assert_eq!(m.outer_jobs()[&id(1)].table, "large");
}

#[test]
fn a_job_that_is_larger_than_an_allocation_gets_several() {
    let mut m = start(json!([small()]));
    let job = m.submit(TestJob::new().nodes(2).ntasks(2).exclusive()).unwrap();
    m.advance(1.0);
    assert_eq!(m.orders().len(), 2);
    m.start_allocation(id(1));
    m.assert_state(job, State::Sched);
    m.start_allocation(id(2));
    m.assert_state(job, State::Run);
    assert_eq!(m.job(job).resources().unwrap().nodelist().to_string(), "n[0-1]");
}

#[test]
fn nodes_have_their_own_names_while_they_are_there() {
    let mut m = start(json!([small()]));
    let nodes = |m: &TestManager| m.resource_status()["R"]["execution"]["nodelist"][0].clone();
    assert_eq!(nodes(&m), "testhost,small-[0-2]");
    let job = m.submit(job()).unwrap();
    m.advance(1.0);
    m.start_allocation(id(1));
    assert_eq!(nodes(&m), "testhost,n0,small-[1-2]");
    assert_eq!(m.resource_status()["offline"], "2-3");
    m.finish(job, 0);
    m.advance(70.0);
    assert_eq!(nodes(&m), "testhost,small-[0-2]");
    assert_eq!(m.resource_status()["offline"], "1-3");
}

#[test]
fn a_job_says_what_it_waits_for() {
    let mut m = start(json!([small()]));
    m.hold_orders();
    let job = m.submit(job()).unwrap();
    assert_eq!(m.why(job)[0], "it needs an allocation of small");
    assert_eq!(m.waits_for(job), Some("allocation"));
    m.advance(1.0);
    assert_eq!(m.why(job)[0], "it needs an allocation of small: 1 is being asked for");
    m.answer_orders();
    assert_eq!(m.why(job)[0], "it needs an allocation of small: 1 on order (Priority)");
}
