//! Replay of recorded jobs: the outcomes of a plugin, compared with the eventlogs.

use std::sync::Arc;

use jobtap_core::engine::{
    HostCheck, RecordedJob, ReplayComparison, ReplayOptions, Replayed, Setup, replay,
};
use jobtap_core::host::{NoReturn, Registry, Ticks};
use jobtap_core::job::{JobId, Uid};
use jobtap_core::jobspec::JobspecBuilder;
use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;
use jobtap_core::resource::ResourceSet;
use serde_json::{Value, json};

/// A job whose log has these events, one second apart, the first one at `start`.
fn job(id: u64, start: f64, events: &[(&str, Value)]) -> RecordedJob {
    let mut eventlog = String::new();
    for ((name, context), time) in events.iter().zip(0u32..) {
        let timestamp = start + f64::from(time);
        let line = match context {
            Value::Null => json!({"timestamp": timestamp, "name": name}),
            context => json!({"timestamp": timestamp, "name": name, "context": context}),
        };
        eventlog.push_str(&format!("{line}\n"));
    }
    let jobspec = JobspecBuilder::new(["true"]).to_value().to_string();
    RecordedJob { id: JobId::new(id), eventlog, jobspec, resources: None }
}

fn submit(user: u32) -> (&'static str, Value) {
    ("submit", json!({"userid": user, "urgency": 16, "flags": 0, "version": 1}))
}

fn run(plugin: &str, jobs: Vec<RecordedJob>, ignore_missing: bool) -> Replayed {
    let plugins = [Guard::DESCRIPTOR, Other::DESCRIPTOR];
    let setup = Setup {
        owner: Uid(0),
        resources: ResourceSet::new(),
        config: json!({}),
        config_directory: None,
        registry: Registry::builder().plugins(plugins).build().unwrap(),
        remote: Arc::new(NoReturn),
        ticks: Ticks::default(),
        host_check: HostCheck::default(),
    };
    replay(setup, plugin, jobs, ReplayOptions { ignore_missing }).unwrap()
}

/// The answers as `VERDICT TOPIC ANSWER | RECORDED`.
fn rows(report: &Replayed) -> Vec<String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let row = report.answers.iter().map(|row| {
        let sign = match row.comparison {
            ReplayComparison::Same => "=",
            ReplayComparison::Differs => "!",
            ReplayComparison::NotCompared => "?",
        };
        format!("{sign} {} {} | {}", row.topic, text(&row.answer), text(&row.recorded))
    });
    row.collect()
}

/// Refuses user 1, panics at user 2, holds user 3 for ten seconds, warns about user 4, and lets user 7 have one job
/// at a time.
#[derive(Default)]
struct Guard;

#[jobtap_plugin(name = "guard")]
impl Guard {
    #[on("job.validate")]
    fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        assert_ne!(job.userid().0, 2, "user 2");
        let others = cx.active_jobs().filter(|other| other.id() != job.id()).count();
        Reject::when(job.userid().0 == 7 && others > 0, "one at a time")?;
        Reject::when(job.userid().0 == 1, "not you")
    }

    #[on("job.state.depend")]
    fn hold(
        &self,
        job: &Job,
        cx: Cx<'_, JobStateDepend>,
        remote: Remote<Self>,
    ) -> Result<(), HandlerError> {
        if job.userid().0 == 3 {
            cx.dependency_add("guard")?;
            let id = job.id();
            remote.after(10.0, move |_, cx| {
                if let Some(held) = cx.job(id).ok().and_then(|job| job.dependency("guard")) {
                    cx.dependency_remove(held);
                }
            });
        }
        Ok(())
    }

    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self, job: &Job) -> Priority {
        Priority::new(u32::from(job.urgency().value()) * 10)
    }

    #[on("job.update.attributes.system.duration", "job.update.attributes.system.queue")]
    fn may_change(&self) -> Result<Update, Reject> {
        Err(Reject::new("never"))
    }

    #[on("job.state.run")]
    fn warn(&self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        if job.userid().0 == 4 {
            cx.raise(job, Exception::new(severity!(3), "guard", "careful"))?;
        }
        Ok(())
    }
}

/// Adds a dependency for user 5, and sets the urgency of jobs of user 6 twice.
#[derive(Default)]
struct Other;

#[jobtap_plugin(name = "other")]
impl Other {
    #[on("job.state.depend")]
    fn hold(&self, job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
        if job.userid().0 == 5 {
            cx.dependency_add("other")?;
        }
        if job.userid().0 == 6 {
            cx.urgency(job, Urgency::new(20)?);
            cx.urgency(job, Urgency::new(20)?);
        }
        Ok(())
    }
}

fn of_context(name: &'static str, key: &str, value: &str) -> (&'static str, Value) {
    (name, json!({key: value}))
}

fn bare(name: &'static str) -> (&'static str, Value) {
    (name, Value::Null)
}

fn priority(value: u32) -> (&'static str, Value) {
    ("priority", json!({"priority": value}))
}

#[test]
fn answers_as_recorded_are_the_same() {
    let quiet = [submit(9), bare("validate"), bare("depend"), priority(160)];
    let mut held = vec![submit(3), bare("validate")];
    held.push(of_context("dependency-add", "description", "guard"));
    // Ten seconds later, as the plugin's timer says.
    let mut late = job(2, 12.0, &[of_context("dependency-remove", "description", "guard")]);
    let begin = job(2, 1.0, &held);
    late.eventlog.insert_str(0, &begin.eventlog);
    let report = run("guard", vec![job(1, 1.0, &quiet), late], false);
    assert_eq!((report.jobs, report.events, report.left_out), (2, 8, 0));
    let mut found = rows(&report);
    found.sort();
    assert_eq!(
        found,
        [
            "= job.state.depend adds guard | adds guard",
            "= job.state.priority 160 | 160",
            "= job.validate accepts | accepts",
            "= job.validate accepts | accepts",
            "= later removes guard | removes guard",
        ]
    );
    assert_eq!((report.same, report.different, report.not_compared), (5, 0, 0));
}

#[test]
fn a_refusal_a_panic_and_another_priority_differ() {
    let log = |user| [submit(user), bare("validate"), bare("depend"), priority(7)];
    let refused = run("guard", vec![job(1, 1.0, &log(1))], false);
    assert_eq!(
        rows(&refused),
        ["! job.validate refuses: not you | accepts", "! job.state.priority 160 | 7"]
    );
    let panicked = run("guard", vec![job(1, 1.0, &log(2))], false);
    let verdict = panicked.answers[0].answer.clone().unwrap();
    assert!(verdict.starts_with("refuses: panicked: ") && verdict.contains("user 2"), "{verdict}");
}

#[test]
fn what_another_loaded_plugin_asks_for_is_its_own() {
    let own = of_context("dependency-add", "description", "other");
    let log = |user| [submit(user), bare("validate"), own.clone()];
    let accepted = "= job.validate accepts | accepts";
    assert_eq!(rows(&run("guard", vec![job(1, 1.0, &log(5))], false)), [accepted]);
    let missing = run("guard", vec![job(1, 1.0, &log(6))], false);
    assert_eq!(rows(&missing), [accepted, "! dependency-add - | adds other"]);
    assert_eq!(rows(&run("guard", vec![job(1, 1.0, &log(6))], true)), [accepted]);
    assert_eq!(
        rows(&run("other", vec![job(1, 1.0, &log(5))], false)),
        ["= job.state.depend adds other | adds other"]
    );
}

#[test]
fn the_jobs_of_one_moment_are_there_and_no_others() {
    let cancelled = ("exception", json!({"type": "cancel", "severity": 0}));
    let ended = [submit(7), bare("validate"), cancelled, bare("clean")];
    let log = [submit(7), bare("validate")];
    let verdicts = |second: f64| {
        let jobs = vec![job(2, 1.0, &ended), job(1, second, &log)];
        let report = run("guard", jobs, false);
        rows(&report).into_iter().filter(|row| row.contains("job.validate")).collect::<Vec<_>>()
    };
    let accepted = "= job.validate accepts | accepts";
    assert_eq!(verdicts(20.0), [accepted, accepted]);
    assert_eq!(verdicts(3.5), [accepted, "! job.validate refuses: one at a time | accepts"]);
}

#[test]
fn what_a_plugin_asks_for_changes_no_job() {
    let mut held = job(1, 1.0, &[submit(3), bare("validate")]);
    // After the plugin's timer, which would remove the dependency if it were there.
    held.eventlog.push_str(&job(1, 30.0, &[priority(160)]).eventlog);
    let report = run("guard", vec![held], false);
    assert_eq!(
        rows(&report),
        ["= job.validate accepts | accepts", "! job.state.depend adds guard | -"]
    );
}

#[test]
fn the_topics_are_named_that_eventlogs_never_lead_to() {
    let update = ("jobspec-update", json!({"attributes.system.duration": 60.0}));
    let log = [submit(9), bare("validate"), bare("depend"), update];
    let report = run("guard", vec![job(1, 1.0, &log)], false);
    assert_eq!(
        report.not_called,
        ["job.update.attributes.system.duration", "job.update.attributes.system.queue"]
    );
    let none = run("other", vec![job(1, 1.0, &log)], false);
    assert_eq!(none.not_called, [""; 0]);
}

#[test]
fn what_a_plugin_asks_for_twice_is_recorded_once() {
    let urgency = ("urgency", json!({"userid": 0, "urgency": 20}));
    let log = [submit(6), bare("validate"), urgency];
    let report = run("other", vec![job(1, 1.0, &log)], false);
    assert_eq!(rows(&report), ["= job.state.depend 20 | 20"]);
}

#[test]
fn what_a_plugin_has_added_it_should_remove() {
    let [add, remove] = ["dependency-add", "dependency-remove"]
        .map(|name| of_context(name, "description", "other"));
    let log = [submit(5), bare("validate"), add.clone(), remove, add];
    let report = run("other", vec![job(1, 1.0, &log)], false);
    assert_eq!(
        rows(&report),
        [
            "= job.state.depend adds other | adds other",
            "! dependency-remove - | removes other",
            "! dependency-add - | adds other",
        ]
    );
}

#[test]
fn an_answer_stands_beside_the_record_of_the_same_thing() {
    let raised = |note| ("exception", json!({"type": "guard", "severity": 3, "note": note}));
    let log = |note| {
        let begin = [submit(4), bare("validate"), bare("depend"), priority(160), bare("alloc")];
        let mut log = begin.to_vec();
        log.push(raised(note));
        log
    };
    let last = |note| rows(&run("guard", vec![job(1, 1.0, &log(note))], false)).pop().unwrap();
    let answer = "guard, severity 3: careful";
    assert_eq!(last("careful"), format!("= job.state.run {answer} | {answer}"));
    assert_eq!(last("stop"), format!("! job.state.run {answer} | guard, severity 3: stop"));
}

#[test]
fn an_urgency_that_fixes_the_priority_is_not_compared() {
    let hold = ("submit", json!({"userid": 9, "urgency": 0, "flags": 0, "version": 1}));
    let log = [hold, bare("validate"), bare("depend"), priority(0)];
    let report = run("guard", vec![job(1, 1.0, &log)], false);
    assert_eq!(rows(&report).last().unwrap(), "? job.state.priority 0 | 0");
}

/// Breaks a job.
type Break = fn(&mut RecordedJob);

#[test]
fn broken_jobs_are_left_out_by_name_and_the_others_replayed() {
    let good = job(9, 5.0, &[submit(9), bare("validate")]);
    let broken = |change: Break| {
        let mut job = job(1, 1.0, &[submit(9), bare("validate")]);
        change(&mut job);
        job
    };
    let cases: [(Break, &str); 7] = [
        (|job| job.eventlog.truncate(90), "eventlog line 1: the line does not end"),
        (|job| job.eventlog.clear(), "eventlog: it has no events"),
        (
            |job| job.eventlog = job.eventlog.lines().nth(1).unwrap().to_owned() + "\n",
            "begins with validate",
        ),
        (|job| job.eventlog = job.eventlog.replace("1.0", "-1.0"), "the time of submit is -1"),
        (|job| job.jobspec = "{".to_owned(), "jobspec: "),
        (|job| job.resources = Some("R".to_owned()), "R: "),
        (
            |job| job.eventlog = job.eventlog.replace("\"version\":1", "\"version\":9"),
            "eventlog v9",
        ),
    ];
    for (change, expected) in cases {
        let report = run("guard", vec![broken(change), good.clone()], false);
        let reason = report.first_left_out.first().cloned().unwrap_or_default();
        assert!(reason.contains(expected), "{expected}: {reason}");
        assert!(rows(&report).contains(&"= job.validate accepts | accepts".to_owned()));
    }
}

#[test]
fn events_out_of_order_and_far_times_end_the_replay_all_the_same() {
    let mut odd =
        job(1, 1.0, &[submit(3), submit(3), bare("clean"), bare("alloc"), bare("nonsense")]);
    odd.eventlog
        .push_str("{\"timestamp\":1e300,\"name\":\"free\"}\n{\"timestamp\":2,\"name\":\"x\"}\n");
    let report = run("guard", vec![odd], false);
    assert_eq!(report.events, 7);
    assert!(report.left_out > 0);
}
