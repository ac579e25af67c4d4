//! The policies of `jobtap-builtins` see the recorded jobs of a manager again: each answers as it did then,
//! and differences under another configuration are reported.

use jobtap_core::engine::{ReplayComparison, ReplayOptions, Replayed, ReplayedAnswer};
use jobtap_core::testing::TestManager;
use serde_json::{Value, json};

use crate::workload::{Numbers, config, manager, work};

const PLUGINS: [&str; 6] = [
    ".priority-default",
    ".dependency-after",
    ".begin-time",
    ".limit-duration",
    "limits",
    "licenses",
];

fn replay(m: &TestManager, plugin: &str, config: &Value) -> Replayed {
    m.replay(plugin, config, m.recorded(), ReplayOptions::default()).unwrap()
}

fn different(report: &Replayed) -> Vec<&ReplayedAnswer> {
    report.answers.iter().filter(|row| row.comparison == ReplayComparison::Differs).collect()
}

#[test]
fn a_replay_with_the_same_policy_differs_in_nothing() {
    let limits = json!({"user": {"running": 2, "pending": 12}});
    for seed in 0..5 {
        let mut m = manager(&limits);
        work(&mut m, &mut Numbers(seed));
        for plugin in PLUGINS {
            let report = replay(&m, plugin, &config(&limits));
            assert_eq!(report.jobs, m.recorded().len() as u64);
            assert_eq!(different(&report), Vec::<&ReplayedAnswer>::new(), "{plugin}, seed {seed}");
            assert!(
                report.calls > 0 && report.left_out == 0,
                "{plugin}: {:?}",
                report.first_left_out
            );
        }
    }
}

#[test]
fn another_configuration_differs_where_it_decides_otherwise() {
    let limits = json!({"user": {"running": 2, "pending": 12}});
    let mut m = manager(&limits);
    work(&mut m, &mut Numbers(1));
    let stricter = replay(&m, "limits", &config(&json!({"user": {"running": 2, "pending": 3}})));
    let refusals = different(&stricter);
    assert!(!refusals.is_empty());
    for row in refusals {
        assert_eq!((row.kind, row.recorded.as_deref()), ("verdict", Some("accepts")));
        assert!(row.answer.as_deref().unwrap().starts_with("refuses: user "), "{row:?}");
    }
    // Without the limit it no longer holds the jobs that it held.
    let laxer = replay(&m, "limits", &config(&json!({"user": {"pending": 12}})));
    let missing = different(&laxer);
    assert!(missing.iter().any(|row| row.recorded.as_deref() == Some("adds limits")));
    assert!(missing.iter().all(|row| row.answer.is_none() && row.kind == "dependency"));
    let options = ReplayOptions { ignore_missing: true };
    let config = config(&json!({"user": {"pending": 12}}));
    let ignored = m.replay("limits", &config, m.recorded(), options).unwrap();
    assert_eq!(ignored.different, 0);
}

#[test]
fn priorities_are_compared_with_the_next_recorded_one() {
    let limits = json!({});
    let mut m = manager(&limits);
    work(&mut m, &mut Numbers(2));
    let mut other = config(&limits);
    other["plugins"]["fairshare"]["half-life"] = json!("30d");
    let report = replay(&m, "fairshare", &other);
    let found = different(&report);
    assert!(!found.is_empty());
    for row in found {
        assert_eq!(row.kind, "priority");
        assert_ne!(row.answer, row.recorded);
    }
    // `fairshare` has the last word on priorities.
    let default = replay(&m, ".priority-default", &other);
    assert_eq!((default.same, default.different), (0, 0));
    assert!(default.not_compared > 0);
}
