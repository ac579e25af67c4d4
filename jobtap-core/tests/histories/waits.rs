//! The word that lists show for what a job waits for is the kind of the first reason of `why`, although lists find it
//! without looking at other jobs.

use jobtap_core::engine::{Cred, WaitsFor};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::Value;

/// Checks this for all jobs, and that the sums count each job and each element once.
pub(crate) fn check(m: &TestManager) -> Result<(), TestCaseError> {
    let Some(engine) = m.engine() else { return Ok(()) };
    let is_pending = |id: &JobId| m.job(*id).state() == State::Sched;
    let pending = engine.active_jobs().into_iter().filter(is_pending).count() as u64;
    // Elements of arrays that aren't jobs yet count as pending.
    let mut waiting = m.job_stats()["job_states"]["sched"].as_u64().unwrap() - pending;
    for id in engine.active_jobs() {
        let why = engine.why(id, Cred { userid: TestJob::OWNER, owner: true }).unwrap();
        let kinds = why["reasons"].as_array().into_iter().flatten();
        let kinds = kinds.filter_map(|reason| reason["kind"].as_str().and_then(WaitsFor::named));
        let runs = m.job(id).state() == State::Run;
        let first = kinds.map(WaitsFor::word).find(|word| !(runs && *word == "tasks"));
        prop_assert_eq!(m.waits_for(id), first, "{}: {:?}", id, why);
        let listed = m.listed(id);
        prop_assert_eq!(listed.get("why").and_then(Value::as_str), first);
        waiting += u64::from(first.is_some());
    }
    let mut count = engine.begin_waits(None);
    while engine.count_waits(&mut count, 2) {}
    prop_assert_eq!(count.counts().map(|(_, jobs)| jobs).sum::<u64>(), waiting);
    Ok(())
}
