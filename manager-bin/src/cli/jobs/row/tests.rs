//! Fields of listed jobs as the reference shows them, and each named format on sample jobs.

use jiff::tz::TimeZone;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{DisplayContext, JobRow};
use crate::cli::common::format::{RenderOptions, Row, Template, render};
use crate::cli::common::ids::IdStyle;
use crate::cli::jobs::options::Setting;
use crate::users::Users;

const NOW: f64 = 1_700_000_000.0; // 2023-11-14 22:13:20 UTC

pub(in crate::cli) fn display_context() -> DisplayContext {
    DisplayContext {
        now: NOW,
        zone: TimeZone::UTC,
        ids: IdStyle::Ascii,
        users: Users::from_passwd("alice:x:1001:1001::/:/bin/sh\nroot:x:0:0::/:/bin/sh\n"),
    }
}

/// A job with the result COMPLETED and these changed attributes; `null` removes an attribute.
pub(in crate::cli) fn job(changes: Value) -> Value {
    let mut job = json!({
        "id": 68_484_595_712_u64, "userid": 1001, "urgency": 16, "priority": 16, "name": "a",
        "cwd": "/home/alice", "ntasks": 1, "ncores": 1, "nnodes": 1, "duration": 0.0,
        "t_submit": NOW - 10.0, "t_depend": NOW - 10.0, "t_run": NOW - 9.0,
        "t_cleanup": NOW - 9.0 + 0.03, "t_inactive": NOW - 8.5,
        "state": 64, "result": 1, "success": true, "waitstatus": 0,
        "exception_occurred": false, "expiration": 0.0, "ranks": "0", "nodelist": "host0",
    });
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(job.as_object_mut().unwrap().remove(name)),
            value => drop(job.as_object_mut().unwrap().insert(name.clone(), value.clone())),
        }
    }
    job
}

/// A job in an active state, without the attributes that are set in later states.
pub(in crate::cli) fn active(state: u8, changes: Value) -> Value {
    let mut job = job(json!({
        "state": state, "result": null, "success": null, "waitstatus": null,
        "t_cleanup": null, "t_inactive": null, "exception_occurred": null,
    }));
    if state < 16 {
        for name in ["t_run", "ranks", "nodelist", "expiration"] {
            job.as_object_mut().unwrap().remove(name);
        }
    }
    for (name, value) in changes.as_object().unwrap() {
        job[name] = value.clone();
    }
    job
}

fn exception(kind: &str, severity: i32, note: &str) -> Value {
    json!({
        "success": false, "exception_occurred": true, "exception_type": kind,
        "exception_severity": severity, "exception_note": note,
    })
}

/// An inactive job with a result other than COMPLETED.
fn unsuccessful(result: u8, status: Option<i32>, mut changes: Value) -> Value {
    changes["result"] = json!(result);
    changes["waitstatus"] = json!(status);
    job(changes)
}

fn show_with_header(format: &str, jobs: &[Value]) -> Vec<String> {
    let display = display_context();
    let rows: Vec<JobRow<'_>> =
        jobs.iter().map(|job| JobRow::from_json(job.clone(), &display).unwrap()).collect();
    let template = Template::parse::<JobRow<'_>>(format).unwrap();
    let options = RenderOptions { header: true, zone: TimeZone::UTC };
    let table = render(&template, &rows, &options).unwrap();
    table.header.into_iter().chain(table.lines).collect()
}

fn show(format: &str, job: Value) -> String {
    show_with_header(format, &[job]).pop().unwrap()
}

fn named(name: &str, jobs: &[Value]) -> Vec<String> {
    let formats = Setting::builtin_formats();
    show_with_header(formats.resolve(name).unwrap(), jobs)
}

#[test]
fn default_format_prints_the_lines_of_the_reference() {
    assert_eq!(
        named("default", &[job(json!({}))]),
        [
            "       JOBID USER     NAME       ST NTASKS NNODES     TIME INFO",
            "    f2oLkTLb alice    a          CD      1      1   0.030s host0",
        ]
    );
    let waiting = active(
        8,
        json!({
            "queue": "batch", "name": "a-very-long-name", "urgency": 0, "priority": 0,
            "duration": 3600.0, "nnodes": null, "userid": 4242,
        }),
    );
    assert_eq!(
        named("default", &[waiting]),
        [
            "       JOBID QUEUE    USER     NAME       ST NTASKS NNODES     TIME INFO",
            "    f2oLkTLb batch    4242     a-very-lo+  S      1      -       1h held",
        ]
    );
}

#[test]
fn named_formats_print_their_fields() {
    let held =
        active(2, json!({"dependencies": ["after-success=f4fr", "singleton"], "priority": null}));
    assert_eq!(
        named("deps", &[held])[..],
        [
            "       JOBID NAME       URG PRI          STATE    DEPENDENCIES",
            "    f2oLkTLb a          16               DEPEND   after-success=f4fr,singleton",
        ]
    );
    assert_eq!(
        named("endreason", &[unsuccessful(4, Some(15), exception("cancel", 0, "stop it"))])[1],
        "    f2oLkTLb alice    a          CA  Nov14 22:13 Canceled: stop it"
    );
    let running = active(16, json!({"expiration": NOW + 90.0, "duration": 99.0}));
    assert_eq!(
        named("long", &[running]),
        [
            "       JOBID USER     NAME          STATUS NTASKS NNODES     T_SUBMIT  T_REMAINING     TIME INFO",
            "    f2oLkTLb alice    a                RUN      1      1  Nov14 22:13         1.5m   9.000s host0",
        ]
    );
    assert!(named("cute", &[job(json!({}))])[1].contains("😀"));
}

#[test]
fn the_return_code_is_known_once_the_tasks_have_finished() {
    let shown = |state: u8, status: Value| {
        show_with_header("{returncode}", &[active(state, json!({"waitstatus": status}))]).remove(1)
    };
    assert_eq!(shown(16, Value::Null), "");
    assert_eq!(shown(32, json!(0)), "0");
    assert_eq!(shown(32, json!(768)), "3");
    assert_eq!(shown(32, json!(15)), "-15");
    assert_eq!(shown(32, Value::Null), "", "canceled before its tasks were started");
}

#[test]
fn inactive_jobs_show_reason_and_return_code() {
    let format = "{status} rc={returncode} ws={waitstatus} exc={exception.type}/{exception.severity} {inactive_reason}";
    let none = || json!({"success": false});
    for (job, line) in [
        (job(json!({})), "COMPLETED rc=0 ws=0 exc=/ Exit 0"),
        (unsuccessful(2, Some(256), none()), "FAILED rc=1 ws=256 exc=/ Exit 1"),
        (unsuccessful(2, Some(9), none()), "FAILED rc=-9 ws=9 exc=/ Exit -9"),
        (unsuccessful(2, Some(768), none()), "FAILED rc=3 ws=768 exc=/ Exit 3"),
        (unsuccessful(2, Some(137 << 8), none()), "FAILED rc=137 ws=35072 exc=/ Killed"),
        (
            unsuccessful(2, Some(126 << 8), none()),
            "FAILED rc=126 ws=32256 exc=/ Command invoked cannot execute",
        ),
        (unsuccessful(2, Some(127 << 8), none()), "FAILED rc=127 ws=32512 exc=/ command not found"),
        (
            unsuccessful(2, Some(128 << 8), none()),
            "FAILED rc=128 ws=32768 exc=/ Invalid argument to exit",
        ),
        (unsuccessful(2, None, exception("exec", 0, "no")), "FAILED rc=1 ws= exc=exec/0 Exit 1"),
        (
            unsuccessful(2, Some(15), exception("exec", 0, "no")),
            "FAILED rc=-15 ws=15 exc=exec/0 Exit -15",
        ),
        (
            unsuccessful(2, Some(256), exception("prolog", 0, "failed")),
            "FAILED rc=1 ws=256 exc=prolog/0 Exception: type=prolog note=failed",
        ),
        (
            unsuccessful(2, Some(256), exception("prolog", 0, "")),
            "FAILED rc=1 ws=256 exc=prolog/0 Exception: type=prolog",
        ),
        (unsuccessful(2, Some(200 << 8), json!({})), "FAILED rc=200 ws=51200 exc=/ Signaled 72"),
        (
            unsuccessful(2, Some(256), exception("oom", 1, "x")),
            "FAILED rc=1 ws=256 exc=oom/1 Exit 1",
        ),
        (
            unsuccessful(4, None, exception("cancel", 0, "")),
            "CANCELED rc=-128 ws= exc=cancel/0 Canceled",
        ),
        (
            unsuccessful(4, Some(36608), exception("cancel", 0, "stop it")),
            "CANCELED rc=143 ws=36608 exc=cancel/0 Canceled: stop it",
        ),
        (
            unsuccessful(8, Some(14), exception("timeout", 0, "x")),
            "TIMEOUT rc=-14 ws=14 exc=timeout/0 Timeout",
        ),
        (
            unsuccessful(8, None, exception("timeout", 0, "x")),
            "TIMEOUT rc= ws= exc=timeout/0 Timeout",
        ),
        (active(16, json!({})), "RUN rc= ws= exc=/ "),
    ] {
        assert_eq!(show(format, job), line);
    }
}

#[test]
fn contextual_info_shows_pending_reason_or_hosts() {
    let estimate = |t: f64| json!({"annotations": {"sched": {"t_estimate": t}}});
    for (job, info) in [
        (active(2, json!({"dependencies": ["a", "b"]})), "depends:a,b"),
        (active(4, json!({})), "priority-wait"),
        (active(8, json!({})), ""),
        (active(8, json!({"urgency": 0, "priority": 0})), "held"),
        (active(8, json!({"priority": 0})), "priority-hold"),
        (active(8, estimate(NOW + 90.0)), "eta:1.5m"),
        (active(8, estimate(NOW - 1.0)), "eta:now"),
        (active(16, json!({})), "host0"),
        (active(32, json!({})), "host0"),
        (unsuccessful(4, None, json!({"nodelist": null})), ""),
    ] {
        assert_eq!(show("{contextual_info}", job), info);
    }
}

#[test]
fn what_a_job_waits_for_is_a_word() {
    let waits = active(8, json!({"why": "order"}));
    assert_eq!(show_with_header("{why}", std::slice::from_ref(&waits)), ["WHY", "order"]);
    assert_eq!(show("{why}|{name}", active(16, json!({}))), "|a");
    let display = display_context();
    assert_eq!(JobRow::from_json(waits, &display).unwrap().to_json()["why"], "order");
}

#[test]
fn times_depend_on_the_job_state() {
    let format = "{contextual_time} {runtime} {t_remaining} {t_cleanup} {duration}";
    let waiting = active(8, json!({"duration": 0.2}));
    assert_eq!(show(format, waiting), "0.2 0.0 0.0 0.0 0.2");
    let running = active(16, json!({"expiration": NOW + 60.5}));
    assert_eq!(show(format, running), "9.0 9.0 60.5 0.0 0.0");
    let overdue = active(16, json!({"expiration": NOW - 5.0}));
    assert_eq!(show("{t_remaining!F:>4h}", overdue), "   -");
    let never_ran = unsuccessful(4, None, json!({"t_run": null}));
    assert_eq!(show("{contextual_time!F:h} {t_run!D:h}", never_ran), "- -");
}

#[test]
fn begin_time_dependency_is_shown_as_local_time() {
    let day = 86400.0;
    for (begin, shown) in [
        (NOW - 20.0, "begin@22:13"),
        (NOW, "begin@22:13:20"),
        (NOW + day - 20.0, "begin@Nov15-22:13"),
        (NOW + day, "begin@Nov15-22:13:20"),
    ] {
        let dependencies = json!([format!("begin-time={begin}"), "begin-time=soon"]);
        let waiting = active(2, json!({"dependencies": dependencies}));
        assert_eq!(show("{dependencies}", waiting), format!("{shown},begin-time=soon"));
    }
}

#[test]
fn annotations_are_addressed_by_dotted_path() {
    let annotations = json!({
        "sched": {"resource_summary": "rank0/core0", "t_estimate": 1.5},
        "user": {"keep": 1, "deep": {"flag": true}, "uri": "local:///run/x"},
    });
    let job = job(json!({"annotations": annotations}));
    let format = "{sched.resource_summary} {annotations.sched.t_estimate} {user.keep}|{user.lose}|\
                  {annotations.user.deep.flag} {user.deep} {uri} {annotations.other.x}";
    assert_eq!(show(format, job), "rank0/core0 1.5 1||True {\"flag\": true} local:///run/x ");
    assert_eq!(show("{annotations}{sched}{user}", self::job(json!({}))), "");
    assert_eq!(show("{uri}", self::job(json!({}))), "None");
}

#[test]
fn ids_are_shown_in_every_encoding() {
    let format = "{id} {id.f58} {id.dec} {id.hex} {id.f58plain} {id.kvs} {id.dothex}";
    assert_eq!(
        show(format, job(json!({}))),
        "f2oLkTLb f2oLkTLb 68484595712 0xff2000000 f2oLkTLb job.0000.000f.f200.0000 0000.000f.f200.0000"
    );
}

#[test]
fn plain_fields_show_the_attributes() {
    let format = "{userid} {username} {urgency} {priority} {name} {cwd} {queue}|{project}|{bank}|\
                  {ntasks} {ncores} {nnodes} {ranks} {nodelist} {success} {exception.occurred}";
    let job = job(json!({"queue": "q", "bank": "b", "userid": 0}));
    assert_eq!(show(format, job), "0 root 16 16 a /home/alice q||b|1 1 1 0 host0 True False");
    let format =
        "{state} {state_single} {status} {status_abbrev} {result}|{result_abbrev}|{success}";
    assert_eq!(show(format, self::job(json!({}))), "INACTIVE I COMPLETED CD COMPLETED|CD|True");
    assert_eq!(show(format, active(32, json!({}))), "CLEANUP C CLEANUP C ||");
}

#[test]
fn headings_follow_the_reference() {
    let heading = |name: &str| JobRow::heading(name).map(|heading| heading.into_owned());
    for (name, expected) in [
        ("id.hex", "JOBID"),
        ("waitstatus", "WSTATUS"),
        ("exception.note", "EXCEPTION-NOTE"),
        ("annotations.x.y", "X.Y"),
        ("sched.x", "SCHED.X"),
        ("annotations.sched.t_estimate", "T_ESTIMATE"),
        ("sched.resource_summary", "RESOURCES"),
        ("user.keep", "USER.KEEP"),
        ("annotations.name", "NAME"),
        ("instance.stats", "STATS"),
        ("instance.stats.total", "NJOBS"),
        ("instance.stats.running", "STATS.RUNNING"),
        ("instance.resources.up.ranks", "UP.RANKS"),
        ("instance.resources.all.ncores", "CORES"),
        ("instance.resources.allocated.nnodes", "USED"),
    ] {
        assert_eq!(heading(name).as_deref(), Some(expected), "{name}");
    }
    for unknown in [
        "",
        "nope",
        "id.nope",
        "instance.nope",
        "instance.stats.nope",
        "instance.resources.up.x",
        "exception",
        "exception_type",
        "annotations.",
        "user.",
    ] {
        assert_eq!(heading(unknown), None, "{unknown}");
    }
}

#[test]
fn output_of_json_is_accepted_as_input() {
    let display = display_context();
    let first = JobRow::from_json(job(json!({})), &display).unwrap();
    let again = JobRow::from_json(first.to_json(), &display).unwrap();
    assert_eq!(again.status(), "COMPLETED");
    assert_eq!(again.runtime(), first.runtime());
}

#[test]
fn json_omits_unknown_values_and_names_states() {
    let display = display_context();
    let to_json = |job: Value| JobRow::from_json(job, &display).unwrap().to_json();
    let failed = to_json(unsuccessful(2, Some(256), exception("oom", 0, "n")));
    for (name, value) in [
        ("id", json!(68_484_595_712_u64)),
        ("jobid", json!("f2oLkTLb")),
        ("username", json!("alice")),
        ("state", json!("INACTIVE")),
        ("result", json!("FAILED")),
        ("status", json!("FAILED")),
        ("returncode", json!(1)),
        ("duration", json!(0.0)),
        ("exception", json!({"occurred": true, "severity": 0, "type": "oom", "note": "n"})),
        ("annotations", json!({})),
    ] {
        assert_eq!(failed[name], value, "{name}");
    }
    let waiting = to_json(active(8, json!({"queue": ""})));
    assert_eq!(waiting["exception"], json!({"occurred": false}));
    for absent in
        ["queue", "result", "returncode", "t_run", "runtime", "expiration", "ranks", "uri"]
    {
        assert_eq!(waiting.get(absent), None, "{absent}");
    }
}

#[test]
fn invalid_jobs_are_refused_naming_the_member() {
    let display = display_context();
    for (value, text) in [
        (json!(3), "a job must be a JSON object"),
        (json!({"state": 8}), "a job must have an id"),
        (json!({"id": 1, "state": 3}), "state: "),
        (json!({"id": "?"}), "id: "),
    ] {
        let error = JobRow::from_json(value, &display).err().unwrap().to_string();
        assert!(error.starts_with(text), "{error}");
    }
}

/// Any JSON scalar, to be used as the value of any attribute.
fn any_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ]
}

proptest! {
    #[test]
    fn any_attribute_values_render_as_one_line(
        state in prop_oneof![Just(2), Just(8), Just(16), Just(64)],
        values in proptest::collection::btree_map(
            "(waitstatus|t_run|t_cleanup|expiration|duration|userid|urgency|nodelist|dependencies|annotations|name)",
            any_scalar(), 0..6),
        begin in any::<f64>(),
    ) {
        let mut job = json!({"id": 1, "state": state, "result": 2, "dependencies": [format!("begin-time={begin}")]});
        for (name, value) in values {
            job[name] = value;
        }
        for name in ["default", "cute", "long", "deps", "endreason"] {
            let display = display_context();
            let row = JobRow::from_json(job.clone(), &display).unwrap();
            let template = Setting::builtin_formats();
            let template = Template::parse::<JobRow<'_>>(template.resolve(name).unwrap()).unwrap();
            let options = RenderOptions { header: true, zone: TimeZone::UTC };
            match render(&template, &[row], &options) {
                Ok(table) => prop_assert_eq!(table.lines.len(), 1),
                // A text specifier such as `:<8.8` refuses a name that is a number.
                Err(error) => prop_assert!(error.to_string().contains("format specifier"), "{}", error),
            }
        }
        let display = display_context();
        prop_assert_eq!(&JobRow::from_json(job, &display).unwrap().to_json()["id"], &json!(1));
    }
}
