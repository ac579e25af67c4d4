//! The policies of `jobtap-builtins` as shadows: one with the configuration of the live plugin answers what that
//! one answers, whatever happens.

use jobtap_builtins::{
    BeginTime, DependencyAfter, Fairshare, Licenses, LimitDuration, Limits, PriorityDefault,
};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

const SHADOWED: [&str; 7] = [
    ".priority-default",
    ".dependency-after",
    ".begin-time",
    ".limit-duration",
    "fairshare",
    "limits",
    "licenses",
];

fn manager(limits: &Value) -> TestManager {
    let config = json!({
        "plugins": {
            "limits": limits,
            "licenses": {"matlab": 1},
            "fairshare": {"half-life": "1h"},
        },
        "policy": {"limits": {"duration": "2h"}},
    });
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<DependencyAfter>();
    let builder = builder.plugin::<BeginTime>().plugin::<LimitDuration>();
    let builder = builder.plugin::<Fairshare>().plugin::<Limits>().plugin::<Licenses>();
    builder.cores(8).config(config).start()
}

/// The same numbers each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn some_job(numbers: &mut Numbers, jobs: &[JobId], now: f64) -> TestJob {
    let user = 7 + numbers.below(3) as u32;
    let job = TestJob::new().user(user).ntasks(1 + numbers.below(6));
    let job = job.duration([0.0, 60.0, 3600.0, 9000.0][numbers.below(4) as usize]);
    let job = job.urgency([0, 8, 16, 16, 16][numbers.below(5) as usize]);
    let target = jobs.get(numbers.below(jobs.len().max(1) as u64) as usize);
    match (numbers.below(5), target) {
        (0, Some(target)) => job.dependency(&format!("afterany:{target}")),
        (1, _) => job.dependency("license:matlab"),
        (2, _) => job.dependency(&format!("begin-time:{}", now + numbers.below(300) as f64)),
        _ => job,
    }
}

/// Submits, ends, cancels and changes jobs.
fn work(m: &mut TestManager, numbers: &mut Numbers) {
    let mut jobs: Vec<JobId> = Vec::new();
    for _ in 0..400 {
        let target = jobs.get(numbers.below(jobs.len().max(1) as u64) as usize).copied();
        match (numbers.below(10), target) {
            (0..5, _) => {
                let job = some_job(numbers, &jobs, m.now().as_secs());
                jobs.extend(m.submit(job));
            }
            (5, Some(id)) => {
                let _ = m.cancel(id);
            }
            (6, Some(id)) => {
                let _ = m.urgency(id, 1 + numbers.below(16) as i64);
            }
            (7 | 8, Some(id)) if m.job(id).state() == State::Run => m.finish(id, 0),
            _ => m.advance(numbers.below(600) as f64),
        }
    }
}

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
