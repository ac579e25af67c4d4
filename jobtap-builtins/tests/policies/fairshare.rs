//! `fairshare` in virtual time: users with less usage go first, the factors are shown, and usage agrees with
//! the jobs after crashes, removals and reloads.

use jobtap_builtins::{DependencyAfter, Fairshare, Limits, PriorityDefault};
use jobtap_core::prelude::*;
use jobtap_core::testing::{ManagerStartError, TestJob, TestManager};
use serde_json::{Value, json};

fn try_manager(fairshare: Value) -> Result<TestManager, ManagerStartError> {
    let config = json!({
        "job-manager": {"plugins": [{"load": "fairshare"}]},
        "plugins": {"fairshare": fairshare},
    });
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<DependencyAfter>();
    builder.plugin::<Fairshare>().plugin::<Limits>().cores(8).config(config).try_start()
}

fn manager(fairshare: Value) -> TestManager {
    try_manager(fairshare).unwrap()
}

/// A configuration in which only usage counts.
fn plain() -> Value {
    json!({"weights": {"age": 0, "queue": 0, "qos": 0}, "half-life": "1h"})
}

fn banks() -> Value {
    json!({
        "half-life": "1h",
        "default-bank": "chem",
        "weights": {"age": 0},
        "banks": {
            "science": {"shares": 70},
            "chem": {"parent": "science", "shares": 2, "users": {"7": 3}, "everyone": 1},
            "physics": {"parent": "science", "shares": 1, "users": {"8": 1}},
            "ops": {"shares": 30, "users": {"9": 1}},
        },
    })
}

fn run(m: &mut TestManager, job: TestJob, seconds: f64) {
    let id = m.submit(job).unwrap();
    m.advance(seconds);
    m.finish(id, 0);
    m.assert_state(id, State::Inactive);
    // Priorities are computed again.
    m.advance(300.0);
}

fn waiting(m: &mut TestManager, job: TestJob) -> JobId {
    let id = m.submit(job).unwrap();
    m.assert_state(id, State::Sched);
    id
}

fn why(m: &mut TestManager, id: JobId) -> Value {
    m.call_service("fairshare.why", json!(id)).unwrap()
}

fn usage(m: &mut TestManager) -> f64 {
    m.query_plugin("fairshare").unwrap()["tree"]["usage"].as_f64().unwrap()
}

fn priority(m: &TestManager, id: JobId) -> u32 {
    m.job(id).priority().unwrap()
}

#[test]
fn the_user_with_less_usage_goes_first() {
    let mut m = manager(plain());
    run(&mut m, TestJob::new().user(7), 1000.0);
    m.hold_scheduling().unwrap();
    let much = waiting(&mut m, TestJob::new().user(7));
    let none = waiting(&mut m, TestJob::new().user(8));
    assert!(priority(&m, none) > priority(&m, much));
    // Most of the usage has decayed, but it is still all the usage that there is.
    m.advance(20.0 * 3600.0);
    assert!(priority(&m, none) > priority(&m, much));
    assert!(usage(&mut m) < 0.01);
}

#[test]
fn running_jobs_count_as_usage() {
    let mut m = manager(plain());
    let runs = m.submit(TestJob::new().ntasks(4).user(7)).unwrap();
    m.assert_state(runs, State::Run);
    m.hold_scheduling().unwrap();
    let same = waiting(&mut m, TestJob::new().user(7));
    let other = waiting(&mut m, TestJob::new().user(8));
    assert_eq!(priority(&m, same), priority(&m, other));
    // Running jobs count at the next computation.
    m.advance(301.0);
    assert!(priority(&m, same) < priority(&m, other));
    let used = usage(&mut m);
    assert!((used - 4.0 * 300.0).abs() < 40.0, "{used}");
    // The usage of a job doesn't change when it becomes inactive.
    m.advance(3300.0);
    let running = usage(&mut m);
    m.finish(runs, 0);
    m.advance(0.0);
    assert!((usage(&mut m) - running).abs() < 1e-3 * running);
}

#[test]
fn usage_halves_after_each_half_life() {
    let mut m = manager(plain());
    run(&mut m, TestJob::new(), 100.0);
    m.advance(300.0);
    let before = usage(&mut m);
    m.advance(3600.0);
    let after = usage(&mut m);
    assert!((after / before - 0.5).abs() < 1e-6, "{before} {after}");
}

#[test]
fn a_job_gets_a_bank_and_a_foreign_bank_is_refused() {
    let mut m = manager(banks());
    m.hold_scheduling().unwrap();
    let bank = |m: &TestManager, id| m.job(id).jobspec().attribute("bank").cloned();
    let given = waiting(&mut m, TestJob::new().user(7));
    assert_eq!(bank(&m, given), Some(json!("chem")));
    let asked = waiting(&mut m, TestJob::new().user(8).attribute("bank", "physics"));
    assert_eq!(bank(&m, asked), Some(json!("physics")));
    let refused = |m: &mut TestManager, user, bank: &str| {
        m.submit(TestJob::new().user(user).attribute("bank", bank)).unwrap_err()
    };
    assert_eq!(
        refused(&mut m, 7, "physics"),
        r#"bank: user 7 may not use "physics": there are chem"#
    );
    assert!(refused(&mut m, 8, "nobody").text().ends_with("there are chem, physics"));
    let mut m = manager(json!({"banks": {"ops": {"users": {"9": 1}}}}));
    assert_eq!(
        m.submit(TestJob::new().user(7)).unwrap_err(),
        "bank: user 7 has no shares in any: ask for an account"
    );
    assert_eq!(refused(&mut m, 7, "ops"), r#"bank: user 7 may not use "ops", nor any other one"#);
}

#[test]
fn without_configured_banks_all_users_share_one() {
    let mut m = manager(plain());
    m.hold_scheduling().unwrap();
    let id = waiting(&mut m, TestJob::new().user(7));
    assert_eq!(m.job(id).jobspec().attribute("bank"), None);
    assert_eq!(why(&mut m, id)["bank"], "default");
}

#[test]
fn limits_count_by_the_assigned_bank() {
    let config = json!({
        "job-manager": {"plugins": [{"load": "fairshare"}, {"load": "limits"}]},
        "plugins": {"fairshare": banks(), "limits": {"banks": {"chem": {"pending": 0}}}},
    });
    let builder = TestManager::new().plugin::<Fairshare>().plugin::<Limits>();
    let mut m = builder.config(config).start();
    let refusal = m.submit(TestJob::new().user(7)).unwrap_err().text();
    assert!(refusal.starts_with("bank chem has 0 pending jobs"), "{refusal}");
}

#[test]
fn the_bank_of_a_pending_job_can_be_changed() {
    let mut m = manager(banks());
    run(&mut m, TestJob::new().user(9).attribute("bank", "chem"), 100.0);
    m.hold_scheduling().unwrap();
    let id = waiting(&mut m, TestJob::new().user(9));
    let before = priority(&m, id);
    m.update_as(9, id, "attributes.system.bank", "ops").unwrap();
    assert!(priority(&m, id) > before);
    assert_eq!(why(&mut m, id)["bank"], "ops");
    let refusal = m.update_as(9, id, "attributes.system.bank", "physics").unwrap_err().text();
    assert!(refusal.contains(r#"user 9 may not use "physics""#), "{refusal}");
    let refusal = m.update_as(9, id, "attributes.system.bank", 3).unwrap_err().text();
    assert!(refusal.contains("bank must be a text"), "{refusal}");
    m.scheduling(true).unwrap();
    m.assert_state(id, State::Run);
    let refusal = m.update_as(9, id, "attributes.system.bank", "chem").unwrap_err().text();
    assert!(refusal.contains("the job has its resources already"), "{refusal}");
}

#[test]
fn the_factors_are_reported_and_sum_to_the_priority() {
    let mut m = manager(json!({
        "weights": {"fairshare": 1000, "age": 100, "size": 10, "queue": 500, "qos": 200, "urgency": 7},
        "max-age": "10h",
        "size": {"full": 4, "favor": "small"},
        "queues": {"debug": 1.0},
        "qos": {"normal": 0.5, "urgent": 1.0},
    }));
    m.hold_scheduling().unwrap();
    let job = TestJob::new().attribute("qos", "urgent").urgency(18);
    let id = waiting(&mut m, job);
    assert_eq!(priority(&m, id), 1000 + 7 + 200 + 14);
    m.advance(18_001.0);
    let told = why(&mut m, id);
    assert_eq!(told["factors"]["size"], 0.75);
    assert_eq!(told["points"]["urgency"], 14.0);
    assert_eq!(told["user"]["factor"], 1.0);
    assert_eq!(priority(&m, id), 1000 + 50 + 7 + 200 + 14);
    let row = &m.query_plugin("fairshare").unwrap()["jobs"][id.to_string()];
    assert_eq!(*row, told);
    m.update(id, "attributes.system.qos", "normal").unwrap();
    assert_eq!(priority(&m, id), 1000 + 50 + 7 + 100 + 14);
    assert_eq!(why(&mut m, id)["points"]["qos"], 100.0);
    let refusal = m.submit(TestJob::new().attribute("qos", "best")).unwrap_err();
    assert_eq!(refusal, r#"qos: "best" is unknown: there are normal, urgent"#);
}

#[test]
fn only_hold_and_expedite_give_extreme_priorities() {
    let mut m = manager(json!({"weights": {"fairshare": 1e20}}));
    m.hold_scheduling().unwrap();
    for (urgency, is) in [(0, 0), (31, u32::MAX), (16, u32::MAX - 1)] {
        let id = waiting(&mut m, TestJob::new().urgency(urgency));
        m.assert_priority(id, is);
    }
    let mut m = manager(json!({"weights": {"fairshare": -1e20}}));
    m.hold_scheduling().unwrap();
    let id = waiting(&mut m, TestJob::new());
    m.assert_priority(id, 1);
}

#[test]
fn users_see_their_own_usage() {
    let mut m = manager(banks());
    m.hold_scheduling().unwrap();
    let id = waiting(&mut m, TestJob::new().user(7));
    assert!(m.call_service_as(7, "fairshare.why", json!(id)).is_ok());
    let refusal = m.call_service_as(8, "fairshare.why", json!(id)).unwrap_err().text();
    assert!(refusal.contains("guests can only access their own jobs"), "{refusal}");
    let mine = m.call_service_as(7, "fairshare.mine", json!({})).unwrap();
    assert_eq!(mine["chem"]["shares"], 3.0);
    assert!(mine.get("physics").is_none());
}

#[test]
fn impossible_settings_are_refused_at_start() {
    for (conf, says) in [
        (json!({"recalc": 0}), "recalc must be above 0 and not infinite"),
        (json!({"max-age": "infinity"}), "max-age must be above 0 and not infinite"),
        (json!({"size": {"full": 0}}), "size.full must be above 0"),
        (json!({"default-bank": "x"}), r#"default-bank: there is no bank "x""#),
        (json!({"queues": {"debug": 2.0}}), "queues.debug: 2 is not between 0 and 1"),
        (json!({"banks": {"root": {}}}), "banks.root: this name is the whole tree's"),
        (json!({"banks": {"a": {"shares": -1.0}}}), "banks.a: shares are numbers from 0"),
        (json!({"banks": {"a": {"parent": "b"}}}), r#"banks.a.parent: there is no bank "b""#),
        (
            json!({"banks": {"a": {"parent": "b"}, "b": {"parent": "a"}}}),
            "banks.a.parent: it leads back to the bank itself",
        ),
        (json!({"half-live": "1d"}), r#"did you mean "half-life"?"#),
    ] {
        let text = try_manager(conf).err().unwrap();
        assert!(
            text.text().contains("[plugins.fairshare]: ") && text.text().contains(says),
            "{text}"
        );
    }
}

#[test]
fn a_job_of_a_removed_bank_is_scheduled_last() {
    let mut m = manager(banks());
    m.hold_scheduling().unwrap();
    let id = waiting(&mut m, TestJob::new().user(9).attribute("bank", "ops"));
    m.reload_plugin(
        "fairshare",
        json!({"default-bank": "chem", "banks": {"chem": {"everyone": 1.0}}}),
    )
    .unwrap();
    assert_eq!(why(&mut m, id)["factors"]["fairshare"], 0.0);
    m.scheduling(true).unwrap();
    m.assert_state(id, State::Run);
}

#[test]
fn removing_and_loading_it_again_keeps_jobs_and_usage() {
    let mut m = manager(plain());
    run(&mut m, TestJob::new().user(7), 1000.0);
    let used = usage(&mut m);
    let runs = m.submit(TestJob::new().user(7)).unwrap();
    m.hold_scheduling().unwrap();
    let id = waiting(&mut m, TestJob::new().user(7));
    m.remove_plugin("fairshare").unwrap();
    m.advance(100.0);
    m.load_plugin("fairshare", json!({})).unwrap();
    assert!(usage(&mut m) > used);
    assert!(priority(&m, id) < 100_000);
    m.finish(runs, 0);
    m.scheduling(true).unwrap();
    m.assert_state(id, State::Run);
}

/// Runs two jobs one after the other; the second is canceled while it runs.
fn story(m: &mut TestManager, ids: &mut Vec<JobId>) {
    let job = || TestJob::new().user(7).ntasks(2);
    if ids.is_empty() {
        ids.extend(m.submit(job()));
    }
    m.advance(100.0);
    for id in m.jobs() {
        if !m.is_dead() && m.job(id).state() == State::Run {
            m.finish(id, 0);
        }
    }
    if ids.len() == 1 {
        ids.extend(m.submit(job()));
    }
    m.advance(50.0);
    for id in m.jobs() {
        if !m.is_dead() && m.job(id).state() != State::Inactive {
            let _ = m.cancel(id);
        }
    }
}

/// Computes the usage from the eventlogs, almost without decay.
fn recount(m: &TestManager) -> f64 {
    let used = m.jobs().into_iter().map(|id| {
        let log = m.eventlog(id);
        let at = |name: &str| log.iter().find(|entry| entry.name == name).map(|e| e.timestamp);
        let ends = at("clean").unwrap_or_else(|| m.now());
        at("alloc").map_or(0.0, |since| 2.0 * (ends - since))
    });
    used.sum()
}

#[test]
fn a_kill_at_any_moment_loses_no_usage() {
    for steps in 0.. {
        let mut m = manager(json!({"half-life": 0}));
        m.crash_in(steps);
        let mut ids = Vec::new();
        story(&mut m, &mut ids);
        let died = m.is_dead();
        m.crash_and_restart();
        if died {
            // The response to a submission may be lost, but not the job.
            ids = m.jobs();
            story(&mut m, &mut ids);
        }
        // Waits for the next computation of the tree.
        m.advance(301.0);
        let (told, is) = (usage(&mut m), recount(&m));
        assert!((told - is).abs() < 1e-3, "{steps} steps: {told}, and by the jobs {is}");
        m.crash_and_restart();
        m.advance(0.0);
        let again = usage(&mut m);
        assert!((again - is).abs() < 1e-3, "{steps} steps: {again}, and by the jobs {is}");
        if !died {
            assert!(is > 200.0);
            break;
        }
    }
}
