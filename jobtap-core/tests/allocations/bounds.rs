//! What bounds the requests: the size of a table, refusals, the requests of an hour and the core hours of a day.

use super::*;

#[test]
fn a_table_has_at_most_its_number_of_allocations() {
    let mut m = start(json!([small()]));
    let jobs: Vec<JobId> = (0..10).map(|_| m.submit(job()).unwrap()).collect();
    m.advance(100.0);
    assert_eq!(m.orders().len(), 3);
    assert!(m.why(jobs[9]).iter().any(|why| why.contains("as many as there may be")));
}

#[test]
fn a_place_that_is_drained_gets_no_allocation() {
    let mut m = start(json!([small()]));
    m.drain_nodes("1-2", "the partition is for a course today").unwrap();
    let jobs: Vec<JobId> = (0..3).map(|_| m.submit(job()).unwrap()).collect();
    m.advance(10.0);
    assert_eq!(m.orders().len(), 1);
    let why = m.why(jobs[2]).join(" ");
    assert!(why.contains("its other places are drained"), "{why}");
    m.end_allocation(id(1), "cancelled");
    m.crash_and_restart();
    assert_eq!(
        m.resource_status()["drain"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["1-2"]
    );
    m.undrain_nodes("1-2").unwrap();
    m.advance(10.0);
    assert_eq!(m.outer_jobs().len(), 3);
}

#[test]
fn a_refused_table_is_asked_again_with_a_growing_delay() {
    let mut m = start(json!([small()]));
    m.refuse_orders(Some("sbatch: error: invalid partition"));
    let job = m.submit(job()).unwrap();
    m.advance(1.0);
    assert_eq!(states(&m), [""; 0]);
    let why = &m.why(job)[0];
    assert!(
        why.contains("refused (sbatch: error: invalid partition), asked again in 1 s"),
        "{why}"
    );
    let asked = |m: &TestManager| shown(m, "requests").as_u64().unwrap();
    assert_eq!(asked(&m), 1);
    // After 1, 2, 4, 8, 16, 32 s and so on.
    m.advance(130.0);
    assert!((7..=8).contains(&asked(&m)), "{}", asked(&m));
    m.advance(7200.0);
    assert!(asked(&m) <= 7, "every ten minutes: {}", asked(&m));
    m.refuse_orders(None);
    m.advance(600.0);
    assert_eq!(m.outer_jobs().len(), 1);
    m.start_allocation(*m.outer_jobs().first_key_value().unwrap().0);
    m.assert_state(job, State::Run);
    assert_eq!(shown(&m, "refusals"), 0);
}

#[test]
fn an_allocation_that_brings_no_node_counts_as_a_refusal() {
    let mut m = start(json!([small()]));
    m.submit(job()).unwrap();
    m.advance(1.0);
    m.end_allocation(id(1), "cancelled by root");
    assert_eq!(
        (shown(&m, "refusals"), shown(&m, "refusal")),
        (json!(1), json!("cancelled by root"))
    );
    m.advance(2.5);
    assert_eq!(m.orders().len(), 2);
}

#[test]
fn there_is_no_storm_of_requests() {
    let mut m = start(json!([small_with(json!({"requests-per-hour": 5, "max": 100}))]));
    let jobs: Vec<JobId> = (0..100).map(|_| m.submit(job()).unwrap()).collect();
    m.advance(1800.0);
    assert_eq!(m.orders().len(), 5);
    let why = m.why(jobs[50]).join(" ");
    assert!(why.contains("5 requests were made in an hour, asked again in"), "{why}");
    m.advance(1801.0);
    assert_eq!(m.orders().len(), 10);
}

#[test]
fn core_hours_of_a_day_are_not_exceeded() {
    // An allocation has four core hours.
    let mut m = start(json!([small_with(json!({"core-hours-per-day": 10}))]));
    m.let_allocations_wait(0.0);
    let jobs: Vec<JobId> = (0..3).map(|_| m.submit(job().run_for(1700.0)).unwrap()).collect();
    m.advance(2.0);
    assert_eq!((m.orders().len(), shown(&m, "core_hours")), (2, json!(8.0)));
    assert!(m.why(jobs[2]).join(" ").contains("8 of 10 core hours of a day are used or granted"));
    // The third job runs after one of the others. A minute after its last job each allocation is given back.
    m.advance(2.0 * 3600.0);
    assert_eq!(m.outer_jobs().len(), 0);
    let used = shown(&m, "core_hours").as_f64().unwrap();
    assert!((5.5..6.0).contains(&used), "{used}");
    // A day later none of it counts.
    m.advance(86_400.0);
    m.submit(job().urgency(0)).unwrap();
    assert_eq!(shown(&m, "core_hours"), 0.0);
}

#[test]
fn a_plan_is_carried_out_within_the_bounds() {
    /// Asks for far too much.
    #[derive(Default)]
    struct Greedy;
    #[jobtap_plugin(name = "greedy")]
    impl Greedy {
        #[on("allocation.plan")]
        fn plan(&self) -> Plan {
            Plan::new()
                .order("small", u32::MAX)
                .order("none", 1)
                .order_for("small", 1, 1e9)
                .release(id(99))
        }
    }
    let config = json!({"allocation": [small_with(json!({"min": 1}))]});
    let mut m = TestManager::new().plugin::<Greedy>().config(config).start();
    m.advance(100.0);
    assert_eq!(m.orders().len(), 3);
    assert!(m.outer_jobs().values().all(|job| job.time_limit == Some(3600.0)));
    m.assert_logged("allocation.plan: there is no table \"none\"");
}

#[test]
fn a_plan_may_ask_for_less_time() {
    #[derive(Default)]
    struct Short;
    #[jobtap_plugin(name = "short")]
    impl Short {
        #[on("allocation.plan")]
        fn plan(&self, demand: &Demand) -> Option<Plan> {
            demand.allocations.is_empty().then(|| Plan::new().order_for("small", 1, 600.0))
        }
    }
    let config = json!({"allocation": [small_with(json!({"min": 1}))]});
    let mut m = TestManager::new().plugin::<Short>().config(config).start();
    m.advance(1.0);
    assert_eq!(m.outer_jobs()[&id(1)].time_limit, Some(600.0));
}

#[test]
fn a_plugin_that_panics_stops_planning_and_no_job() {
    #[derive(Default)]
    struct Panics;
    #[jobtap_plugin(name = "panics")]
    impl Panics {
        #[on("allocation.plan")]
        fn plan(&self) -> Plan {
            panic!("no plan")
        }
    }
    let config = json!({"allocation": [small()]});
    let mut m = TestManager::new().plugin::<Asks>().plugin::<Panics>().config(config).start();
    let job = m.submit(job()).unwrap();
    m.advance(1.0);
    m.assert_logged("panics: allocation.plan: panicked: no plan");
    m.assert_state(job, State::Run);
}
