//! The policies of `jobtap-builtins`, loaded together, never wait for each other, so no job waits forever.

use jobtap_builtins::{DependencyAfter, Fairshare, Licenses, Limits, PriorityDefault};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

/// Starts a manager that allows two running jobs of each user and has one token.
fn manager(order: [&str; 3]) -> TestManager {
    let config = json!({
        "job-manager": {"plugins": order.map(|name| json!({"load": name}))},
        "plugins": {"limits": {"user": {"running": 2}}, "licenses": {"matlab": 1}},
    });
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<DependencyAfter>();
    let builder = builder.plugin::<Fairshare>().plugin::<Limits>().plugin::<Licenses>();
    builder.cores(8).config(config).start()
}

const ORDERS: [[&str; 3]; 2] =
    [["fairshare", "limits", "licenses"], ["licenses", "limits", "fairshare"]];

fn with_token() -> TestJob {
    TestJob::new().dependency("license:matlab")
}

/// Finishes running jobs until none is left.
fn run_out(m: &mut TestManager) {
    for id in m.jobs().repeat(4) {
        if !m.is_dead() && m.job(id).state() == State::Run {
            m.finish(id, 0);
        }
    }
}

fn states(m: &TestManager, ids: &[JobId]) -> Vec<State> {
    ids.iter().map(|id| m.job(*id).state()).collect()
}

#[test]
fn a_job_with_two_dependencies_gets_both() {
    use State::{Depend, Inactive, Run};
    for order in ORDERS {
        let mut m = manager(order);
        let ids = [with_token(), with_token(), TestJob::new(), TestJob::new()];
        let ids = ids.map(|job| m.submit(job).unwrap());
        // The second job counts among the user's two running ones, and waits for the token.
        assert_eq!(states(&m, &ids), [Run, Depend, Depend, Depend], "{order:?}");
        assert_eq!(m.why(ids[1]), ["dependency license=matlab holds it, by plugin licenses"]);
        m.finish(ids[0], 0);
        assert_eq!(states(&m, &ids), [Inactive, Run, Run, Depend], "{order:?}");
        run_out(&mut m);
        assert_eq!(states(&m, &ids), [Inactive; 4], "{order:?}");
    }
}

#[test]
fn limits_and_licenses_never_wait_for_each_other() {
    type Disturbance = fn(&mut TestManager, JobId);
    let disturbances: [Disturbance; 4] = [
        |m, _| m.crash_and_restart(),
        |m, id| m.urgency(id, 17).unwrap(),
        |m, _| m.reload_plugin("licenses", json!({})).unwrap(),
        |m, _| m.reload_plugin("limits", json!({})).unwrap(),
    ];
    for order in ORDERS {
        for (index, disturb) in disturbances.iter().enumerate() {
            let mut m = manager(order);
            let ids = [with_token(), with_token(), TestJob::new(), TestJob::new()];
            let ids = ids.map(|job| m.submit(job).unwrap());
            disturb(&mut m, ids[1]);
            run_out(&mut m);
            assert_eq!(states(&m, &ids), [State::Inactive; 4], "{order:?}, {index}");
        }
    }
}

#[test]
fn a_kill_at_any_moment_leaves_no_job_or_token_behind() {
    for steps in 0.. {
        let mut m = manager(ORDERS[steps as usize % 2]);
        m.crash_in(steps);
        for job in [with_token(), with_token().user(7), with_token(), TestJob::new()] {
            // The submission fails when the manager has crashed.
            let _ = m.submit(job);
        }
        run_out(&mut m);
        let died = m.is_dead();
        m.crash_and_restart();
        run_out(&mut m);
        assert!(m.jobs().iter().all(|id| m.job(*id).state() == State::Inactive), "{steps} steps");
        assert_eq!(m.query_plugin("licenses").unwrap()["licenses"]["matlab"]["out"], 0);
        let scopes = m.query_plugin("limits").unwrap()["scopes"].clone();
        for (scope, row) in scopes.as_object().unwrap() {
            assert_eq!((&row["running"], &row["pending"]), (&json!(0), &json!(0)), "{scope}");
        }
        if !died {
            assert_eq!(m.jobs().len(), 4);
            break;
        }
    }
}
