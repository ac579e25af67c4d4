//! The policies of `jobtap-builtins` as shadows: a shadow with the configuration of the live plugin gives the
//! same answers, whatever happens.

use serde_json::json;

use crate::workload::{Numbers, manager, work};

const SHADOWED: [&str; 7] = [
    ".priority-default",
    ".dependency-after",
    ".begin-time",
    ".limit-duration",
    "fairshare",
    "limits",
    "licenses",
];

#[test]
fn a_shadow_of_the_same_policy_differs_in_nothing() {
    for seed in 0..5 {
        let mut numbers = Numbers(seed);
        let mut m = manager(&json!({"user": {"running": 2, "pending": 12}}));
        for name in SHADOWED {
            m.load_shadow(name, json!({})).unwrap();
        }
        work(&mut m, &mut numbers);
        let limits = [m.query_plugin("limits"), m.query_shadow("limits")];
        let scopes = limits.map(|limits| limits.unwrap().get("scopes").cloned());
        assert_eq!(scopes[0], scopes[1]);
        for name in SHADOWED {
            let report = m.shadow(name).unwrap();
            assert!(report.compared > 0 && report.stopped.is_none(), "{name}: {report:?}");
            if name == "fairshare" {
                // Both compute the usage every few minutes, and not at the same moment.
                assert!(report.kinds.keys().all(|kind| kind == "priority"), "{report:?}");
                continue;
            }
            let found = (&report.differences, &report.open);
            assert_eq!(found, (&vec![], &vec![]), "{name}, seed {seed}");
        }
    }
}

#[test]
fn shadows_change_nothing_of_the_live_policies() {
    let run = |with_shadows: bool| {
        let mut m = manager(&json!({"user": {"running": 2, "pending": 12}}));
        if with_shadows {
            for name in SHADOWED {
                let other = match name {
                    "limits" => json!({"user": {"running": 1, "pending": 4}}),
                    "licenses" => json!({"matlab": 5}),
                    "fairshare" => json!({"half-life": "1d"}),
                    _ => json!({}),
                };
                m.load_shadow(name, other).unwrap();
            }
        }
        work(&mut m, &mut Numbers(3));
        let logs: Vec<_> = m.jobs().into_iter().map(|id| (id, m.eventlog(id))).collect();
        (logs, m)
    };
    let (live, _) = run(false);
    let (beside, m) = run(true);
    assert_eq!(live, beside);
    let limits = m.shadow("limits").unwrap();
    assert!(limits.refuses > 0 && limits.kinds.contains_key("dependency"), "{limits:?}");
    let licenses = m.shadow("licenses").unwrap();
    assert!(licenses.kinds.contains_key("dependency"), "{licenses:?}");
}
