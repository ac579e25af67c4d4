//! Requests of clients about jobs: memos, signals, purges and waits.

use jobtap_core::engine::{Request, RequestError};
use jobtap_core::job::{Reach, State, Uid};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager, TestStream};
use serde_json::{Value, json};

use crate::common::ByUrgency;

const OWNER: u32 = TestJob::OWNER.0;
const GUEST: u32 = 1001;

fn manager() -> TestManager {
    TestManager::new().plugin::<ByUrgency>().start()
}

fn configured(config: Value) -> TestManager {
    TestManager::new().plugin::<ByUrgency>().config(json!({ "job-manager": config })).start()
}

fn held(m: &mut TestManager, user: u32) -> JobId {
    m.submit(TestJob::new().user(user).urgency(0)).unwrap()
}

/// Runs a job for one second, and returns it when it is inactive.
fn over(m: &mut TestManager) -> JobId {
    let id = m.submit(TestJob::new().run_for(1.0)).unwrap();
    m.advance(1.0);
    m.assert_state(id, State::Inactive);
    id
}

#[track_caller]
fn ask(m: &mut TestManager, user: u32, request: Request) -> Result<Value, (i32, String)> {
    let request = m.open_request(user, request);
    answer(m, request).expect("the manager has not answered")
}

fn answer(m: &mut TestManager, request: TestStream) -> Option<Result<Value, (i32, String)>> {
    let answer = m.answered(request)?;
    Some(answer.map_err(|RequestError { errno, text, .. }| (errno, text)))
}

fn refusal<T>(errno: i32, text: &str) -> Result<T, (i32, String)> {
    Err((errno, text.to_owned()))
}

#[test]
fn a_signal_reaches_the_jobs_of_the_user_and_any_of_the_owner() {
    let mut m = manager();
    let id = m.submit(TestJob::new().user(GUEST)).unwrap();
    let waits = held(&mut m, GUEST);
    let kill = |id: JobId, signum: i64| Request::Kill { id, signum, reach: Reach::Group };
    assert!(ask(&mut m, GUEST, kill(id, 10)).is_ok());
    assert!(ask(&mut m, OWNER, kill(id, 12)).is_ok());
    assert_eq!(m.signals(id), [10, 12]);
    let others = "guests may only send signals to their own jobs";
    assert_eq!(ask(&mut m, GUEST + 1, kill(id, 10)), refusal(1, others));
    assert_eq!(ask(&mut m, GUEST, kill(waits, 10)), refusal(22, "job is not running"));
    m.finish(id, 0);
    assert_eq!(ask(&mut m, OWNER, kill(id, 10)), refusal(22, "job is inactive"));
    assert_eq!(m.signals(id), [10, 12]);
}

#[test]
fn a_requeued_job_is_submitted_again_and_ends() {
    let mut m = manager();
    let id = m.submit(TestJob::new().user(GUEST)).unwrap();
    let waits = held(&mut m, GUEST);
    let requeue = |id: JobId, hold: bool| Request::Requeue { id, hold };
    let others = "guests may only requeue their own jobs";
    assert_eq!(ask(&mut m, GUEST + 1, requeue(id, false)), refusal(1, others));
    assert_eq!(ask(&mut m, GUEST, requeue(waits, false)), refusal(22, "job has not started"));
    let answer = ask(&mut m, GUEST, requeue(id, false)).unwrap();
    let of = |m: &TestManager, first: JobId| {
        let names = |id: &JobId| {
            let jobspec = m.job(*id).jobspec().value().clone();
            let of = jobspec.pointer("/attributes/system/slurm/requeue_of").cloned();
            of == Some(json!(first.to_string()))
        };
        m.jobs().into_iter().find(names).unwrap()
    };
    let second = of(&m, id);
    assert_eq!(answer, json!({ "id": second }));
    m.assert_exception(id, "cancel", &format!("requeued as {second}"));
    assert_eq!(m.job(second).userid(), Uid(GUEST));
    m.assert_state(second, State::Run);
    assert!(ask(&mut m, OWNER, requeue(second, true)).is_ok());
    let third = of(&m, second);
    assert_eq!(m.job(third).urgency().value(), 0);
    assert_eq!(ask(&mut m, GUEST, requeue(id, false)), refusal(22, "job is inactive"));
}

#[test]
fn a_job_whose_successor_is_refused_runs_on_and_its_user_learns_why() {
    /// Accepts one job.
    #[derive(Default)]
    struct One(u32);

    #[jobtap_plugin(name = "one")]
    impl One {
        #[on("job.validate")]
        fn validate(&mut self, _job: &Job) -> Result<(), Reject> {
            self.0 += 1;
            if self.0 == 1 { Ok(()) } else { Err(Reject::new("one job is enough")) }
        }
    }

    let mut m = TestManager::new().plugin::<ByUrgency>().plugin::<One>().start();
    let id = m.submit(TestJob::new()).unwrap();
    let refused = refusal(22, "can't be submitted again: one job is enough");
    assert_eq!(ask(&mut m, OWNER, Request::Requeue { id, hold: false }), refused);
    m.assert_state(id, State::Run);
    assert_eq!(m.jobs(), [id]);
    // It can be tried again.
    assert_eq!(ask(&mut m, OWNER, Request::Requeue { id, hold: false }), refused);
    m.finish(id, 0);
    assert_eq!(m.job(id).result(), Some(JobResult::Completed));
}

#[test]
fn a_requeued_job_keeps_its_place_in_an_array_and_waits_for_no_job() {
    /// Knows a dependency that is satisfied.
    #[derive(Default)]
    struct Satisfied;

    #[jobtap_plugin(name = "satisfied")]
    impl Satisfied {
        #[on("job.dependency.satisfied")]
        fn accept(&self, _job: &Job) {}
    }

    let mut m = TestManager::new().plugin::<ByUrgency>().plugin::<Satisfied>().start();
    let job = TestJob::new().dependency("satisfied:x").attribute("slurm.array_task_id", 3);
    let id = m.submit(job).unwrap();
    m.assert_state(id, State::Run);
    ask(&mut m, OWNER, Request::Requeue { id, hold: false }).unwrap();
    let again = *m.jobs().iter().max().unwrap();
    let jobspec = m.job(again).jobspec().value().clone();
    let at = |key: &str| jobspec.pointer(&format!("/attributes/system/{key}")).cloned();
    assert_eq!(at("slurm/array_job_id"), Some(json!(id.as_u64())));
    assert_eq!(at("dependencies"), None);
    m.assert_state(again, State::Run);
}

#[test]
fn a_job_at_a_terminal_is_not_requeued() {
    let mut m = manager();
    let stdin = json!({"input": {"stdin": {"type": "service"}}});
    let id = m.submit(TestJob::new().attribute("shell.options", stdin)).unwrap();
    let refused = refusal(22, "only batch jobs can be requeued");
    assert_eq!(ask(&mut m, OWNER, Request::Requeue { id, hold: false }), refused);
}

#[test]
fn guests_raise_an_urgency_up_to_the_default_or_what_it_is() {
    let mut m = manager();
    m.scheduling(false).unwrap();
    let id = held(&mut m, GUEST);
    let mut set = |user: u32, urgency: i64| {
        let answer = ask(&mut m, user, Request::Urgency { id, urgency });
        answer.map(drop).map_err(|(errno, text)| {
            assert_eq!(errno, if text.contains("guests") { 1 } else { 22 }, "{text}");
            text
        })
    };
    let refused = |text: &str| Err(text.to_owned());
    assert_eq!(set(GUEST, 32), refused("urgency value is out of range"));
    assert_eq!(set(GUEST, 17), refused("guests can only adjust urgency <= default"));
    assert_eq!(set(GUEST + 1, 3), refused("guests can only reprioritize their own jobs"));
    assert_eq!(set(OWNER, 20), Ok(()));
    assert_eq!(set(GUEST, 21), refused("guests can only adjust urgency <= default"));
    assert_eq!(set(GUEST, 20), Ok(()));
    assert_eq!(set(GUEST, 16), Ok(()));
    assert_eq!(set(GUEST, 17), refused("guests can only adjust urgency <= default"));
}

mod memo {
    use super::*;

    fn memo(id: JobId, volatile: bool, memo: Value) -> Request {
        let Value::Object(memo) = memo else { unreachable!() };
        Request::Memo { id, volatile, memo }
    }

    fn notes(m: &TestManager, id: JobId) -> Value {
        Value::Object(m.job(id).annotations().clone())
    }

    #[test]
    fn memos_are_merged_logged_and_kept_across_a_restart() {
        let mut m = manager();
        let id = held(&mut m, OWNER);
        ask(&mut m, OWNER, memo(id, false, json!({"a": {"x": 1}, "b": 2}))).unwrap();
        ask(&mut m, OWNER, memo(id, false, json!({"a": {"y": 3}, "b": null}))).unwrap();
        m.assert_events(id, "submit validate depend priority memo memo");
        m.crash_and_restart();
        assert_eq!(notes(&m, id), json!({"user": {"a": {"x": 1, "y": 3}}}));
    }

    #[test]
    fn memos_of_a_job_have_a_length_together() {
        let mut m = manager();
        let id = held(&mut m, OWNER);
        let long = "x".repeat(40_000);
        for volatile in [false, true] {
            ask(&mut m, OWNER, memo(id, volatile, json!({"a": long}))).unwrap();
            let refusal = ask(&mut m, OWNER, memo(id, volatile, json!({"b": long}))).unwrap_err();
            let text = "memo: the memo of the job would have 80015 bytes, 65536 are allowed";
            assert_eq!(refusal.1, text);
            // What one memo removes makes room for the next.
            ask(&mut m, OWNER, memo(id, volatile, json!({"a": null}))).unwrap();
        }
        let many: serde_json::Map<_, _> =
            (0..10_000).map(|n| (n.to_string(), json!(null))).collect();
        let refusal = ask(&mut m, OWNER, memo(id, false, json!(many))).unwrap_err();
        assert!(refusal.1.starts_with("memo: it would have "), "{refusal:?}");
        assert_eq!(notes(&m, id), json!({}));
    }

    #[test]
    fn a_volatile_memo_is_shown_and_lost_with_the_manager() {
        let mut m = manager();
        let id = held(&mut m, OWNER);
        ask(&mut m, OWNER, memo(id, true, json!({"a": 1}))).unwrap();
        assert_eq!(notes(&m, id), json!({"user": {"a": 1}}));
        m.assert_events(id, "submit validate depend priority");
        m.crash_and_restart();
        assert_eq!(notes(&m, id), json!({}));
    }

    #[test]
    fn the_alloc_event_has_all_annotations_of_its_moment() {
        let mut m = manager();
        let id = held(&mut m, OWNER);
        ask(&mut m, OWNER, memo(id, false, json!({"note": "x"}))).unwrap();
        ask(&mut m, OWNER, memo(id, true, json!({"tmp": 1}))).unwrap();
        m.urgency(id, 16).unwrap();
        let log = m.eventlog(id);
        let alloc = log.iter().find(|event| event.name == "alloc").unwrap();
        let annotations = &alloc.context.as_ref().unwrap()["annotations"];
        assert_eq!(annotations["user"], json!({"note": "x", "tmp": 1}));
        assert!(annotations["sched"]["resource_summary"].is_string());
        assert_eq!(notes(&m, id), *annotations);
    }

    #[test]
    fn it_is_for_own_active_jobs() {
        let mut m = manager();
        let id = held(&mut m, OWNER);
        let text = "guests can only add a memo to their own jobs";
        assert_eq!(ask(&mut m, GUEST, memo(id, false, json!({}))), refusal(1, text));
        let own = held(&mut m, GUEST);
        ask(&mut m, GUEST, memo(own, false, json!({"a": 1}))).unwrap();
        let done = over(&mut m);
        let inactive = refusal(2, "job is inactive");
        assert_eq!(ask(&mut m, OWNER, memo(done, false, json!({}))), inactive);
        let unknown = memo(JobId::new(7), true, json!({}));
        assert_eq!(ask(&mut m, OWNER, unknown), refusal(2, "unknown job id"));
    }
}

mod killall {
    use super::*;

    fn killall(userid: Option<u32>, signum: i64) -> Request {
        Request::KillAll { dry_run: false, userid: userid.map(Uid), signum }
    }

    #[test]
    fn running_jobs_of_the_user_are_counted_and_signaled() {
        let mut m = manager();
        held(&mut m, OWNER);
        for user in [OWNER, OWNER, GUEST] {
            m.submit(TestJob::new().user(user)).unwrap();
        }
        let count = |count: u64| Ok(json!({"count": count, "errors": 0}));
        assert_eq!(ask(&mut m, OWNER, killall(None, 15)), count(3));
        assert_eq!(ask(&mut m, OWNER, killall(Some(OWNER), 15)), count(2));
        assert_eq!(ask(&mut m, GUEST, killall(Some(GUEST), 15)), count(1));
    }

    #[test]
    fn guests_have_their_own_jobs_only_and_signals_are_checked_first() {
        let mut m = manager();
        let text = "guests can only kill their own jobs";
        assert_eq!(ask(&mut m, GUEST, killall(None, 15)), refusal(1, text));
        assert_eq!(ask(&mut m, GUEST, killall(Some(OWNER), 15)), refusal(1, text));
        for signum in [0, -1, 65, i64::MAX] {
            let invalid = refusal(22, "Invalid signal number");
            assert_eq!(ask(&mut m, GUEST, killall(None, signum)), invalid);
        }
    }
}

mod purge {
    use super::*;

    fn purge(age_limit: f64, num_limit: i64, batch: i64, force: bool) -> Request {
        Request::Purge { age_limit, num_limit, batch, force }
    }

    fn count(count: u64) -> Result<Value, (i32, String)> {
        Ok(json!({ "count": count }))
    }

    #[test]
    fn the_oldest_go_first_and_at_most_a_batch() {
        let mut m = manager();
        let ids: Vec<JobId> = (0..5).map(|_| over(&mut m)).collect();
        assert_eq!(ask(&mut m, OWNER, purge(-1.0, 1, 2, false)), count(4));
        assert_eq!(m.jobs(), ids);
        assert_eq!(ask(&mut m, OWNER, purge(-1.0, 1, 2, true)), count(2));
        assert_eq!(m.jobs(), ids[2..]);
        assert_eq!(ask(&mut m, OWNER, purge(-1.0, 1, 100, true)), count(2));
        assert_eq!(m.jobs(), ids[4..]);
        let stats = m.job_stats();
        assert_eq!((&stats["inactive_purged"], &stats["successful"]), (&json!(4), &json!(1)));
        m.crash_and_restart();
        assert_eq!(m.jobs(), ids[4..]);
        assert_eq!(ask(&mut m, OWNER, purge(-1.0, -1, 100, true)), count(0));
    }

    #[test]
    fn either_limit_is_enough() {
        let mut m = manager();
        let old = over(&mut m);
        m.advance(60.0);
        let new = over(&mut m);
        assert_eq!(ask(&mut m, OWNER, purge(30.0, -1, 50, true)), count(1));
        assert_eq!(m.jobs(), [new]);
        assert_ne!(old, new);
        assert_eq!(ask(&mut m, OWNER, purge(30.0, 0, 50, true)), count(1));
        assert!(m.jobs().is_empty());
    }

    #[test]
    fn after_the_newest_is_gone_its_id_is_not_used_again() {
        let mut m = manager();
        let id = over(&mut m);
        ask(&mut m, OWNER, purge(-1.0, 0, 50, true)).unwrap();
        m.crash_and_restart();
        assert!(held(&mut m, OWNER) > id);
    }

    #[test]
    fn nonsense_is_refused_and_guests_are() {
        let mut m = manager();
        let refused = |m: &mut TestManager, request| ask(m, OWNER, request).unwrap_err();
        for age in [-2.0, f64::NAN] {
            let error = refused(&mut m, purge(age, -1, 50, true));
            assert_eq!(error, (22, "if set, age limit must be >= 0".to_owned()));
        }
        let error = refused(&mut m, purge(-1.0, -5, 50, true));
        assert_eq!(error, (22, "if set, num limit must be >= 0".to_owned()));
        for batch in [0, 101, -1] {
            let error = refused(&mut m, purge(-1.0, 0, batch, true));
            assert_eq!(error, (22, "batch must be >= 1 and <= 100".to_owned()));
        }
        let text = "Request requires owner credentials";
        assert_eq!(ask(&mut m, GUEST, purge(-1.0, 0, 50, false)), refusal(1, text));
    }

    #[test]
    fn by_id_only_inactive_jobs_and_only_with_force() {
        let mut m = manager();
        let (done, active) = (over(&mut m), held(&mut m, OWNER));
        let by_id = |id, force| Request::PurgeId { id, force };
        assert_eq!(ask(&mut m, OWNER, by_id(done, false)), count(1));
        assert_eq!(ask(&mut m, OWNER, by_id(done, true)), count(1));
        assert_eq!(ask(&mut m, OWNER, by_id(done, true)), refusal(2, "id not found"));
        let text = "cannot purge active job";
        assert_eq!(ask(&mut m, OWNER, by_id(active, true)), refusal(22, text));
    }

    #[test]
    fn configured_limits_are_kept_by_a_heartbeat_also_after_a_restart() {
        let mut m = configured(json!({"inactive-age-limit": "1m", "inactive-num-limit": 2}));
        let ids: Vec<JobId> = (0..4).map(|_| over(&mut m)).collect();
        m.advance(2.0);
        assert_eq!(m.jobs(), ids[2..]);
        m.assert_logged("purged 1 inactive jobs");
        m.crash_and_restart();
        m.advance(70.0);
        assert!(m.jobs().is_empty());
    }

    #[test]
    fn an_empty_age_is_none_as_in_flux() {
        let mut m = configured(json!({"inactive-age-limit": ""}));
        over(&mut m);
        m.advance(2.0);
        assert!(m.jobs().is_empty());
    }

    #[test]
    fn a_limit_is_reached_however_many_jobs_are_over_it() {
        let mut m = manager();
        let ids: Vec<JobId> = (0..350).map(|_| over(&mut m)).collect();
        m.configure(json!({"job-manager": {"inactive-num-limit": 10}})).unwrap();
        // One heartbeat, and the purges that follow it at once.
        m.advance(2.5);
        assert_eq!(m.jobs(), ids[340..]);
    }

    #[test]
    fn limits_come_and_go_with_the_configuration() {
        let mut m = manager();
        let id = over(&mut m);
        m.advance(1000.0);
        assert_eq!(m.jobs(), [id]);
        let none = json!({"job-manager": {"inactive-num-limit": -1}});
        m.configure(none.clone()).unwrap();
        m.advance(10.0);
        assert_eq!(m.jobs(), [id]);
        m.configure(json!({"job-manager": {"inactive-num-limit": 0}})).unwrap();
        m.advance(2.0);
        assert!(m.jobs().is_empty());
        m.configure(none).unwrap();
        let id = over(&mut m);
        m.advance(10.0);
        assert_eq!(m.jobs(), [id]);
    }

    #[test]
    fn limits_that_are_none_are_refused_by_their_names() {
        let cases = [
            (json!({"inactive-age-limit": "x"}), "job-manager.inactive-age-limit: invalid FSD"),
            (json!({"inactive-num-limit": -2}), "job-manager.inactive-num-limit: must be >= 0"),
            (
                json!({"inactive-num-limit": "2"}),
                "job-manager.inactive-num-limit: Expected integer, got string",
            ),
            (
                json!({"inactive-age-limit": 5}),
                "job-manager.inactive-age-limit: Expected string, got integer",
            ),
        ];
        for (table, text) in cases {
            let config = json!({ "job-manager": table });
            let start = TestManager::new().config(config.clone()).try_start();
            assert_eq!(start.err().unwrap(), text);
            assert_eq!(manager().configure(config).unwrap_err(), text);
        }
    }
}

mod wait {
    use super::*;

    fn waitable(m: &mut TestManager, seconds: f64, status: i32) -> JobId {
        m.submit(TestJob::new().waitable().run_for(seconds).wait_status(status)).unwrap()
    }

    fn wait(m: &mut TestManager, id: Option<JobId>) -> TestStream {
        m.open_request(OWNER, Request::Wait { id })
    }

    fn success(id: JobId) -> Option<Result<Value, (i32, String)>> {
        Some(Ok(json!({"id": id, "success": true, "errstr": ""})))
    }

    fn failure(id: JobId, text: &str) -> Option<Result<Value, (i32, String)>> {
        Some(Ok(json!({"id": id, "success": false, "errstr": text})))
    }

    const UNKNOWN: &str = "invalid job id, or job may be inactive and not waitable";

    #[test]
    fn who_has_left_takes_no_job_from_those_who_wait() {
        let mut m = manager();
        let (one, two) = (waitable(&mut m, 1.0, 0), waitable(&mut m, 2.0, 0));
        let (gone, stays) = (wait(&mut m, None), wait(&mut m, None));
        m.abandon(gone);
        m.advance(1.0);
        assert_eq!(answer(&mut m, stays), success(one));
        // A job whose waiter has left can be waited for again.
        let gone = wait(&mut m, Some(two));
        m.abandon(gone);
        let stays = wait(&mut m, Some(two));
        m.advance(1.0);
        assert_eq!(answer(&mut m, stays), success(two));
    }

    #[test]
    fn the_answer_comes_at_the_end_and_once() {
        let mut m = manager();
        let id = waitable(&mut m, 5.0, 0);
        let waiter = wait(&mut m, Some(id));
        assert_eq!(answer(&mut m, waiter), None);
        let second = wait(&mut m, Some(id));
        assert_eq!(answer(&mut m, second), Some(refusal(10, "job id already has a waiter")));
        m.advance(5.0);
        assert_eq!(answer(&mut m, waiter), success(id));
        let late = wait(&mut m, Some(id));
        assert_eq!(answer(&mut m, late), Some(refusal(10, UNKNOWN)));
    }

    #[test]
    fn failures_come_with_their_reason() {
        let mut m = manager();
        let exited = waitable(&mut m, 1.0, 3 << 8);
        let canceled = waitable(&mut m, 9.0, 0);
        m.raise(canceled, "cancel", 0, "not needed").unwrap();
        m.advance(1.0);
        let waiter = wait(&mut m, Some(exited));
        let text = "task(s) exited with exit code 3";
        assert_eq!(answer(&mut m, waiter), failure(exited, text));
        let waiter = wait(&mut m, Some(canceled));
        let text = "Fatal exception type=cancel not needed";
        assert_eq!(answer(&mut m, waiter), failure(canceled, text));
    }

    #[test]
    fn any_job_goes_to_the_first_who_takes_any_and_a_certain_one_to_his_own() {
        let mut m = manager();
        let (a, b, c) =
            (waitable(&mut m, 1.0, 0), waitable(&mut m, 2.0, 0), waitable(&mut m, 3.0, 0));
        let (any, other, certain) = (wait(&mut m, None), wait(&mut m, None), wait(&mut m, Some(a)));
        m.advance(3.0);
        assert_eq!(answer(&mut m, certain), success(a));
        assert_eq!(answer(&mut m, any), success(b));
        assert_eq!(answer(&mut m, other), success(c));
    }

    #[test]
    fn who_would_wait_in_vain_is_told_so() {
        let mut m = manager();
        m.submit(TestJob::new()).unwrap();
        let none = Some(refusal(10, "there are no more waitable jobs"));
        let waiter = wait(&mut m, None);
        assert_eq!(answer(&mut m, waiter), none);
        let id = waitable(&mut m, 1.0, 0);
        let any = wait(&mut m, None);
        let certain = wait(&mut m, Some(id));
        assert_eq!(answer(&mut m, any), none);
        m.advance(1.0);
        assert_eq!(answer(&mut m, certain), success(id));
    }

    #[test]
    fn only_waitable_jobs_can_be_waited_for() {
        let mut m = manager();
        let plain = held(&mut m, OWNER);
        let waiter = wait(&mut m, Some(plain));
        let text = "job was not submitted with FLUX_JOB_WAITABLE";
        assert_eq!(answer(&mut m, waiter), Some(refusal(10, text)));
        let done = over(&mut m);
        for id in [done, JobId::new(7)] {
            let waiter = wait(&mut m, Some(id));
            assert_eq!(answer(&mut m, waiter), Some(refusal(10, UNKNOWN)));
        }
        let text = "Request requires owner credentials";
        assert_eq!(ask(&mut m, GUEST, Request::Wait { id: None }), refusal(1, text));
    }

    #[test]
    fn after_a_restart_every_end_can_be_waited_for_again() {
        let mut m = manager();
        let (done, runs) = (waitable(&mut m, 1.0, 0), waitable(&mut m, 9.0, 0));
        m.advance(1.0);
        let waiter = wait(&mut m, None);
        assert_eq!(answer(&mut m, waiter), success(done));
        m.crash_and_restart();
        let waiter = wait(&mut m, None);
        assert_eq!(answer(&mut m, waiter), success(done));
        let waiter = wait(&mut m, None);
        m.advance(9.0);
        assert_eq!(answer(&mut m, waiter), success(runs));
    }

    #[test]
    fn a_purge_takes_no_end_from_who_waits_later() {
        let mut m = manager();
        let id = waitable(&mut m, 1.0, 0);
        m.advance(1.0);
        m.purge(id).unwrap();
        let waiter = wait(&mut m, Some(id));
        assert_eq!(answer(&mut m, waiter), success(id));
    }

    #[test]
    fn a_waiter_who_has_left_takes_no_job_from_others() {
        let mut m = manager();
        let id = waitable(&mut m, 1.0, 0);
        let gone = wait(&mut m, None);
        m.abandon(gone);
        m.advance(1.0);
        let waiter = wait(&mut m, Some(id));
        assert_eq!(answer(&mut m, waiter), success(id));
    }
}

mod rest {
    use super::*;

    #[test]
    fn drain_waits_for_all_jobs_and_idle_for_those_that_run() {
        let mut m = manager();
        assert_eq!(ask(&mut m, OWNER, Request::Drain), Ok(json!({})));
        assert_eq!(ask(&mut m, OWNER, Request::Idle), Ok(json!({"pending": 0})));
        let pending = held(&mut m, OWNER);
        assert_eq!(ask(&mut m, OWNER, Request::Idle), Ok(json!({"pending": 1})));
        m.submit(TestJob::new().run_for(5.0)).unwrap();
        let drain = m.open_request(OWNER, Request::Drain);
        let idle = m.open_request(OWNER, Request::Idle);
        assert_eq!((answer(&mut m, drain), answer(&mut m, idle)), (None, None));
        m.advance(5.0);
        assert_eq!(answer(&mut m, idle), Some(Ok(json!({"pending": 1}))));
        assert_eq!(answer(&mut m, drain), None);
        m.cancel(pending).unwrap();
        assert_eq!(answer(&mut m, drain), Some(Ok(json!({}))));
    }

    #[test]
    fn who_waits_for_jobs_hears_that_the_manager_ends() {
        let mut m = manager();
        let id = m.submit(TestJob::new().waitable()).unwrap();
        let requests = [
            Request::Drain,
            Request::Idle,
            Request::Wait { id: Some(id) },
            Request::Wait { id: None },
        ];
        let [drain, idle, one, any] = requests.map(|request| m.open_request(OWNER, request));
        let vain = "there are no more waitable jobs";
        assert_eq!(answer(&mut m, any), Some(refusal(10, vain)));
        m.unload();
        for waiter in [drain, idle, one] {
            assert_eq!(answer(&mut m, waiter), Some(refusal(38, "job-manager is unloading")));
        }
        m.crash_and_restart();
        m.assert_state(id, State::Run);
    }

    #[test]
    fn a_stopped_queue_is_idle_whatever_waits_in_it() {
        let mut m = manager();
        m.scheduling(false).unwrap();
        m.submit(TestJob::new()).unwrap();
        assert_eq!(ask(&mut m, OWNER, Request::Idle), Ok(json!({"pending": 1})));
    }

    #[test]
    fn both_are_the_owners() {
        let mut m = manager();
        let text = "Request requires owner credentials";
        assert_eq!(ask(&mut m, GUEST, Request::Drain), refusal(1, text));
        assert_eq!(ask(&mut m, GUEST, Request::Idle), refusal(1, text));
    }
}

mod hints {
    use super::*;

    /// Supports a dependency scheme, and is loaded by name only.
    #[derive(Default)]
    struct Quota;

    #[jobtap_plugin(name = "quota", load = "by-name")]
    impl Quota {
        #[on("job.dependency.after-quota")]
        fn check(&self) {}
    }

    #[test]
    fn a_plugin_that_is_linked_and_not_loaded_is_named() {
        let mut m = TestManager::new().plugin::<ByUrgency>().linked::<Quota>().start();
        let job = |scheme: &str| TestJob::new().dependency(&format!("{scheme}:x"));
        let refusal = m.submit(job("after-quota")).unwrap_err();
        let text = "dependency scheme \"after-quota\" not supported: plugin quota, which supports it, is \
                    not loaded";
        assert_eq!(refusal, text);
        let refusal = m.query_plugin("quota").unwrap_err();
        assert_eq!(refusal, "quota: plugin not found: it is linked and not loaded");
        m.load_plugin("quota", json!({})).unwrap();
        m.submit(job("after-quota")).unwrap();
        let refusal = m.submit(job("after-quata")).unwrap_err().text();
        assert!(refusal.ends_with("not supported; did you mean \"after-quota\"?"), "{refusal}");
        let refusal = m.submit(job("moon")).unwrap_err();
        assert_eq!(refusal, "dependency scheme \"moon\" not supported");
    }
}
