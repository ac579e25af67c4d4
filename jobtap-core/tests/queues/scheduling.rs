//! Which job starts when, in strict order and with backfill, checked against a simple count of cores.

use jobtap_core::engine::NodeRequest;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::ByUrgency;

const CORES: u64 = 4;

fn manager(policy: &str) -> TestManager {
    let config = json!({"policy": {"scheduler": {"queue-policy": policy}}});
    TestManager::new().plugin::<ByUrgency>().config(config).start()
}

fn job(cores: u64, limit: f64) -> TestJob {
    TestJob::new().ntasks(cores).duration(limit).run_for(limit)
}

#[test]
fn a_short_job_passes_a_blocked_one_that_it_cant_delay() {
    let mut m = manager("easy");
    m.submit(job(3, 100.0)).unwrap();
    let head = m.submit(job(4, 100.0)).unwrap();
    let long = m.submit(job(1, 200.0)).unwrap();
    let short = m.submit(job(1, 50.0)).unwrap();
    m.assert_state(head, State::Sched);
    m.assert_state(long, State::Sched);
    m.assert_state(short, State::Run);
    m.advance(101.0);
    m.assert_state(head, State::Run);
}

#[test]
fn a_long_job_passes_on_what_the_blocked_one_does_not_need() {
    let mut m = manager("easy");
    m.submit(job(3, 100.0)).unwrap();
    let head = m.submit(job(3, 100.0)).unwrap();
    let long = m.submit(job(1, 1000.0)).unwrap();
    m.assert_state(head, State::Sched);
    m.assert_state(long, State::Run);
    m.advance(101.0);
    m.assert_state(head, State::Run);
}

/// Has a long epilog for jobs that ask for it, so that they hold their resources past their time limit.
#[derive(Default)]
struct SlowEpilog;

#[jobtap_plugin(name = "slow-epilog")]
impl SlowEpilog {
    #[on("job.state.cleanup")]
    async fn clear(job: JobInfo, remote: Remote<Self>) -> Result<(), EpilogFailed> {
        if job.jobspec.attribute("overdue").is_some() {
            remote.sleep(100.0).await?;
        }
        Ok(())
    }
}

#[test]
fn an_overdue_job_counts_as_one_that_ends_at_any_moment() {
    let mut m = TestManager::new().plugin::<ByUrgency>().plugin::<SlowEpilog>().cores(4).start();
    let overdue = m.submit(job(1, 10.0).attribute("overdue", 1)).unwrap();
    m.submit(job(2, 1000.0)).unwrap();
    m.advance(20.0);
    m.assert_state(overdue, State::Cleanup);
    // With the overdue job's core and the free one there are enough cores for the first pending job.
    let head = m.submit(job(2, 50.0)).unwrap();
    let short = m.submit(job(1, 500.0)).unwrap();
    m.assert_state(short, State::Sched);
    m.advance(100.0);
    m.assert_state(overdue, State::Inactive);
    m.assert_state(head, State::Run);
}

#[test]
fn no_job_passes_when_no_end_is_known() {
    let mut m = manager("easy");
    m.submit(TestJob::new().ntasks(3)).unwrap();
    let head = m.submit(job(4, 100.0)).unwrap();
    let short = m.submit(job(1, 1.0)).unwrap();
    m.assert_state(head, State::Sched);
    m.assert_state(short, State::Sched);
}

#[test]
fn what_is_planned_after_jobs_without_an_end_delays_none_of_them() {
    let mut m = manager("conservative");
    m.submit(job(4, 100.0)).unwrap();
    let first = m.submit(TestJob::new().ntasks(4)).unwrap();
    let second = m.submit(job(4, 10.0)).unwrap();
    let third = m.submit(job(1, 10.0)).unwrap();
    m.advance(101.0);
    m.assert_state(first, State::Run);
    m.finish(first, 0);
    m.assert_state(second, State::Run);
    m.advance(10.0);
    m.assert_state(third, State::Run);
}

/// Lets a user move the end of a job.
#[derive(Default)]
struct Longer;

#[jobtap_plugin(name = "longer")]
impl Longer {
    #[on("job.update.attributes.system.duration")]
    fn allow(&self) -> Update {
        Update::allow().validated()
    }
}

#[test]
fn a_job_passes_when_what_the_first_one_waits_for_ends_later() {
    for policy in ["easy", "conservative"] {
        let config = json!({"policy": {"scheduler": {"queue-policy": policy}}});
        let builder = TestManager::new().plugin::<ByUrgency>().plugin::<Longer>();
        let mut m = builder.config(config).start();
        let runs = m.submit(TestJob::new().ntasks(3).duration(100.0)).unwrap();
        let head = m.submit(job(4, 100.0)).unwrap();
        let second = m.submit(job(1, 500.0)).unwrap();
        m.assert_state(second, State::Sched);
        m.update(runs, "attributes.system.duration", 1000.0).unwrap();
        m.assert_state(head, State::Sched);
        assert_eq!(m.job(second).state(), State::Run, "{policy}");
    }
}

#[test]
fn strict_order_lets_no_job_pass_by_each_of_its_names() {
    for policy in ["strict", "fifo", "fcfs"] {
        let mut m = manager(policy);
        m.submit(job(3, 100.0)).unwrap();
        let head = m.submit(job(4, 100.0)).unwrap();
        let short = m.submit(job(1, 50.0)).unwrap();
        m.assert_state(head, State::Sched);
        m.assert_state(short, State::Sched);
    }
}

/// Lets a user change a job's time limit.
#[derive(Default)]
struct AnyDuration;

#[jobtap_plugin(name = "any-duration")]
impl AnyDuration {
    #[on("job.update.attributes.system.duration")]
    fn allow(&self) -> Update {
        Update::allow()
    }
}

#[test]
fn a_job_that_was_blocked_and_became_shorter_is_tried_again() {
    for policy in ["fifo", "easy", "conservative"] {
        let config = json!({"policy": {"scheduler": {"queue-policy": policy}}});
        let builder = TestManager::new().plugin::<ByUrgency>().plugin::<AnyDuration>();
        let mut m = builder.config(config).start();
        let now = m.now().as_secs();
        m.nodes(NodeRequest::AddMaintenance {
            targets: "testhost".into(),
            from: Some(now + 100.0),
            to: Some(now + 200.0),
            reason: "new memory".into(),
        })
        .unwrap();
        let id = m.submit(job(1, 150.0)).unwrap();
        m.assert_state(id, State::Sched);
        m.update(id, "attributes.system.duration", 50).unwrap();
        assert_eq!(m.job(id).state(), State::Run, "{policy}");
    }
}

#[test]
fn a_conservative_plan_lets_no_job_pass_that_delays_another() {
    let mut m = manager("conservative");
    m.submit(job(3, 100.0)).unwrap();
    let first = m.submit(job(4, 10.0)).unwrap();
    let second = m.submit(job(3, 10.0)).unwrap();
    // EASY would start the third job too, since it ends when the first one can start. Here it must not delay the second
    // one either.
    let third = m.submit(job(1, 100.0)).unwrap();
    let fourth = m.submit(job(1, 120.0)).unwrap();
    m.assert_state(third, State::Run);
    m.assert_state(fourth, State::Sched);
    m.advance(101.0);
    m.assert_state(first, State::Run);
    m.advance(10.0);
    m.assert_state(second, State::Run);
}

#[test]
fn a_job_that_comes_back_with_less_is_tried_again() {
    let mut m = manager("easy");
    m.submit(job(3, 100.0)).unwrap();
    let head = m.submit(job(4, 100.0)).unwrap();
    let second = m.submit(job(1, 500.0)).unwrap();
    m.assert_state(second, State::Sched);
    // Once it is held, the first job no longer needs a reservation.
    m.urgency(head, 0).unwrap();
    m.assert_state(second, State::Run);
}

#[test]
fn the_scheduler_can_be_changed_while_jobs_wait() {
    let mut m = manager("fifo");
    m.submit(job(3, 100.0)).unwrap();
    m.submit(job(4, 100.0)).unwrap();
    let short = m.submit(job(1, 50.0)).unwrap();
    m.assert_state(short, State::Sched);
    m.configure(json!({"policy": {"scheduler": {"queue-policy": "easy"}}})).unwrap();
    m.assert_state(short, State::Run);
    let bad =
        m.configure(json!({"policy": {"scheduler": {"queue-policy": "slow"}}})).unwrap_err().text();
    assert!(bad.contains("there is no scheduler \"slow\""), "{bad}");
}

#[test]
fn an_unknown_scheduler_is_refused_with_the_nearest() {
    let config = json!({"policy": {"scheduler": {"queue-policy": "esay"}}});
    let error = TestManager::new().config(config).try_start().err().unwrap();
    assert!(error.text().contains("did you mean \"easy\"?"), "{error}");
}

/// What a job asked for, and when it held its cores.
#[derive(Debug)]
struct Run {
    cores: u64,
    limit: f64,
    submitted: f64,
    from: f64,
    to: f64,
}

/// Events of one moment are a few microseconds apart.
const MOMENT: f64 = 1e-3;

fn runs(m: &TestManager, asked: &[(u64, f64)], ids: &[JobId]) -> Vec<Run> {
    let time = |id: JobId, name: &str| {
        let log = m.eventlog(id);
        log.iter().find(|entry| entry.name == name).map(|entry| entry.timestamp.as_secs()).unwrap()
    };
    let of = |(&id, &(cores, limit)): (&JobId, &(u64, f64))| Run {
        cores,
        limit,
        submitted: time(id, "submit"),
        from: time(id, "alloc"),
        to: time(id, "free"),
    };
    ids.iter().zip(asked).map(of).collect()
}

/// The number of cores held just after a time.
fn used(runs: &[Run], at: f64) -> u64 {
    let at = at + MOMENT;
    runs.iter().filter(|run| run.from <= at && at < run.to).map(|run| run.cores).sum()
}

/// The first job that is pending at a time, and when there are enough cores for it by the limits of the jobs that run
/// then.
fn promised(runs: &[Run], at: f64) -> Option<(usize, f64)> {
    let after = at + MOMENT;
    let head = runs.iter().position(|run| run.submitted <= after && after < run.from)?;
    let mut ends: Vec<(f64, u64)> = runs
        .iter()
        .filter(|run| run.from <= after && after < run.to)
        .map(|run| (run.from + run.limit, run.cores))
        .collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = CORES - used(runs, at);
    for (end, cores) in ends {
        free += cores;
        if free >= runs[head].cores {
            return Some((head, end));
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_conservative_plan_delays_no_job_for_those_behind(
        jobs in vec((1..=CORES, 1..30u32, 0..10u32), 1..10),
    ) {
        let start = |count: usize, which: usize| {
            let mut m = manager("conservative");
            let mut ids = Vec::new();
            for (cores, limit, wait) in &jobs[..count] {
                ids.push(m.submit(job(*cores, f64::from(*limit))).unwrap());
                m.advance(f64::from(*wait));
            }
            m.advance(1000.0);
            let log = m.eventlog(ids[which]);
            let alloc = log.iter().find(|entry| entry.name == "alloc").unwrap();
            alloc.timestamp.as_secs()
        };
        for which in 0..jobs.len() {
            // As if no job had been submitted after it.
            let alone = start(which + 1, which);
            let among = start(jobs.len(), which);
            prop_assert!(among <= alone + 0.1, "job {} at {}, alone {}", which, among, alone);
        }
    }

    #[test]
    fn jobs_in_strict_order_start_when_they_were_told(
        jobs in vec((1..=CORES, 1..30u32, 0..4u32), 1..14),
    ) {
        let mut m = manager("fifo");
        let mut ids = Vec::new();
        for (cores, limit, wait) in jobs {
            m.advance(f64::from(wait));
            ids.push(m.submit(job(cores, f64::from(limit))).unwrap());
        }
        let told: Vec<Option<f64>> = ids.iter().map(|id| {
            m.listed(*id).pointer("/annotations/sched/t_estimate").and_then(Value::as_f64)
        }).collect();
        let waiting = ids.iter().filter(|id| m.job(**id).state() == State::Sched).count();
        prop_assert_eq!(told.iter().flatten().count(), waiting.min(8));
        m.advance(1000.0);
        for (id, told) in ids.iter().zip(told) {
            let log = m.eventlog(*id);
            let alloc = log.iter().find(|entry| entry.name == "alloc").unwrap();
            let late = told.map(|told| (alloc.timestamp.as_secs() - told).abs());
            prop_assert!(late.is_none_or(|late| late < 0.1), "{}: {:?}", id, late);
        }
    }

    #[test]
    fn cores_are_given_once_and_the_first_job_is_never_delayed(
        policy in proptest::sample::select(&["easy", "conservative", "fifo"][..]),
        jobs in vec((1..=CORES, 1..30u32, 0.1..1.0f64, 0..10u32), 1..25),
    ) {
        let mut m = manager(policy);
        let mut ids = Vec::new();
        let mut asked = Vec::new();
        for (cores, limit, part, wait) in jobs {
            let limit = f64::from(limit);
            let job = TestJob::new().ntasks(cores).duration(limit).run_for(limit * part);
            ids.push(m.submit(job).unwrap());
            asked.push((cores, limit));
            m.advance(f64::from(wait));
        }
        m.advance(2000.0);
        let runs = runs(&m, &asked, &ids);
        let moments = runs.iter().flat_map(|run| [run.submitted, run.from, run.to]);
        for at in moments {
            prop_assert!(used(&runs, at) <= CORES, "cores given twice at {}: {:?}", at, runs);
            if let Some((head, by)) = promised(&runs, at) {
                let from = runs[head].from;
                prop_assert!(from <= by + 0.1, "job {} at {} was promised {}: {:?}", head, at, by, runs);
            }
        }
    }
}

/// The estimates of jobs in listings, in seconds from now.
fn estimates(m: &TestManager, jobs: &[JobId]) -> Vec<Option<f64>> {
    let estimate = |id: &JobId| {
        let listed = m.listed(*id);
        let start = listed.pointer("/annotations/sched/t_estimate")?.as_f64()?;
        Some(start - m.now().as_secs())
    };
    jobs.iter().map(estimate).collect()
}

#[test]
fn a_listing_tells_when_jobs_will_probably_start() {
    let mut m = TestManager::new().plugin::<ByUrgency>().cores(4).start();
    let job = |cores: u64, duration: f64| TestJob::new().ntasks(cores).duration(duration);
    m.submit(job(3, 100.0)).unwrap();
    m.submit(job(1, 300.0)).unwrap();
    let waits = [job(2, 50.0), job(4, 10.0), job(1, 0.0), job(1, 10.0)];
    let waits: Vec<JobId> = waits.into_iter().map(|job| m.submit(job).unwrap()).collect();
    // The last job waits behind one without a time limit.
    assert_eq!(estimates(&m, &waits), [Some(100.0), Some(300.0), Some(310.0), None]);
    m.advance(30.0);
    assert_eq!(estimates(&m, &waits[..1]), [Some(70.0)]);
    m.scheduling(false).unwrap();
    assert_eq!(estimates(&m, &waits[..1]), [None]);
}

#[test]
fn an_estimate_follows_what_changes_meanwhile() {
    let mut m = TestManager::new().plugin::<ByUrgency>().cores(4).start();
    m.submit(TestJob::new().ntasks(4).duration(1000.0)).unwrap();
    let first = m.submit(TestJob::new().ntasks(4).duration(500.0)).unwrap();
    let second = m.submit(TestJob::new().ntasks(4).duration(10.0)).unwrap();
    assert_eq!(estimates(&m, &[first, second]), [Some(1000.0), Some(1500.0)]);
    // Estimates may be a second old.
    m.advance(100.0);
    m.cancel(first).unwrap();
    assert_eq!(estimates(&m, &[second]), [Some(900.0)]);
}

#[test]
fn nothing_is_told_where_jobs_have_no_end() {
    let mut m = TestManager::new().plugin::<ByUrgency>().cores(1).start();
    m.submit(TestJob::new()).unwrap();
    let waits = m.submit(TestJob::new().duration(10.0)).unwrap();
    assert_eq!(estimates(&m, &[waits]), [None]);
}
