//! Job arrays: elements that become jobs when their turn comes.

use std::collections::BTreeMap;

use jobtap_core::array::{Element, Elements};
use jobtap_core::engine::{RaisedException, Request};
use jobtap_core::job::{JobId, State};
use jobtap_core::prelude::*;
use jobtap_core::testing::{Refused, TestJob, TestManager, TestManagerBuilder};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::ByUrgency;

fn elements(value: Value) -> Elements {
    serde_json::from_value(value).unwrap()
}

fn array(indexes: &str) -> TestJob {
    TestJob::new().elements(elements(json!({ "indexes": indexes })))
}

fn cores(cores: u32) -> TestManagerBuilder {
    TestManager::new().plugin::<ByUrgency>().cores(cores)
}

fn text(m: &TestManager, id: JobId, key: &str) -> String {
    m.array(id)[key].as_str().unwrap().to_owned()
}

fn running(m: &TestManager, id: JobId) -> u64 {
    m.array(id)["running"].as_u64().unwrap()
}

/// Refuses jobs beyond so many of a user, as accounting does.
#[derive(Default)]
struct Few {
    active: u32,
    asked: u32,
}

const MOST: u32 = 3;

#[jobtap_plugin(name = "few")]
impl Few {
    #[on("job.validate")]
    fn validate(&mut self) -> Result<(), Reject> {
        self.asked += 1;
        if self.active >= MOST { Err(Reject::new("too many jobs")) } else { Ok(()) }
    }

    #[on("job.new")]
    fn accepted(&mut self, _job: &Job) {
        self.active += 1;
    }

    #[on("job.state.inactive")]
    fn inactive(&mut self, _job: &Job) {
        self.active -= 1;
    }

    #[on("plugin.query")]
    fn query(&self) -> QueryData {
        QueryData::new().with("asked", self.asked)
    }
}

#[test]
fn a_large_array_is_few_jobs_at_a_time() {
    let mut m = cores(4).start();
    let id = m.submit(array("1-10000").run_for(1.0)).unwrap();
    assert!(m.jobs().len() < 2000, "{} jobs", m.jobs().len());
    let states = &m.job_stats()["job_states"];
    assert_eq!((states["total"].as_u64(), states["run"].as_u64()), (Some(10_000), Some(4)));
    m.advance(10.0);
    assert_eq!(text(&m, id, "completed"), "1-40");
    assert_eq!(m.array(id)["running"], 4);
    m.advance(2490.0);
    let array = m.array(id);
    assert_eq!((&array["completed"], &array["over"]), (&json!("1-10000"), &json!(true)));
    assert_eq!(m.job_stats()["job_states"]["sched"], 0);
}

#[test]
fn elements_differ_in_the_places_that_the_request_names() {
    let mut m = cores(1).start();
    let elements = elements(json!({
        "indexes": "5,9",
        "fields": [["x y", "z"]],
        "places": [{"at": "/tasks/0/command/0", "pieces": ["say ", 0]}],
    }));
    let id = m.submit(TestJob::new().elements(elements)).unwrap();
    for (index, command) in [(5, "say x y"), (9, "say z")] {
        let job = m.element(id, index).unwrap();
        let jobspec = m.job(job).jobspec();
        assert_eq!(jobspec.command().collect::<Vec<_>>(), [command]);
        let slurm = jobspec.attribute("system.slurm").unwrap();
        assert_eq!(slurm, &json!({"array_job_id": id, "array_task_id": index}));
    }
    assert_eq!(m.element(id, 6), None);
}

#[test]
fn elements_that_do_not_fit_the_jobspec_are_refused() {
    let mut m = cores(1).start();
    let wrong = json!({"indexes": "0", "places": [{"at": "/tasks/0/command/7", "pieces": []}]});
    let refused = m.submit(TestJob::new().elements(elements(wrong))).unwrap_err();
    assert!(refused.to_string().contains("the jobspec has no text at"), "{refused}");
    assert_eq!(m.jobs(), []);
}

#[test]
fn the_refusal_of_the_first_element_is_that_of_the_array() {
    let mut m = cores(1).plugin::<Few>().start();
    for _ in 0..MOST {
        m.submit(TestJob::new()).unwrap();
    }
    let refused = m.submit(array("0-9")).unwrap_err();
    assert_eq!(refused.to_string(), "too many jobs");
    m.crash_and_restart();
    assert_eq!(m.jobs().len(), MOST as usize);
    assert_eq!(m.job_stats()["job_states"]["total"], MOST);
}

#[test]
fn refused_elements_wait_until_others_have_ended() {
    let mut m = cores(8).plugin::<Few>().start();
    let id = m.submit(array("0-9").run_for(10.0)).unwrap();
    assert_eq!(m.array(id)["refused"], "too many jobs");
    assert_eq!(running(&m, id), 3);
    m.advance(10.0);
    assert_eq!(running(&m, id), 3);
    m.advance(90.0);
    assert_eq!(text(&m, id, "completed"), "0-9");
    assert_eq!(m.array(id).get("refused"), None);
}

#[test]
fn refused_elements_cost_few_calls_of_plugins() {
    let mut m = cores(8).plugin::<Few>().start();
    let id = m.submit(array("0-299").run_for(10.0)).unwrap();
    m.advance(1100.0);
    assert_eq!(text(&m, id, "completed"), "0-299");
    let asked = m.query_plugin("few").unwrap()["asked"].as_u64().unwrap();
    assert!(asked < 6 * 300, "{asked} calls for 300 jobs");
}

#[test]
fn the_arrays_of_a_user_share_what_may_be_ahead() {
    let mut m = cores(2).start();
    for _ in 0..20 {
        m.submit(array("0-999").user(1001).run_for(1.0)).unwrap();
    }
    assert!(m.jobs().len() < 1100, "{} jobs", m.jobs().len());
    let other = m.submit(array("0-999").user(1002).run_for(1.0)).unwrap();
    assert_eq!(text(&m, other, "waiting"), "");
    m.advance(11_000.0);
    assert_eq!(m.job_stats()["successful"], 21_000);
}

/// Looks for a minute at each element but the first, and at jobs that run again.
#[derive(Default)]
struct Slow;

#[jobtap_plugin(name = "slow")]
impl Slow {
    #[on("job.validate")]
    async fn validate(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
        let place = Element::of(job.jobspec.value());
        let is_again = job.jobspec.value().pointer("/attributes/system/slurm/requeue_of").is_some();
        if place.is_some_and(|place| place.index > 0) || is_again {
            remote.sleep(60.0).await?;
        }
        Ok(())
    }
}

#[test]
fn elements_at_the_gates_are_canceled_and_held_with_the_others() {
    let mut m = cores(2).plugin::<Slow>().start();
    let canceled = m.submit(array("0-9").run_for(1.0)).unwrap();
    let held = m.submit(array("0-9").run_for(1.0)).unwrap();
    assert_eq!(text(&m, canceled, "waiting"), "1-9");
    m.urgency(held, 0).unwrap();
    m.cancel(canceled).unwrap();
    m.advance(300.0);
    let array = m.array(canceled);
    assert_eq!((&array["over"], &array["canceled"]), (&json!(true), &json!("0-9")), "{array}");
    assert_eq!((text(&m, held, "completed"), running(&m, held)), ("0".to_owned(), 0));
    m.urgency(held, 16).unwrap();
    m.advance(300.0);
    assert_eq!(text(&m, held, "completed"), "0-9");
}

#[test]
fn an_element_that_ends_before_it_runs_again_is_not_over() {
    let mut m = cores(1).plugin::<Slow>().start();
    let id = m.submit(array("0")).unwrap();
    let first = m.element(id, 0).unwrap();
    let asked = m.open_request(1000, Request::Requeue { id: first, hold: false });
    m.finish(first, 0);
    assert_eq!((m.job(first).state(), &m.array(id)["over"]), (State::Inactive, &json!(false)));
    m.advance(60.0);
    let new = m.answered(asked).unwrap().unwrap()["id"].as_u64().map(JobId::new).unwrap();
    assert_eq!((m.element(id, 0), &m.array(id)["over"]), (Some(new), &json!(false)));
    m.finish(new, 1);
    let array = m.array(id);
    assert_eq!((&array["failed"], &array["completed"]), (&json!("0"), &json!("")), "{array}");
}

#[test]
fn an_array_is_kept_as_long_as_one_of_its_jobs() {
    let config = json!({"job-manager": {"inactive-num-limit": 50}});
    let mut m = cores(2).config(config).start();
    let id = m.submit(array("0-199")).unwrap();
    m.cancel(id).unwrap();
    let jobs: Vec<JobId> = (0..200).filter_map(|index| m.element(id, index)).collect();
    for _ in 0..20 {
        m.advance(10.0);
        let kept = jobs.iter().filter(|job| m.jobs().contains(job)).count();
        assert_eq!(m.engine().unwrap().array(id).is_ok(), kept > 0, "{kept} jobs");
    }
}

#[test]
fn an_array_that_was_refused_is_tried_again_by_itself() {
    let mut m = cores(8).plugin::<Few>().start();
    let id = m.submit(array("0-4").run_for(1000.0)).unwrap();
    m.remove_plugin("few").unwrap();
    m.advance(0.9);
    assert_eq!(running(&m, id), 3);
    // The pause is 2 s at most after the refusal of two elements.
    m.advance(2.0);
    assert_eq!(running(&m, id), 5);
    assert_eq!(text(&m, id, "waiting"), "");
}

#[test]
fn no_more_elements_are_active_than_the_request_allows() {
    let mut m = cores(8).start();
    let of_request = json!({"indexes": "0-9", "at-once": 2});
    let id = m.submit(TestJob::new().run_for(1.0).elements(elements(of_request))).unwrap();
    assert_eq!((running(&m, id), text(&m, id, "waiting")), (2, "2-9".to_owned()));
    m.advance(4.0);
    assert_eq!((running(&m, id), text(&m, id, "completed")), (2, "0-7".to_owned()));
    m.advance(1.0);
    assert_eq!(m.array(id)["over"], true);
}

#[test]
fn a_canceled_array_ends_whole() {
    let mut m = cores(2).start();
    let id = m.submit(array("0-9999")).unwrap();
    m.cancel(id).unwrap();
    let array = m.array(id);
    assert_eq!((&array["canceled"], &array["over"]), (&json!("0-9999"), &json!(true)));
    assert_eq!(m.job_stats()["job_states"]["total"], m.job_stats()["job_states"]["inactive"]);
    assert!(m.cancel(id).is_err());
}

#[test]
fn single_elements_can_be_canceled() {
    let mut m = cores(1).start();
    let id = m.submit(array("0-5000").run_for(1.0)).unwrap();
    let raise = |indexes: &str| Request::RaiseElements {
        id,
        indexes: indexes.parse().unwrap(),
        exception: RaisedException::new("cancel", 0, ""),
    };
    let asked = m.open_request(1000, raise("0,7,4000-4999"));
    assert_eq!(m.answered(asked).unwrap().unwrap(), json!({"count": 1002}));
    assert_eq!(text(&m, id, "canceled"), "0,7,4000-4999");
    let asked = m.open_request(1000, raise("6000"));
    let refused = m.answered(asked).unwrap().unwrap_err();
    assert_eq!(refused.text, "the array has no element with index 6000");
    let asked = m.open_request(1001, raise("1"));
    assert_eq!(m.answered(asked).unwrap().unwrap_err().errno, 1);
    m.advance(5000.0);
    assert_eq!(text(&m, id, "completed"), "1-6,8-3999,5000");
}

#[test]
fn to_cancel_all_jobs_cancels_elements_that_are_no_jobs_yet() {
    let mut m = cores(1).start();
    let id = m.submit(array("0-9999")).unwrap();
    m.submit(TestJob::new()).unwrap();
    assert_eq!(m.cancel_all().unwrap(), 10_001);
    assert_eq!(text(&m, id, "canceled"), "0-9999");
    assert_eq!(running(&m, id), 0);
}

#[test]
fn a_held_array_waits_for_its_urgency() {
    let mut m = cores(2).start();
    let id = m.submit(array("0-9").urgency(0).run_for(1.0)).unwrap();
    assert_eq!(m.waits_for(id), Some("held"));
    assert_eq!(m.why(id)[0], "its elements are held: their urgency is 0 (jobtap job urgency)");
    m.advance(100.0);
    assert_eq!((running(&m, id), text(&m, id, "waiting")), (0, "1-9".to_owned()));
    m.urgency(id, 16).unwrap();
    assert_eq!(running(&m, id), 2);
    m.advance(5.0);
    assert_eq!(text(&m, id, "completed"), "0-9");
}

#[test]
fn a_job_of_higher_priority_goes_before_the_elements_that_wait() {
    let mut m = cores(1).start();
    m.submit(array("0-9999").run_for(1.0)).unwrap();
    let urgent = m.submit(TestJob::new().urgency(31)).unwrap();
    m.advance(1.0);
    m.assert_state(urgent, State::Run);
}

#[test]
fn to_wait_for_an_array_is_to_wait_for_all_elements() {
    let mut m = cores(2).start();
    let id = m.submit(array("0-3").run_for(1.0)).unwrap();
    let waiter = m.open_request(1000, Request::WaitArray { id });
    let drained = m.open_request(1000, Request::Drain);
    m.advance(1.5);
    assert_eq!(m.answered(waiter), None);
    m.advance(0.5);
    assert_eq!(m.answered(waiter).unwrap().unwrap()["completed"], "0-3");
    assert!(m.answered(drained).unwrap().is_ok());
    let late = m.open_request(1000, Request::WaitArray { id });
    assert_eq!(m.answered(late).unwrap().unwrap()["over"], true);
}

#[test]
fn an_array_goes_when_all_its_jobs_are_purged() {
    let config = json!({"job-manager": {"inactive-age-limit": "60s"}});
    let mut m = cores(2).config(config).start();
    let id = m.submit(array("0-3").run_for(1.0)).unwrap();
    m.advance(50.0);
    assert_eq!(m.array(id)["over"], true);
    m.advance(100.0);
    assert_eq!(m.jobs(), []);
    assert!(m.engine().unwrap().array(id).is_err());
    m.crash_and_restart();
    assert!(m.engine().unwrap().array(id).is_err());
}

#[test]
fn a_restarted_manager_goes_on_with_the_elements() {
    let mut m = cores(2).start();
    let of_request = json!({
        "indexes": "0-2999",
        "fields": [{"from": 1}],
        "places": [{"at": "/tasks/0/command/0", "pieces": ["n", 0]}],
    });
    let id = m.submit(TestJob::new().run_for(1.0).elements(elements(of_request))).unwrap();
    m.advance(10.5);
    let before = m.array(id);
    m.crash_and_restart();
    let after = m.array(id);
    for key in ["completed", "waiting", "count", "running", "pending", "t_submit"] {
        assert_eq!(before[key], after[key], "{key}");
    }
    m.advance(1500.0);
    assert_eq!(text(&m, id, "completed"), "0-2999");
    let last = m.element(id, 2999).unwrap();
    assert_eq!(m.job(last).jobspec().command().next(), Some("n3000"));
}

#[derive(Debug, Clone)]
enum Step {
    Advance(u8),
    CancelElement(u16),
    Crash(u8),
    Other,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..40_u8).prop_map(Step::Advance),
        1 => (0..1500_u16).prop_map(Step::CancelElement),
        2 => (0..60_u8).prop_map(Step::Crash),
        1 => Just(Step::Other),
    ];
    prop::collection::vec(step, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn each_element_is_one_job_and_ends_once_whatever_happens(steps in steps(), prefill: bool) {
        let mut m = cores(3);
        if prefill {
            m = m.prefill();
        }
        let mut m = m.start();
        let id = m.submit(array("0-1499").run_for(1.0)).unwrap();
        for step in steps {
            match step {
                Step::Advance(seconds) => m.advance(f64::from(seconds)),
                Step::CancelElement(index) => {
                    let exception = RaisedException::new("cancel", 0, "");
                    let indexes = Idset::from(u32::from(index)..=u32::from(index));
                    m.open_request(1000, Request::RaiseElements { id, indexes, exception });
                }
                Step::Crash(after) => {
                    m.crash_in(after.into());
                    m.advance(3.0);
                    m.crash_and_restart();
                }
                Step::Other => match m.submit(TestJob::new().run_for(2.0).urgency(20)) {
                    Ok(_) | Err(Refused::Dead) => {}
                    Err(error) => panic!("{error}"),
                },
            }
        }
        m.advance(2000.0);
        let array = m.array(id);
        prop_assert_eq!(&array["over"], true, "{}", array);
        let mut jobs: BTreeMap<u64, Vec<JobId>> = BTreeMap::new();
        for job in m.jobs() {
            let place = m.job(job).jobspec().attribute("system.slurm.array_task_id");
            if let Some(index) = place.and_then(Value::as_u64) {
                jobs.entry(index).or_default().push(job);
            }
        }
        prop_assert!(jobs.values().all(|jobs| jobs.len() == 1), "{:?}", jobs);
        let ended = ["completed", "canceled", "failed", "timeout"].map(|key| {
            array[key].as_str().unwrap().parse::<Idset>().unwrap().len()
        });
        prop_assert_eq!(ended.iter().sum::<usize>(), 1500, "{}", array);
    }
}

#[test]
fn a_requeued_element_stays_in_its_array() {
    let mut m = cores(2).start();
    let id = m.submit(array("0-3")).unwrap();
    let first = m.element(id, 0).unwrap();
    let asked = m.open_request(1000, Request::Requeue { id: first, hold: false });
    let new = m.answered(asked).unwrap().unwrap()["id"].as_u64().map(JobId::new);
    assert_eq!(m.element(id, 0), new);
    m.assert_state(first, State::Inactive);
    let counts = |m: &TestManager| (running(m, id), m.array(id)["pending"].as_u64().unwrap());
    let before = (counts(&m), text(&m, id, "canceled"));
    assert_eq!(before, ((2, 2), String::new()));
    m.crash_and_restart();
    assert_eq!((counts(&m), text(&m, id, "canceled")), before);
    while let Some(job) = m.executing().first().copied() {
        m.finish(job, 0);
    }
    assert_eq!(text(&m, id, "completed"), "0-3");
}

#[test]
fn a_listing_joins_the_pending_elements_if_asked_to() {
    let mut m = cores(2).start();
    let id = m.submit(array("0-4999").name("many")).unwrap();
    let other = m.submit(TestJob::new()).unwrap();
    let list = |m: &TestManager, more: Value| {
        let mut payload = json!({"max_entries": 0, "arrays": true});
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let jobs = m.list(payload).unwrap();
        let shown = jobs.iter().map(|job| (job["id"].clone(), job["array"]["elements"].clone()));
        shown.collect::<Vec<_>>()
    };
    let [first, second] = [0, 1].map(|index| m.element(id, index).unwrap());
    let (joined, none) = (json!("2-4999"), Value::Null);
    let expected = [
        (json!(id), joined.clone()),
        (json!(other), none.clone()),
        (json!(first), none.clone()),
        (json!(second), none.clone()),
    ];
    assert_eq!(list(&m, json!({})), expected);
    assert_eq!(list(&m, json!({"constraint": {"name": ["many"]}})).len(), 3);
    assert_eq!(list(&m, json!({"constraint": {"states": [State::Run.value()]}})).len(), 2);
    assert_eq!(list(&m, json!({"constraint": {"userid": [1001]}})), []);
    let listed = m.listed(id);
    assert_eq!((&listed["name"], &listed["ntasks"]), (&json!("many"), &json!(1)));
    m.cancel(id).unwrap();
    assert_eq!(m.listed(id)["result"], JobResult::Canceled.value());
    assert!(list(&m, json!({})).iter().all(|(listed, _)| *listed != json!(id)));
}
