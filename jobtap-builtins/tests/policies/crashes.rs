//! All builtins together, with a crash at every step: whatever was committed last, each job has the same
//! result and the same events, and the plugins' state agrees with the jobs again.

use std::collections::BTreeMap;

use jobtap_builtins::*;
use jobtap_core::prelude::*;
use jobtap_core::resource::Idset;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

const DURATION: &str = "attributes.system.duration";

fn manager() -> TestManager {
    let named = ["dependency-dataflow", "alloc-bypass", "alloc-check"];
    let plugins: Vec<Value> = named.iter().map(|name| json!({ "load": name })).collect();
    TestManager::new()
        .plugin::<PriorityDefault>()
        .plugin::<LimitJobSize>()
        .plugin::<LimitDuration>()
        .plugin::<DependencyAfter>()
        .plugin::<DependencySingleton>()
        .plugin::<BeginTime>()
        .plugin::<ValidateDuration>()
        .plugin::<UpdateDuration>()
        .plugin::<History>()
        .plugin::<PostEvent>()
        .plugin::<DependencyDataflow>()
        .plugin::<AllocBypass>()
        .plugin::<AllocCheck>()
        .config(json!({
            "policy": {"limits": {"duration": "1h", "job-size": {"max": {"ncores": 4}}}},
            "job-manager": {"plugins": plugins},
        }))
        .cores(16)
        .lifetime(1e6)
        .start()
}

/// The acts of users. Jobs are named by labels, since a crash can change their ids.
enum Act {
    Submit(&'static str, fn(&TestManager) -> TestJob),
    Update(&'static str, f64),
    Post(&'static str),
    Cancel(&'static str),
    Finish(&'static str, u8),
    Purge(&'static str),
    Advance(f64),
}

fn plain() -> TestJob {
    TestJob::new().duration(60.0).user(7)
}

fn on(m: &TestManager, scheme: &str, target: &str) -> TestJob {
    plain().dependency(&format!("{scheme}:{}", find(m, target).unwrap()))
}

fn single(_: &TestManager) -> TestJob {
    plain().name("one").dependency("singleton")
}

fn with_resources() -> TestJob {
    let mut core = ResourceSet::single_host("testhost", Idset::from(15..=15)).unwrap();
    // A job that bypasses the scheduler ends when its resources expire.
    core.set_times(1.7e9, 1.7e9 + 60.0).unwrap();
    let r: Value = serde_json::from_str(&core.to_json()).unwrap();
    TestJob::new().duration(60.0).attribute("alloc-bypass.R", r)
}

fn scenario() -> Vec<Act> {
    use Act::*;
    vec![
        Submit("first", single),
        Submit("second", single),
        Submit("third", single),
        Submit("same name", |_| plain().name("one")),
        Submit("afterok", |m| on(m, "afterok", "first")),
        Submit("afternotok", |m| on(m, "afternotok", "first")),
        Submit("afterstart", |m| on(m, "afterstart", "second")),
        Submit("afterany", |m| on(m, "afterany", "cancelled").dependency("begin-time:1")),
        Submit("later", |_| plain().dependency("begin-time:1700000030")),
        Submit("writer", |_| plain().dependency("string:A?type=out&scope=user")),
        Submit("reader", |_| plain().dependency("string:A?type=in&scope=user")),
        Submit("overwriter", |_| plain().dependency("string:A?type=out&scope=user")),
        Submit("beside", |_| with_resources()),
        Submit("twice", |_| with_resources()),
        Update("first", 7200.0),
        Update("second", 120.0),
        Post("first"),
        Cancel("third"),
        Finish("first", 0),
        Finish("same name", 0),
        Advance(30.0),
        Finish("writer", 1),
        Finish("afterok", 0),
        Cancel("reader"),
        Finish("overwriter", 0),
        Purge("cancelled"),
        Finish("beside", 0),
        Finish("second", 0),
        Finish("afterstart", 0),
        Finish("afterany", 0),
        Finish("later", 0),
    ]
}

fn find(m: &TestManager, label: &str) -> Option<JobId> {
    let labelled =
        |id: &JobId| m.job(*id).jobspec().attribute("label").and_then(Value::as_str) == Some(label);
    m.jobs().into_iter().find(labelled)
}

/// Returns whether an act has taken effect, as a user would check after a crash.
fn is_done(m: &TestManager, act: &Act) -> bool {
    let job = |label| find(m, label).map(|id| m.job(id));
    match act {
        Act::Submit(label, _) => find(m, label).is_some(),
        Act::Update(label, duration) => job(label).unwrap().jobspec().duration() == *duration,
        Act::Post(label) => job(label).unwrap().event_posted("hello"),
        Act::Cancel(label) | Act::Finish(label, _) => job(label).unwrap().end_event().is_some(),
        Act::Purge(label) => find(m, label).is_none(),
        Act::Advance(_) => false,
    }
}

fn perform(m: &mut TestManager, act: &Act) {
    // A dead manager gives no answer, which doesn't count as a refusal.
    let id = |m: &TestManager, label| find(m, label).unwrap();
    let answer = match act {
        Act::Submit(label, job) => {
            let job = job(m).attribute("label", *label);
            m.submit(job).map(drop)
        }
        Act::Update(label, duration) => m.update(id(m, label), DURATION, *duration),
        Act::Post(label) => {
            let post = json!({"id": id(m, label), "name": "hello"});
            m.call_service("post-event.post", post).map(drop)
        }
        Act::Cancel(label) => m.cancel(id(m, label)),
        Act::Finish(label, code) => {
            let id = id(m, label);
            m.assert_state(id, State::Run);
            m.finish(id, *code);
            Ok(())
        }
        Act::Purge(label) => m.purge(id(m, label)),
        Act::Advance(seconds) => {
            m.advance(*seconds);
            Ok(())
        }
    };
    if !m.is_dead() {
        answer.unwrap();
    }
}

/// Plays the scenario with a crash after this many steps of the manager; returns whether it crashed.
fn play(crash_after: Option<u32>) -> (TestManager, bool) {
    tell_with(crash_after, |_| ())
}

/// Like [`play`], and calls a function after every act.
fn tell_with(crash_after: Option<u32>, between: impl Fn(&mut TestManager)) -> (TestManager, bool) {
    let mut m = manager();
    let cancelled = m.submit(plain().attribute("label", "cancelled").urgency(0)).unwrap();
    m.cancel(cancelled).unwrap();
    if let Some(steps) = crash_after {
        m.crash_in(steps);
    }
    let mut crashed = false;
    for act in scenario() {
        let mut again = true;
        while again && !is_done(&m, &act) {
            perform(&mut m, &act);
            again = m.is_dead() && !matches!(act, Act::Advance(_));
            if m.is_dead() {
                crashed = true;
                m.crash_and_restart();
            }
        }
        between(&mut m);
        check(&mut m);
        if m.is_dead() {
            crashed = true;
            m.crash_and_restart();
            check(&mut m);
        }
    }
    (m, crashed)
}

/// Asserts that the plugins' state agrees with the jobs. The manager may crash during the queries.
fn check(m: &mut TestManager) {
    for user in [7, 1000] {
        let mut own: Vec<JobId> = m.jobs();
        own.retain(|id| m.job(*id).userid() == Uid::new(user));
        own.reverse();
        let answer = m.call_service_as(user, "history.get", json!({"slice": "[:]"}));
        let Ok(answer) = answer else {
            return assert!(m.is_dead());
        };
        assert_eq!(answer, json!({ "jobs": own }));
    }
    let mut active: Vec<JobId> = m.jobs();
    active.retain(|id| m.job(*id).state() != State::Inactive);
    let named = active.iter().filter(|id| m.job(**id).jobspec().name() == Some("one"));
    let waiting = named.clone().filter(|id| m.job(**id).dependency("singleton").is_some());
    let (count, waiting) = (named.clone().count(), waiting.collect::<Vec<_>>());
    let wanted = json!({ "count": count, "singletons": waiting });
    let wanted = if count == 0 { Value::Null } else { wanted };
    let Ok(query) = m.query_plugin(".dependency-singleton") else {
        return assert!(m.is_dead());
    };
    assert_eq!(query.get("7:one").cloned().unwrap_or_default(), wanted);
}

/// Returns the events of each job by its label, without those that a restart adds.
fn ends(m: &TestManager) -> BTreeMap<String, Vec<String>> {
    let mut ends = BTreeMap::new();
    for id in m.jobs() {
        let label = m.job(id).jobspec().attribute("label").and_then(Value::as_str).unwrap();
        let mut events = m.events(id);
        events.retain(|name| name != "flux-restart");
        events.dedup();
        ends.insert(label.to_owned(), events);
    }
    ends
}

#[test]
fn the_scenario_without_crashes_has_the_expected_events() {
    let (m, _) = play(None);
    let ends = ends(&m);
    let events = |label: &str| ends[label].join(" ");
    let ran = "depend priority alloc start finish release free clean";
    assert_eq!(events("same name"), format!("submit validate {ran}"));
    assert_eq!(
        events("first"),
        "submit validate depend priority alloc start set-flags jobspec-update resource-update hello \
         finish release free clean"
    );
    assert_eq!(
        events("second"),
        format!("submit dependency-add validate set-flags jobspec-update dependency-remove {ran}")
    );
    assert_eq!(events("third"), "submit dependency-add validate exception clean");
    for label in ["afterok", "afterstart", "later", "overwriter"] {
        let wanted = format!("submit dependency-add validate dependency-remove {ran}");
        assert_eq!(events(label), wanted, "{label}");
    }
    assert_eq!(
        events("afterany"),
        format!(
            "submit dependency-add dependency-remove dependency-add validate dependency-remove {ran}"
        )
    );
    assert_eq!(events("afternotok"), "submit dependency-add validate exception clean");
    assert_eq!(events("beside"), format!("submit set-flags validate {ran}"));
    m.assert_exception(find(&m, "twice").unwrap(), "alloc-check", "already allocated");
    assert_eq!(m.free_resources().unwrap().ncores(), 16);
}

#[test]
fn a_crash_at_any_moment_changes_no_jobs_result() {
    let (m, _) = play(None);
    let wanted = ends(&m);
    let mut steps = 0;
    loop {
        let (mut m, crashed) = play(Some(steps));
        if !crashed {
            break;
        }
        assert!(steps < 5000, "the scenario does not end");
        assert_eq!(ends(&m), wanted, "crashed after {steps} steps");
        assert_eq!(m.free_resources().unwrap().ncores(), 16, "crashed after {steps} steps");
        // Nothing is still counted as allocated.
        let id = m.submit(with_resources()).unwrap();
        m.assert_state(id, State::Run);
        steps += 1;
    }
    assert!(steps > 150, "only {steps} moments");
}

/// The plugins of the scenario, not in the order in which they are loaded.
const NAMES: [&str; 13] = [
    "alloc-bypass",
    "alloc-check",
    "dependency-dataflow",
    ".begin-time",
    ".dependency-after",
    ".dependency-singleton",
    ".history",
    ".limit-duration",
    ".limit-job-size",
    ".post-event",
    ".priority-default",
    ".update-duration",
    ".validate-duration",
];

#[test]
fn loading_and_removing_plugins_changes_no_jobs_result() {
    let wanted = ends(&play(None).0);
    let (m, _) = tell_with(None, |m| {
        for name in NAMES {
            m.remove_plugin(name).unwrap();
            m.load_plugin(name, json!({})).unwrap();
        }
    });
    assert_eq!(ends(&m), wanted);
    let (m, _) = tell_with(None, |m| {
        for name in NAMES {
            m.reload_plugin(name, json!({})).unwrap();
        }
    });
    assert_eq!(ends(&m), wanted);
}

#[test]
fn a_missing_plugin_leaves_no_job_without_a_reason() {
    for name in NAMES {
        let mut m = manager();
        let cancelled = m.submit(plain().attribute("label", "cancelled").urgency(0)).unwrap();
        m.cancel(cancelled).unwrap();
        for act in scenario().into_iter().filter(|act| matches!(act, Act::Submit(..))) {
            perform(&mut m, &act);
        }
        m.remove_plugin(name).unwrap();
        m.advance(100.0);
        for id in m.jobs() {
            let state = m.job(id).state();
            assert!(!m.why(id).is_empty(), "{name}: {id} in {state}");
        }
        m.load_plugin(name, json!({})).unwrap();
        // Each running job has reached its time limit, and no job waits for it any more.
        m.advance(1000.0);
        for id in m.jobs() {
            assert_eq!(m.job(id).state(), State::Inactive, "{name}: {:?}", m.events(id));
        }
    }
}
