//! A manager that is killed orders nothing twice and forgets nothing.

use super::*;

/// Restarts, and checks that nothing was asked for again.
fn restart(m: &mut TestManager) {
    let (orders, states_before) = (m.orders().len(), states(m));
    m.crash_and_restart();
    m.advance(10.0);
    assert_eq!(m.orders().len(), orders, "an order was repeated");
    assert_eq!(m.outer_jobs().len(), states(m).len());
    assert_eq!(states(m), states_before);
}

#[test]
fn each_state_survives_a_restart() {
    let mut m = start(json!([small()]));
    m.hold_orders();
    let first = m.submit(job()).unwrap();
    m.advance(1.0);
    assert_eq!(states(&m), ["asked"]);
    // The outer job manager has it, and says so when it is asked for it again.
    m.crash_and_restart();
    assert_eq!((states(&m), m.orders().len()), (vec!["waiting".to_owned()], 1));
    m.answer_orders();
    restart(&mut m);
    m.start_allocation(id(1));
    assert_eq!(states(&m), ["running"]);
    m.assert_state(first, State::Run);
    restart(&mut m);
    m.assert_state(first, State::Run);
    assert_eq!(m.resource_status()["online"], "0-1");
    m.release_allocation(id(1)).unwrap();
    assert_eq!(states(&m), ["draining"]);
    restart(&mut m);
    m.finish(first, 0);
    m.advance(2.0);
    assert!(m.outer_jobs().is_empty());
    assert_eq!(states(&m), [""; 0]);
}

#[test]
fn an_order_that_was_never_made_is_made_after_the_restart() {
    let mut m = start(json!([small()]));
    m.submit(job()).unwrap();
    // The commit of the order, and not the order.
    m.crash_in(1);
    m.advance(1.0);
    assert!(m.is_dead());
    assert_eq!(m.orders().len(), 0);
    m.crash_and_restart();
    assert_eq!((m.orders().len(), states(&m)), (1, vec!["waiting".to_owned()]));
}

#[test]
fn an_allocation_that_ended_meanwhile_has_ended() {
    let mut m = start(json!([small()]));
    m.let_allocations_wait(0.0);
    let job = m.submit(job()).unwrap();
    m.advance(1.0);
    m.crash_in(0);
    m.advance(4000.0);
    assert!(m.outer_jobs().is_empty());
    m.crash_and_restart();
    m.assert_exception(job, "node-failure", "; submitted again");
    m.advance(2.0);
    assert_eq!(m.outer_jobs().len(), 1);
}

#[test]
fn jobs_are_submitted_again_even_if_the_manager_dies_meanwhile() {
    for steps in 0..12 {
        let mut m = start(json!([small()]));
        m.let_allocations_wait(0.0);
        let job = m.submit(job()).unwrap();
        m.advance(1.0);
        m.crash_in(steps);
        m.end_allocation(id(1), "preempted");
        m.crash_and_restart();
        m.advance(3.0);
        m.assert_exception(job, "node-failure", "; submitted again");
        assert_eq!(m.jobs().len(), 2, "crash after {steps} steps");
        let again = m.jobs().into_iter().find(|id| *id != job).unwrap();
        m.assert_state(again, State::Run);
    }
}

#[test]
fn a_host_that_was_in_two_allocations_stays_online_for_the_one_that_runs() {
    use jobtap_core::engine::AllocationEvent;
    let mut m = start(json!([small()]));
    let jobs = [m.submit(job()).unwrap(), m.submit(job()).unwrap()];
    m.advance(1.0);
    for (number, rank) in [(1, 1), (2, 2)] {
        let (id, host) = (id(number), "n7".to_owned());
        m.report_allocation(AllocationEvent::Joined { id, rank, host });
    }
    m.cancel(jobs[0]).unwrap();
    m.report_allocation(AllocationEvent::Ended { id: id(1), reason: "preempted".to_owned() });
    assert_eq!(m.resource_status()["online"], "0,2");
    m.crash_and_restart();
    assert_eq!(m.resource_status()["online"], "0,2");
    m.assert_state(jobs[1], State::Run);
}

#[test]
fn refusals_and_core_hours_survive_a_restart() {
    let mut m = start(json!([small_with(json!({"core-hours-per-day": 5}))]));
    m.refuse_orders(Some("no"));
    m.submit(job()).unwrap();
    m.advance(40.0);
    let before = (shown(&m, "refusals"), shown(&m, "t_next"), shown(&m, "requests"));
    assert!(before.0.as_u64().unwrap() >= 5);
    m.crash_and_restart();
    assert_eq!((shown(&m, "refusals"), shown(&m, "t_next"), shown(&m, "requests")), before);
    m.refuse_orders(None);
    m.let_allocations_wait(0.0);
    m.advance(60.0);
    let granted = shown(&m, "core_hours");
    m.crash_and_restart();
    assert_eq!(shown(&m, "core_hours"), granted);
}

#[test]
fn a_manager_does_not_start_without_a_place_for_an_allocation() {
    let mut m = start(json!([small()]));
    m.submit(job()).unwrap();
    m.advance(1.0);
    // The kit restarts with the configuration that was accepted last, so a refused one changes nothing.
    let smaller = json!({"allocation": [small_with(json!({"nodes": 2}))]});
    let refusal = m.configure(smaller).unwrap_err().to_string();
    assert!(refusal.contains("allocation 1 of small has the ranks 1"), "{refusal}");
    m.crash_and_restart();
    assert_eq!(states(&m), ["waiting"]);
}
