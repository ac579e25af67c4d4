//! A job whose nodes are unavailable holds up no other job, says what it waits for, and goes first when they return.

use jobtap_core::engine::NodeRequest;
use jobtap_core::prelude::*;
use jobtap_core::resource::Children;
use jobtap_core::testing::{TestJob, TestManager, TestManagerBuilder};
use serde_json::{Value, json};

use crate::common::ByUrgency;

const BACKFILL: [&str; 2] = ["easy", "conservative"];

/// Four nodes of two cores; the last one has a gpu.
fn nodes() -> ResourceSet {
    let plain = Children::new(Idset::from(0..=1), Idset::new());
    let mut all = ResourceSet::uniform(0, &"n[0-2]".parse().unwrap(), plain);
    let gpu = Children::new(Idset::from(0..=1), Idset::from(0));
    all.union_with(&ResourceSet::uniform(3, &"n3".parse().unwrap(), gpu));
    all.set_property("tape", &Idset::from(3)).unwrap();
    all
}

fn cluster(policy: &str) -> TestManagerBuilder {
    let config = json!({"policy": {"scheduler": {"queue-policy": policy}}});
    TestManager::new().plugin::<ByUrgency>().resources(nodes()).config(config)
}

fn node(constraint: Value) -> TestJob {
    TestJob::new().nodes(1).attribute("constraints", constraint)
}

fn hosts(m: &TestManager, id: JobId) -> String {
    m.job(id).resources().map(|r| r.nodelist().to_string()).unwrap_or_default()
}

/// Jobs that can't run without node 3.
fn that_need_the_last_node() -> [(&'static str, TestJob); 6] {
    [
        ("rank", node(json!({"ranks": ["3"]}))),
        ("host", node(json!({"hostlist": ["n3"]}))),
        ("property", node(json!({"properties": ["tape"]}))),
        ("gpu", TestJob::new().gpus_per_task(1)),
        ("all nodes", TestJob::new().nodes(4).ntasks(4)),
        ("all nodes alone", TestJob::new().nodes(4).ntasks(4).exclusive().duration(60.0)),
    ]
}

#[test]
fn jobs_pass_one_whose_node_is_not_there() {
    for policy in BACKFILL {
        for (what, asked) in that_need_the_last_node() {
            let mut m = cluster(policy).start();
            m.drain_nodes("3", "bad DIMM").unwrap();
            let waits = m.submit(asked).unwrap();
            let limited = m.submit(TestJob::new().nodes(1).duration(60.0)).unwrap();
            let endless = m.submit(TestJob::new().nodes(2).ntasks(2)).unwrap();
            let place = format!("{policy}, {what}");
            assert_eq!(m.job(limited).state(), State::Run, "{place}");
            assert_eq!(m.job(endless).state(), State::Run, "{place}");
            m.assert_state(waits, State::Sched);
            assert!(
                m.why(waits)[0].ends_with("drained: n3 (bad DIMM)"),
                "{place}: {:?}",
                m.why(waits)
            );
            assert_eq!(m.why(waits).len(), 1, "{place}");
            for id in [limited, endless] {
                m.finish(id, 0);
            }
            m.undrain_nodes("3").unwrap();
            assert_eq!(m.job(waits).state(), State::Run, "{place}");
        }
    }
}

#[test]
fn strict_order_is_kept_behind_a_drained_node() {
    let mut m = cluster("strict").start();
    m.drain_nodes("3", "bad DIMM").unwrap();
    let waits = m.submit(node(json!({"ranks": ["3"]}))).unwrap();
    let small = m.submit(TestJob::new()).unwrap();
    m.assert_state(small, State::Sched);
    assert_eq!(m.why(small)[0], format!("{waits} goes first"));
    // The new scheduler considers all pending jobs.
    m.configure(json!({})).unwrap();
    m.assert_state(small, State::Run);
    m.configure(json!({"policy": {"scheduler": {"queue-policy": "strict"}}})).unwrap();
    let next = m.submit(TestJob::new()).unwrap();
    m.assert_state(next, State::Sched);
}

#[test]
fn any_number_of_jobs_without_nodes_holds_up_no_other() {
    for policy in BACKFILL {
        let mut m = cluster(policy).start();
        m.drain_nodes("3", "bad DIMM").unwrap();
        m.submit(TestJob::new().nodes(2).ntasks(4).duration(100.0)).unwrap();
        let head = m.submit(TestJob::new().nodes(3).ntasks(6).duration(60.0)).unwrap();
        for _ in 0..300 {
            m.submit(node(json!({"ranks": ["3"]})).duration(60.0)).unwrap();
        }
        let small = m.submit(TestJob::new().duration(100.0)).unwrap();
        m.assert_state(small, State::Run);
        let long = m.submit(TestJob::new().duration(200.0)).unwrap();
        assert_eq!(m.job(long).state(), State::Sched, "{policy}: it would delay the first one");
        m.assert_state(head, State::Sched);
    }
}

#[test]
fn a_job_that_was_passed_over_goes_first_when_its_node_returns() {
    for policy in BACKFILL {
        let mut m = cluster(policy).start();
        m.lose_nodes("3").unwrap();
        let waits = m.submit(node(json!({"ranks": ["3"]})).ntasks(2)).unwrap();
        let others: Vec<JobId> =
            (0..4).map(|_| m.submit(TestJob::new().nodes(1).ntasks(2)).unwrap()).collect();
        m.assert_state(others[2], State::Run);
        m.assert_state(others[3], State::Sched);
        let lost = "it waits for nodes that are drained: n3 (offline: node failure)";
        assert_eq!(m.why(waits), [lost]);
        m.crash_and_restart();
        assert_eq!(m.why(waits), [lost], "{policy}");
        m.nodes(NodeRequest::Online { targets: "3".into() }).unwrap();
        m.assert_state(waits, State::Sched);
        m.undrain_nodes("3").unwrap();
        assert_eq!(hosts(&m, waits), "n3", "{policy}");
        m.assert_state(others[3], State::Sched);
    }
}

#[test]
fn a_reservation_ends_when_its_node_comes_down() {
    for policy in BACKFILL {
        let mut m = cluster(policy).start();
        let runs = m.submit(node(json!({"ranks": ["3"]})).ntasks(2).duration(100.0)).unwrap();
        let head = m.submit(TestJob::new().nodes(4).ntasks(4).exclusive()).unwrap();
        let endless = m.submit(TestJob::new()).unwrap();
        m.assert_state(endless, State::Sched);
        m.drain_nodes("3", "fan").unwrap();
        m.assert_state(runs, State::Run);
        assert_eq!(m.job(endless).state(), State::Run, "{policy}");
        m.finish(runs, 0);
        m.finish(endless, 0);
        assert_eq!(m.why(head), ["it waits for nodes that are drained: n3 (fan)"]);
        // The reverse: the job gets its place and its reservation back.
        m.undrain_nodes("3").unwrap();
        m.assert_state(head, State::Run);
    }
}

#[test]
fn a_job_without_an_end_holds_up_none_but_those_that_need_its_node() {
    for policy in BACKFILL {
        let mut m = cluster(policy).start();
        let runs = m.submit(node(json!({"ranks": ["3"]})).ntasks(2)).unwrap();
        for constraint in [json!({"ranks": ["3"]}), json!({"properties": ["tape"]})] {
            let head = m.submit(node(constraint)).unwrap();
            let other = m.submit(TestJob::new().nodes(2).ntasks(2)).unwrap();
            assert_eq!(m.job(other).state(), State::Run, "{policy}");
            m.assert_state(head, State::Sched);
            m.finish(other, 0);
        }
        // This job may get any node, so no job passes it.
        let any = m.submit(TestJob::new().nodes(4).ntasks(4)).unwrap();
        let small = m.submit(TestJob::new().duration(1.0)).unwrap();
        m.assert_state(any, State::Sched);
        let passes = m.job(small).state() == State::Run;
        assert_eq!(passes, policy == "easy", "{policy}: only the first job has a reservation");
        m.finish(runs, 0);
    }
}

#[test]
fn a_lost_node_holds_up_none_but_those_that_need_it() {
    for policy in BACKFILL {
        let mut m = cluster(policy).start();
        m.hold_execution();
        let on_it = m.submit(node(json!({"ranks": ["3"]})).ntasks(2)).unwrap();
        let head = m.submit(node(json!({"ranks": ["3"]}))).unwrap();
        m.lose_nodes("3").unwrap();
        m.assert_exception(on_it, "node-failure", "node failure on n3 (rank 3)");
        let other = m.submit(TestJob::new().nodes(3).ntasks(3)).unwrap();
        assert_eq!(m.job(other).state(), State::Run, "{policy}");
        m.assert_state(head, State::Sched);
    }
}

#[test]
fn a_maintenance_without_an_end_holds_up_none_but_those_that_need_its_nodes() {
    for policy in BACKFILL {
        let mut m = cluster(policy).start();
        let now = m.now().as_secs();
        let (targets, reason) = ("3".to_owned(), "new rack".to_owned());
        let (from, to) = (Some(now + 100.0), None);
        let id = m.nodes(NodeRequest::AddMaintenance { targets, from, to, reason }).unwrap();
        let waits = m.submit(node(json!({"ranks": ["3"]})).duration(101.0)).unwrap();
        let fits = m.submit(node(json!({"ranks": ["3"]})).ntasks(2).duration(50.0)).unwrap();
        m.assert_state(fits, State::Run);
        // It would end before the maintenance begins, but another job has the node.
        let late = m.submit(node(json!({"ranks": ["3"]})).duration(90.0)).unwrap();
        let endless = m.submit(TestJob::new().nodes(3).ntasks(3)).unwrap();
        assert_eq!(m.job(endless).state(), State::Run, "{policy}");
        assert!(m.why(waits)[0].contains("n3 in 1 min 40 s (new rack)"), "{:?}", m.why(waits));
        m.finish(fits, 0);
        m.assert_state(late, State::Run);
        m.finish(late, 0);
        m.nodes(NodeRequest::RemoveMaintenance { id: id["id"].as_u64().unwrap() }).unwrap();
        assert_eq!(m.job(waits).state(), State::Run, "{policy}");
    }
}

/// Reserves nodes for maintenance from now on.
fn close(m: &mut TestManager, targets: &str, seconds: f64) {
    let now = m.now().as_secs();
    m.nodes(NodeRequest::AddMaintenance {
        targets: targets.to_owned(),
        from: Some(now),
        to: Some(now + seconds),
        reason: "new fans".to_owned(),
    })
    .unwrap();
}

#[test]
fn a_short_job_passes_one_that_waits_for_maintenance_and_a_job_without_an_end() {
    for policy in BACKFILL {
        let mut m = cluster(policy).start();
        m.submit(TestJob::new().nodes(2).ntasks(2)).unwrap();
        let head = m.submit(TestJob::new().nodes(3).ntasks(3).exclusive()).unwrap();
        // Even if the first job ends at once, the second one waits for the end of the maintenance.
        close(&mut m, "0-1", 100.0);
        let short = m.submit(TestJob::new().duration(100.0)).unwrap();
        let longer = m.submit(TestJob::new().duration(101.0)).unwrap();
        m.assert_state(head, State::Sched);
        assert_eq!(m.job(short).state(), State::Run, "{policy}");
        m.assert_state(longer, State::Sched);
    }
}

#[test]
fn a_short_job_passes_two_that_wait_for_maintenance_and_each_other() {
    let mut m = cluster("conservative").start();
    let first = m.submit(node(json!({"ranks": ["0"]})).ntasks(2)).unwrap();
    let second = m.submit(TestJob::new().nodes(4).ntasks(4).exclusive()).unwrap();
    // It waits for the first two jobs: neither has an end, and the second one gets all nodes.
    let third = m.submit(TestJob::new().nodes(3).ntasks(3)).unwrap();
    close(&mut m, "0-1", 100.0);
    let short = m.submit(TestJob::new().duration(100.0)).unwrap();
    let longer = m.submit(TestJob::new().duration(101.0)).unwrap();
    m.assert_state(first, State::Run);
    for id in [second, third, longer] {
        m.assert_state(id, State::Sched);
    }
    m.assert_state(short, State::Run);
}

/// A cluster whose last node is under maintenance from 100 seconds on. A job for all nodes, with a limit of 90 seconds,
/// waits for a job that should have ended by then, and doesn't end.
fn with_a_job_that_soon_comes_too_late(policy: &str, to: Option<f64>) -> (TestManager, JobId) {
    let mut m = cluster(policy).start();
    m.hold_execution();
    m.submit(node(json!({"ranks": ["0"]})).duration(5.0)).unwrap();
    let head = m.submit(TestJob::new().nodes(4).ntasks(4).exclusive().duration(90.0)).unwrap();
    let now = m.now().as_secs();
    let (targets, reason) = ("3".to_owned(), "new rack".to_owned());
    let (from, to) = (Some(now + 100.0), to.map(|seconds| now + seconds));
    m.nodes(NodeRequest::AddMaintenance { targets, from, to, reason }).unwrap();
    (m, head)
}

#[test]
fn jobs_pass_one_as_soon_as_a_maintenance_without_an_end_is_too_near() {
    for policy in BACKFILL {
        let (mut m, head) = with_a_job_that_soon_comes_too_late(policy, None);
        let endless = m.submit(node(json!({"ranks": ["1"]}))).unwrap();
        // The first job can still start if the running one ends now.
        m.advance(10.0);
        m.assert_state(endless, State::Sched);
        m.advance(0.1);
        assert_eq!(m.job(endless).state(), State::Run, "{policy}");
        assert!(m.why(head)[0].ends_with("(new rack)"), "{:?}", m.why(head));
    }
}

#[test]
fn short_jobs_pass_one_as_soon_as_it_must_wait_for_the_end_of_a_maintenance() {
    for policy in BACKFILL {
        let (mut m, head) = with_a_job_that_soon_comes_too_late(policy, Some(1000.0));
        let short = m.submit(node(json!({"ranks": ["1"]})).duration(900.0)).unwrap();
        let longer = m.submit(node(json!({"ranks": ["1"]})).duration(1000.0)).unwrap();
        m.advance(10.0);
        m.assert_state(short, State::Sched);
        m.advance(0.1);
        assert_eq!(m.job(short).state(), State::Run, "{policy}");
        for id in [head, longer] {
            m.assert_state(id, State::Sched);
        }
    }
}

#[test]
fn queues_that_share_nodes_are_not_held_up_either() {
    let config = json!({
        "queues": {"tape": {"requires": ["tape"]}, "any": {}},
        "policy": {"jobspec": {"defaults": {"system": {"queue": "any"}}}},
    });
    let mut m = cluster("easy").config(config).start();
    m.scheduling(true).unwrap();
    m.drain_nodes("3", "belt").unwrap();
    let of = |queue: &str| TestJob::new().nodes(1).ntasks(2).queue(queue);
    let tape = m.submit(of("tape").urgency(20)).unwrap();
    let all = m.submit(TestJob::new().nodes(4).ntasks(4).queue("any")).unwrap();
    let any = m.submit(of("any")).unwrap();
    m.assert_state(any, State::Run);
    for id in [tape, all] {
        assert!(m.why(id)[0].ends_with("nodes that are drained: n3 (belt)"), "{:?}", m.why(id));
    }
    m.undrain_nodes("3").unwrap();
    assert_eq!(hosts(&m, tape), "n3");
}

#[test]
fn a_listing_tells_that_nodes_are_missing_in_place_of_a_start() {
    let mut m = cluster("easy").start();
    m.drain_nodes("3", "belt").unwrap();
    m.submit(TestJob::new().nodes(3).ntasks(6).duration(50.0)).unwrap();
    let waits = m.submit(node(json!({"ranks": ["3"]}))).unwrap();
    let next = m.submit(TestJob::new().duration(10.0)).unwrap();
    let told = |m: &TestManager, id| m.listed(id)["annotations"]["sched"].clone();
    assert_eq!(told(&m, waits), json!({"reason_pending": "needs nodes that are not available"}));
    let estimate = told(&m, next)["t_estimate"].as_f64().unwrap() - m.now().as_secs();
    assert!((estimate - 50.0).abs() < 0.1, "{estimate}");
    m.undrain_nodes("3").unwrap();
    assert_eq!(m.listed(waits)["annotations"]["sched"]["reason_pending"], Value::Null);
}

#[test]
fn a_job_that_was_passed_over_can_be_changed_and_cancelled() {
    let mut m = cluster("easy").start();
    m.drain_nodes("3", "belt").unwrap();
    let held = m.submit(node(json!({"ranks": ["3"]}))).unwrap();
    let gone = m.submit(node(json!({"ranks": ["3"]}))).unwrap();
    m.cancel(gone).unwrap();
    m.assert_state(gone, State::Inactive);
    m.urgency(held, 0).unwrap();
    assert_eq!(m.why(held), ["it is held: its urgency is 0 (jobtap job urgency)"]);
    m.undrain_nodes("3").unwrap();
    m.assert_state(held, State::Sched);
    m.drain_nodes("3", "belt").unwrap();
    m.urgency(held, 20).unwrap();
    assert_eq!(m.why(held), ["it waits for nodes that are drained: n3 (belt)"]);
    m.undrain_nodes("3").unwrap();
    m.assert_state(held, State::Run);
}
