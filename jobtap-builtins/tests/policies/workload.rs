//! A workload that several tests run with the policies of this crate.

use jobtap_builtins::{
    BeginTime, DependencyAfter, Fairshare, Licenses, LimitDuration, Limits, PriorityDefault,
};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

/// The configuration of [`manager`].
pub(crate) fn config(limits: &Value) -> Value {
    json!({
        "plugins": {
            "limits": limits,
            "licenses": {"matlab": 1},
            "fairshare": {"half-life": "1h"},
        },
        "policy": {"limits": {"duration": "2h"}},
    })
}

/// A manager with the policies.
pub(crate) fn manager(limits: &Value) -> TestManager {
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<DependencyAfter>();
    let builder = builder.plugin::<BeginTime>().plugin::<LimitDuration>();
    let builder = builder.plugin::<Fairshare>().plugin::<Limits>().plugin::<Licenses>();
    builder.cores(8).config(config(limits)).start()
}

/// A generator of the same numbers each time.
pub(crate) struct Numbers(pub(crate) u64);

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
pub(crate) fn work(m: &mut TestManager, numbers: &mut Numbers) {
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
