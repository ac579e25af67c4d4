//! What a listing shows: which jobs match its constraint, in which order, and how many.

use jobtap_core::engine::{Listed, Listing};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::ByUrgency;

const QUEUES: &str = r#"{"queues": {"day": {}, "night": {}}}"#;

/// Jobs in several states, which their names tell apart.
struct Jobs {
    m: TestManager,
    begun: f64,
}

/// Submits the jobs, most of them a second apart: two finish, one is canceled, two run, and three are pending.
fn jobs() -> Jobs {
    let config = serde_json::from_str(QUEUES).unwrap();
    let builder = TestManager::new().plugin::<ByUrgency>().hosts(4).cores(4).config(config);
    let mut m = builder.start();
    m.scheduling(true).unwrap();
    let begun = m.now().as_secs();
    let job =
        |name: &str, user: u32, queue: &str| TestJob::new().name(name).user(user).queue(queue);
    let done = m.submit(job("done", 1001, "day").nodes(1).exclusive()).unwrap();
    m.advance(1.0);
    let failed = m.submit(job("failed", 1002, "night").nodes(1).exclusive()).unwrap();
    m.advance(1.0);
    let canceled = m.submit(job("canceled", 1001, "day").urgency(0)).unwrap();
    m.advance(1.0);
    m.finish(done, 0);
    m.advance(1.0);
    m.finish(failed, 3);
    m.advance(1.0);
    m.cancel(canceled).unwrap();
    m.advance(1.0);
    m.submit(job("runs", 1001, "day").nodes(1).exclusive()).unwrap();
    m.advance(1.0);
    m.submit(job("spread", 1002, "night").nodes(2).exclusive()).unwrap();
    m.advance(1.0);
    m.submit(job("low", 1002, "day").urgency(1).nodes(4).exclusive()).unwrap();
    m.submit(job("high", 1001, "night").urgency(15).nodes(4).exclusive()).unwrap();
    m.submit(job("second", 1001, "night").urgency(15).nodes(4).exclusive()).unwrap();
    Jobs { m, begun }
}

const OVER: [&str; 3] = ["canceled", "failed", "done"];
const ALL: [&str; 8] = ["high", "second", "low", "spread", "runs", "canceled", "failed", "done"];

impl Jobs {
    fn names(&self, payload: Value) -> Vec<String> {
        let jobs = self.m.list(payload).unwrap();
        jobs.iter().map(|job| job["name"].as_str().unwrap().to_owned()).collect()
    }

    fn chosen(&self, constraint: Value) -> Vec<String> {
        self.names(json!({ "constraint": constraint }))
    }

    fn refused(&self, payload: Value) -> String {
        self.m.list(payload).unwrap_err().text()
    }
}

#[test]
fn those_that_wait_come_first_then_those_that_run_then_those_over() {
    let jobs = jobs();
    assert_eq!(jobs.names(json!({})), ALL);
    assert_eq!(jobs.names(json!({"constraint": {}, "max_entries": 0})), ALL);
    assert_eq!(jobs.names(json!({"max_entries": 1})), ALL[..1]);
    assert_eq!(jobs.names(json!({"max_entries": 4})), ALL[..4]);
    assert_eq!(jobs.names(json!({"max_entries": 6})), ALL[..6]);
    assert_eq!(jobs.refused(json!({"max_entries": -1})), "max_entries < 0 not allowed");
}

#[test]
fn since_leaves_out_what_ended_before() {
    let jobs = jobs();
    let since = |name: &str| {
        let id = jobs.m.jobs().into_iter().find(|id| jobs.m.listed(*id)["name"] == name).unwrap();
        let end = jobs.m.listed(id)["t_inactive"].as_f64().unwrap();
        jobs.names(json!({"since": end, "constraint": {"states": ["inactive"]}}))
    };
    // `since` is exclusive, so the job itself is not listed.
    assert_eq!(since("done"), OVER[..2]);
    assert_eq!(since("canceled"), [""; 0]);
    assert_eq!(jobs.names(json!({"since": jobs.begun + 1000.0})), ALL[..5]);
}

#[test]
fn each_operator_chooses_by_its_own() {
    let jobs = jobs();
    for (constraint, names) in [
        (json!({"userid": [1002]}), &["low", "spread", "failed"][..]),
        (json!({"userid": [-1]}), &ALL),
        (json!({"userid": [1003]}), &[]),
        (json!({"name": ["runs", "done"]}), &["runs", "done"]),
        (json!({"queue": ["day"]}), &["low", "runs", "canceled", "done"]),
        (json!({"queue": ["day", "night"]}), &ALL),
        (json!({"states": ["running"]}), &["spread", "runs"]),
        (json!({"states": [State::Sched.value(), "run"]}), &ALL[..5]),
        (json!({"results": ["failed", "canceled"]}), &["canceled", "failed"]),
        (json!({"results": [JobResult::Completed.value()]}), &["done"]),
        (json!({"results": [JobResult::Failed.value() | JobResult::Canceled.value()]}), &OVER[..2]),
        (json!({"hostlist": ["testhost[1-3]"]}), &["spread", "failed"]),
        (json!({"hostlist": ["testhost2", "elsewhere"]}), &["spread"]),
        (json!({"ranks": ["0", "3"]}), &["runs", "done"]),
        (json!({"and": []}), &ALL),
        (json!({"or": []}), &[]),
        (json!({"not": [{"states": ["inactive"]}]}), &ALL[..5]),
        (
            json!({"not": [{"userid": [1001]}, {"states": ["inactive"]}]}),
            &["high", "second", "low", "spread", "runs", "failed"],
        ),
    ] {
        assert_eq!(jobs.chosen(constraint.clone()), names, "{constraint}");
    }
}

#[test]
fn times_are_compared_and_a_time_that_never_came_fits_nothing() {
    let jobs = jobs();
    let id = jobs.m.jobs()[1];
    let job = jobs.m.listed(id);
    let times = ["submit", "depend", "priority", "sched", "run", "cleanup", "inactive"];
    for time in times.map(|time| format!("t_{time}")) {
        let at = job[&time].as_f64().unwrap();
        let count = |how: &str| {
            let comparison = json!([format!("{how}{at}")]);
            let named = json!({"name": ["failed"]});
            jobs.chosen(json!({"and": [{ (time.as_str()): comparison }, named]})).len()
        };
        let found = ["<", "<=", ">", ">=", "> ", ">= "].map(count);
        assert_eq!(found, [0, 1, 0, 1, 0, 1], "{time}");
        let between = json!([format!(">{}", at - 0.4), format!("<{}", at + 0.4)]);
        assert!(jobs.chosen(json!({ (time.as_str()): between })).contains(&"failed".to_owned()));
    }
    assert_eq!(jobs.chosen(json!({"t_inactive": [">0"]})), OVER);
    assert_eq!(jobs.chosen(json!({"t_run": ["<1e12"]})), ["spread", "runs", "failed", "done"]);
}

#[test]
fn a_malformed_constraint_is_refused_with_what_is_wrong() {
    let jobs = jobs();
    for (constraint, text) in [
        (json!(3), "constraint must be JSON object"),
        (json!({"and": [], "or": []}), "constraint must only contain 1 element"),
        (json!({"userid": 3}), "userid operator value must be an array"),
        (json!({"nosuch": []}), "unknown constraint operator: nosuch"),
        (json!({"name": ["a", 3]}), "name value must be a string"),
        (json!({"states": [true]}), "states and results are names or masks"),
        (json!({"ranks": ["x"]}), "invalid idset 'x': error parsing range 'x'"),
        (json!({"t_run": ["1"]}), "t_run needs comparisons such as \">=1.5\""),
        (json!({"t_run": [">=x"]}), "t_run needs comparisons such as \">=1.5\""),
    ] {
        assert_eq!(jobs.refused(json!({ "constraint": constraint })), text);
    }
    // All lists of a constraint together may have 65,536 hosts that take memory of their own.
    let lists = vec![json!({"hostlist": ["n[1-1024]x"]}); 65];
    let text = jobs.refused(json!({"constraint": {"or": lists}}));
    assert!(text.starts_with("invalid hostlist 'n[1-1024]x'"), "{text}");
    let text = jobs.refused(json!({"constraint": {"hostlist": ["n["]}}));
    assert!(text.starts_with("invalid hostlist 'n['"), "{text}");
}

/// Holds jobs that ask for it.
#[derive(Default)]
struct Token;

#[jobtap_plugin(name = "token")]
impl Token {
    #[on("job.dependency.token")]
    fn hold(&self, dependency: &Dependency, cx: Cx<'_, JobDependency>) -> Result<(), Reject> {
        cx.dependency_add(format!("token={}", dependency.value))?;
        Ok(())
    }
}

#[test]
fn cores_of_whole_nodes_are_listed_once_they_are_known() {
    let mut m = TestManager::new().plugin::<ByUrgency>().hosts(3).cores(4).start();
    let id = m.submit(TestJob::new().nodes(2).exclusive().urgency(0)).unwrap();
    assert_eq!(m.listed(id).get("ncores"), None);
    m.urgency(id, 16).unwrap();
    let listed = m.listed(id);
    // As Flux writes several ranks.
    assert_eq!((&listed["ncores"], &listed["ranks"]), (&json!(8), &json!("[0-1]")));
}

#[test]
fn a_job_is_listed_with_what_it_has_and_nothing_else() {
    let m = &mut TestManager::new().plugin::<ByUrgency>().plugin::<Token>().hosts(2).start();
    let keys = |m: &TestManager, id: JobId| {
        let listed = m.listed(id);
        let optional = ["annotations", "dependencies", "nnodes", "ranks", "t_run", "result"];
        optional.map(|key| listed.get(key).is_some())
    };
    let held = m.submit(TestJob::new().dependency("token:1")).unwrap();
    assert_eq!(keys(m, held), [false, true, false, false, false, false]);
    assert_eq!(m.listed(held)["dependencies"], json!(["token=1"]));
    let waits = m.submit(TestJob::new().nodes(2).urgency(0)).unwrap();
    assert_eq!(keys(m, waits), [false, false, true, false, false, false]);
    let runs = m.submit(TestJob::new()).unwrap();
    assert_eq!(keys(m, runs), [true, false, true, true, true, false]);
    m.finish(runs, 0);
    assert_eq!(keys(m, runs), [true, false, true, true, true, true]);
}

/// A constraint on fields of an inactive summary that are parsed already, and on fields that stay text until something
/// asks for them.
fn constraint() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop::sample::select(vec![-1, 1001, 1002]).prop_map(|user| json!({"userid": [user]})),
        prop::sample::select(ALL.to_vec()).prop_map(|name| json!({"name": [name]})),
        prop::sample::select(vec!["day", "night"]).prop_map(|queue| json!({"queue": [queue]})),
        prop::sample::select(vec!["inactive", "run", "sched", "failed", "canceled"])
            .prop_map(|status| json!({"states": [status]})),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        (prop::sample::select(vec!["and", "or", "not"]), prop::collection::vec(inner, 0..3))
            .prop_map(|(operator, all)| json!({ operator: all }))
    })
}

/// Whether a job matches, judged by its listing.
fn fits(job: &Value, constraint: &Value) -> bool {
    let (operator, values) = constraint.as_object().unwrap().iter().next().unwrap();
    let values = values.as_array().unwrap();
    let is = |key: &str| values.iter().any(|value| *value == job[key]);
    match &**operator {
        "and" => values.iter().all(|value| fits(job, value)),
        "or" => values.iter().any(|value| fits(job, value)),
        "not" => !values.iter().all(|value| fits(job, value)),
        "userid" => is("userid") || values.contains(&json!(-1)),
        "name" => is("name"),
        "queue" => is("queue"),
        _ => {
            let state = State::from_value(job["state"].as_u64().unwrap()).unwrap().long_name();
            let result = job["result"].as_u64().and_then(JobResult::from_value);
            let result = result.map(|result| result.long_name().to_lowercase());
            let named =
                |text: &str| text == state.to_lowercase() || result.as_deref() == Some(text);
            values.iter().any(|value| named(value.as_str().unwrap()))
        }
    }
}

#[test]
fn a_listing_has_the_jobs_that_fit_and_no_others() {
    let jobs = jobs();
    let all = jobs.m.list(json!({})).unwrap();
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() };
    proptest!(config, |(constraint in constraint())| {
        let wanted: Vec<&Value> = all.iter().filter(|job| fits(job, &constraint)).collect();
        let listed = jobs.m.list(json!({ "constraint": constraint })).unwrap();
        prop_assert_eq!(listed.iter().collect::<Vec<_>>(), wanted);
    });
}

#[test]
fn tasks_of_each_node_are_counted_once_there_are_nodes() {
    let mut m = TestManager::new().plugin::<ByUrgency>().hosts(2).cores(2).start();
    let job = || {
        let per_node = json!({"type": "node", "count": 3});
        TestJob::new().ntasks(4).attribute("shell.options.per-resource", per_node)
    };
    let (runs, waits) = (m.submit(job()).unwrap(), m.submit(job()).unwrap());
    assert_eq!(m.listed(runs)["ntasks"], 6, "three on each of the two nodes of its R");
    assert!(m.listed(waits).get("ntasks").is_none(), "it has no nodes yet");
}

/// The ids and states of the jobs that a listing still has.
fn rest(m: &TestManager, mut listing: Listing) -> Vec<(u64, u64)> {
    let mut jobs = Vec::new();
    loop {
        match m.engine().unwrap().next_listed(&mut listing) {
            Listed::Item(job) => {
                let number = |key: &str| job.get(key).and_then(Value::as_u64).unwrap();
                jobs.push((number("id"), number("state")));
            }
            Listed::Passed => {}
            Listed::End => return jobs,
        }
    }
}

#[test]
fn a_job_that_ends_during_a_listing_is_listed_once() {
    let mut m = TestManager::new().start();
    let submit = |m: &mut TestManager| m.submit(TestJob::new()).unwrap();
    let before = submit(&mut m);
    m.advance(1.0);
    m.cancel(before).unwrap();
    let ends = submit(&mut m);
    let begin = |m: &TestManager, payload| m.engine().unwrap().begin_list(&payload).unwrap();
    // Without a plugin that gives a priority, jobs stay in PRIORITY.
    let waiting = json!({"constraint": {"states": [State::Priority.value()]}});
    let (all, waiting) = (begin(&m, json!({})), begin(&m, waiting));
    m.advance(1.0);
    m.cancel(ends).unwrap();
    let late = submit(&mut m);
    let inactive = u64::from(State::Inactive.value());
    assert_eq!(rest(&m, all), [(ends.as_u64(), inactive), (before.as_u64(), inactive)]);
    // It does not match the constraint any more.
    assert_eq!(rest(&m, waiting), []);
    assert_eq!(rest(&m, begin(&m, json!({"max_entries": 1}))).len(), 1);
    let ids: Vec<u64> = rest(&m, begin(&m, json!({}))).iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [late.as_u64(), ends.as_u64(), before.as_u64()]);
}
