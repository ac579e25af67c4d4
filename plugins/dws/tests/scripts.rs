//! What flux-coral2's script t1000 asks of the plugin, in virtual time. The numbers are those of its steps.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use dws::Dws;
use jobtap_builtins::PriorityDefault;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

/// The services of coral2_dws, which only accept what they are asked.
const TOPICS: [&str; 3] = ["dws.create", "dws.setup", "dws.post_run"];

fn config(settings: Value) -> Value {
    json!({
        "job-manager": {"plugins": [{"load": "dws"}]},
        "plugins": {"dws": settings},
    })
}

fn start_with(settings: Value) -> TestManager {
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<Dws>();
    let mut m = builder.config(config(settings)).start();
    for topic in TOPICS {
        m.serve(topic, |_| Ok(json!({"success": true})));
    }
    m
}

fn start() -> TestManager {
    start_with(json!({}))
}

fn refuse(m: &mut TestManager, topic: &str, text: &'static str) {
    m.serve(topic, move |_| Ok(json!({"success": false, "errstr": text})));
}

fn dw() -> TestJob {
    TestJob::new().attribute("dw", "#DW jobdw type=xfs capacity=10GiB name=project1")
}

fn resources(m: &TestManager, id: JobId) -> Value {
    m.job(id).jobspec().value()["resources"].clone()
}

/// The service reports that the storage is there.
fn created(m: &mut TestManager, id: JobId, exclude: Value) {
    let resources = resources(m, id);
    let request = json!({"id": id, "resources": resources, "exclude": exclude});
    m.call_service("dws.resource-update", request).unwrap();
}

fn mounted(m: &mut TestManager, id: JobId) {
    let request =
        json!({"id": id, "variables": {"DW_JOB_project1": "/mnt/1"}, "copy_offload": false});
    m.call_service("dws.prolog-remove", request).unwrap();
}

fn freed(m: &mut TestManager, id: JobId) {
    m.call_service("dws.epilog-remove", json!({"id": id})).unwrap();
}

/// Submits a job and brings it to its start.
fn started(m: &mut TestManager, job: TestJob) -> JobId {
    let id = m.submit(job).unwrap();
    created(m, id, Value::Null);
    mounted(m, id);
    assert!(m.job(id).event_posted("start"));
    id
}

fn event(m: &TestManager, id: JobId, name: &str) -> Value {
    let entry = m.eventlog(id).into_iter().find(|entry| entry.name == name);
    let entry = entry.unwrap_or_else(|| panic!("no {name} in {:?}", names(m, id)));
    entry.context.map(|context| json!(context)).unwrap_or_default()
}

fn names(m: &TestManager, id: JobId) -> Vec<String> {
    m.eventlog(id).into_iter().map(|entry| entry.name.to_string()).collect()
}

/// The topics of the requests to the service, in order.
fn asked(m: &TestManager) -> Vec<String> {
    m.sent_requests().into_iter().map(|sent| sent.topic).collect()
}

fn status(m: &TestManager, id: JobId, name: &str) -> Value {
    event(m, id, name)["status"].clone()
}

#[test]
fn step_1_and_14_the_log_tells_the_timeout() {
    let log = |settings| {
        let m = start_with(settings);
        m.log().map(|(_, text)| text.to_owned()).collect::<Vec<_>>().join("\n")
    };
    let without = log(json!({}));
    assert!(without.contains("dws: failed to unpack config: "), "{without}");
    assert!(without.contains("dws: epilog timeout = 0.0"), "{without}");
    let negative = log(json!({"epilog-timeout": -1.0}));
    assert!(!negative.contains("failed to unpack"), "{negative}");
    assert!(negative.contains("dws: epilog timeout = -1."), "{negative}");
    assert!(log(json!({"epilog-timeout": 0.1})).contains("dws: epilog timeout = 0.1"));
}

#[test]
fn step_2_without_the_service_the_job_ends_at_once() {
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<Dws>();
    let mut m = builder.config(config(json!({}))).start();
    let id = m.submit(dw()).unwrap();
    assert_eq!(event(&m, id, "dependency-add")["description"], "dws-create");
    let exception = event(&m, id, "exception");
    assert_eq!((&exception["type"], &exception["severity"]), (&json!("dws-create"), &json!(0)));
    assert_eq!(
        exception["note"],
        "DWS workflow interactions failed: dws.create RPC could not be sent. Admins: is the flux-coral2-dws service \
         loaded?"
    );
    assert_eq!(status(&m, id, "epilog-finish"), 1);
    m.assert_state(id, State::Inactive);
}

#[test]
fn step_3_all_succeeds() {
    let mut m = start();
    let id = m.submit(dw().attribute("dw_failure_tolerance", 1)).unwrap();
    m.assert_state(id, State::Depend);
    created(&mut m, id, Value::Null);
    m.assert_state(id, State::Run);
    assert!(!m.job(id).event_posted("start"));
    mounted(&mut m, id);
    assert_eq!(event(&m, id, "dws_environment")["variables"]["DW_JOB_project1"], "/mnt/1");
    m.finish(id, 0);
    m.assert_state(id, State::Cleanup);
    freed(&mut m, id);
    m.assert_state(id, State::Inactive);
    m.assert_events(
        id,
        "submit validate dependency-add jobspec-update dependency-remove depend priority alloc prolog-start \
         dws_environment prolog-finish start finish epilog-start release epilog-finish free clean",
    );
    assert_eq!(asked(&m), TOPICS);
    let sent = m.sent_requests();
    let create = &sent[0].payload;
    assert_eq!((&create["jobid"], &create["failure_tolerance"]), (&json!(id), &json!(1)));
    assert_eq!(
        (&create["userid"], &create["resources"]),
        (&json!(TestJob::OWNER), &resources(&m, id))
    );
    assert!(create["dw_directives"].as_str().unwrap().starts_with("#DW"));
    assert!(sent[1].payload["R"]["execution"]["R_lite"].is_array());
    assert_eq!(sent[2].payload, json!({"jobid": id, "run_started": true}));
    assert_eq!(
        (status(&m, id, "prolog-finish"), status(&m, id, "epilog-finish")),
        (json!(0), json!(0))
    );
}

#[test]
fn step_4_and_19_a_refused_creation_ends_the_job_and_frees_the_storage() {
    let mut m = start();
    refuse(&mut m, "dws.create", "no rabbits");
    let id = m.submit(dw().attribute("dw_failure_tolerance", -1)).unwrap();
    m.assert_exception(id, "dws-create", "DWS workflow interactions failed: no rabbits");
    m.assert_state(id, State::Cleanup);
    assert_eq!(m.sent_requests()[0].payload["failure_tolerance"], -1);
    assert_eq!(m.sent_requests()[1].payload, json!({"jobid": id, "run_started": false}));
    freed(&mut m, id);
    m.assert_state(id, State::Inactive);
}

#[test]
fn step_5_a_refused_setup_ends_the_prolog_and_the_job() {
    let mut m = start();
    refuse(&mut m, "dws.setup", "no mount");
    let id = m.submit(dw()).unwrap();
    created(&mut m, id, Value::Null);
    m.assert_exception(id, "dws-setup", "DWS workflow interactions failed: no mount");
    assert_eq!(status(&m, id, "prolog-finish"), 1);
    assert!(!m.job(id).event_posted("start"));
    freed(&mut m, id);
    m.assert_state(id, State::Inactive);
}

#[test]
fn step_6_a_refused_end_ends_the_epilog() {
    let mut m = start();
    refuse(&mut m, "dws.post_run", "no copy");
    let id = started(&mut m, dw());
    m.finish(id, 0);
    m.assert_exception(id, "dws-epilog", "DWS workflow interactions failed: no copy");
    assert_eq!(status(&m, id, "epilog-finish"), 1);
    assert!(asked(&m).contains(&"dws.teardown".to_owned()));
    m.assert_state(id, State::Inactive);
}

#[test]
fn step_7_a_job_is_canceled_in_the_prolog() {
    let mut m = start();
    let id = m.submit(dw()).unwrap();
    created(&mut m, id, Value::Null);
    m.cancel(id).unwrap();
    assert_eq!(status(&m, id, "prolog-finish"), 1);
    assert_eq!(m.sent_requests()[2].payload["run_started"], false);
    freed(&mut m, id);
    m.assert_state(id, State::Inactive);
}

#[test]
fn step_8_a_job_is_canceled_in_the_epilog() {
    let mut m = start();
    let id = started(&mut m, dw());
    m.finish(id, 0);
    m.cancel(id).unwrap();
    assert_eq!(asked(&m).last().unwrap(), "dws.teardown");
    m.assert_state(id, State::Cleanup);
    freed(&mut m, id);
    assert_eq!(status(&m, id, "epilog-finish"), 0);
    m.assert_state(id, State::Inactive);
}

#[test]
fn step_9_16_and_17_a_reload_keeps_what_is_open() {
    let mut m = start();
    let id = m.submit(dw()).unwrap();
    created(&mut m, id, Value::Null);
    reload(&mut m);
    // The prolog is still open.
    assert!(!m.job(id).event_posted("prolog-finish"));
    mounted(&mut m, id);
    assert!(m.job(id).event_posted("start"));
    reload(&mut m);
    m.finish(id, 0);
    reload(&mut m);
    m.cancel(id).unwrap();
    assert_eq!(asked(&m).last().unwrap(), "dws.teardown");
    freed(&mut m, id);
    m.assert_state(id, State::Inactive);
}

#[test]
fn a_reload_in_the_prolog_leaves_it_to_be_canceled() {
    let mut m = start();
    let id = m.submit(dw()).unwrap();
    created(&mut m, id, Value::Null);
    reload(&mut m);
    m.cancel(id).unwrap();
    assert_eq!(status(&m, id, "prolog-finish"), 1);
    freed(&mut m, id);
    m.assert_state(id, State::Inactive);
}

#[test]
fn a_killed_manager_goes_on_with_each_step() {
    let mut m = start();
    let id = m.submit(dw()).unwrap();
    m.crash_and_restart();
    created(&mut m, id, Value::Null);
    m.crash_and_restart();
    mounted(&mut m, id);
    m.crash_and_restart();
    m.finish(id, 0);
    m.crash_and_restart();
    freed(&mut m, id);
    m.assert_state(id, State::Inactive);
}

#[test]
fn step_10_to_12_and_20_constraints() {
    let exclude = json!({"not": [{"properties": ["rabbit-1"]}]});
    let own = json!({"properties": ["gpu"]});
    let constraints = |job: TestJob| {
        let mut m = start();
        let id = m.submit(job).unwrap();
        created(&mut m, id, exclude.clone());
        let update = event(&m, id, "jobspec-update");
        assert!(update["resources"].is_array(), "both are in one event: {update}");
        update["attributes.system.constraints"].clone()
    };
    assert_eq!(constraints(dw()), exclude);
    let both = json!({"and": [own, exclude]});
    assert_eq!(constraints(dw().attribute("constraints", own.clone())), both);
    let rabbits = json!({"properties": ["rabbit"]});
    let job = dw().attribute("allow_rabbits", true);
    assert_eq!(constraints(job), json!({"or": [rabbits, exclude]}));
    let job = dw().attribute("allow_rabbits", true).attribute("constraints", own);
    assert_eq!(constraints(job), json!({"or": [rabbits, both]}));
}

#[test]
fn step_13_and_15_an_epilog_takes_too_long() {
    let mut m = start_with(json!({"epilog-timeout": 0.1}));
    let id = started(&mut m, dw());
    m.finish(id, 0);
    m.assert_state(id, State::Cleanup);
    m.advance(0.2);
    m.assert_exception(id, "dws-epilog-timeout", "DWS epilog timed out");
    assert_eq!(asked(&m).last().unwrap(), "dws.abort");
    assert_eq!(status(&m, id, "epilog-finish"), 1);
    m.assert_state(id, State::Inactive);
}

#[test]
fn an_epilog_has_its_time_after_a_reload_and_a_restart_too() {
    for again in [reload, TestManager::crash_and_restart] {
        let mut m = start_with(json!({"epilog-timeout": 5.0}));
        let id = started(&mut m, dw());
        m.finish(id, 0);
        again(&mut m);
        m.advance(4.0);
        m.assert_state(id, State::Cleanup);
        m.advance(2.0);
        m.assert_exception(id, "dws-epilog-timeout", "DWS epilog timed out");
        m.assert_state(id, State::Inactive);
    }
}

#[test]
fn a_refusal_while_the_plugin_is_away_is_lost_and_the_job_can_be_canceled() {
    let mut m = start();
    m.hold_requests("dws.create");
    let id = m.submit(dw()).unwrap();
    m.crash_and_restart();
    m.assert_state(id, State::Depend);
    m.cancel(id).unwrap();
    freed(&mut m, id);
    m.assert_state(id, State::Inactive);
}

#[test]
fn step_21_a_malformed_request_ends_the_job() {
    let mut m = start();
    let id = m.submit(dw()).unwrap();
    let refused = m.call_service("dws.resource-update", json!({"id": id})).unwrap_err();
    assert!(refused.text().contains("received malformed dws.resource-update RPC"));
    let note = event(&m, id, "exception");
    assert_eq!(note["type"], "exception");
    assert!(note["note"].as_str().unwrap().contains("malformed"));
    freed(&mut m, id);
    m.assert_state(id, State::Inactive);
}

#[test]
fn the_service_reports_a_failure() {
    let mut m = start();
    let id = m.submit(dw()).unwrap();
    let request = json!({"id": id, "resources": [], "exclude": null, "errmsg": "no space"});
    m.call_service("dws.resource-update", request).unwrap();
    m.assert_exception(id, "dws", "DWS workflow interactions failed: no space");
}

#[test]
fn requests_that_come_at_the_wrong_time_are_refused() {
    let mut m = start();
    let id = started(&mut m, dw());
    let text = |refused: Result<Value, _>| {
        let refused: jobtap_core::testing::Refused = refused.unwrap_err();
        refused.text().to_owned()
    };
    let late = json!({"id": id, "resources": [], "exclude": null});
    assert_eq!(text(m.call_service("dws.resource-update", late)), "job not found in depend state");
    let early = json!({"id": id});
    assert_eq!(text(m.call_service("dws.epilog-remove", early)), "job not found in CLEANUP state");
    m.finish(id, 0);
    freed(&mut m, id);
    assert_eq!(
        text(m.call_service("dws.epilog-remove", json!({"id": id}))),
        "job not found in CLEANUP state"
    );
}

#[test]
fn a_service_answers_after_the_job_has_ended_or_never() {
    let mut m = start();
    m.hold_requests("dws.create");
    let late = m.submit(dw()).unwrap();
    let never = m.submit(dw()).unwrap();
    m.cancel(late).unwrap();
    freed(&mut m, late);
    m.assert_state(late, State::Inactive);
    let refusal = json!({"success": false, "errstr": "too late"});
    m.answer_request("dws.create", Ok(refusal));
    m.assert_state(late, State::Inactive);
    m.cancel(never).unwrap();
    freed(&mut m, never);
    m.assert_state(never, State::Inactive);
}

#[test]
fn a_response_that_makes_no_sense_ends_the_job() {
    let mut m = start();
    m.serve("dws.create", |_| Ok(json!({"success": "maybe"})));
    let id = m.submit(dw()).unwrap();
    let text = "DWS workflow interactions failed: Failed to unpack dws.create RPC";
    m.assert_exception(id, "dws-create", text);
}

#[test]
fn jobs_without_directives_are_left_alone() {
    let mut m = start();
    let id = m.submit(TestJob::new()).unwrap();
    m.finish(id, 0);
    m.assert_state(id, State::Inactive);
    assert_eq!(asked(&m), Vec::<String>::new());
}

/// Removes the plugin and loads it again, as an administrator of Flux does.
fn reload(m: &mut TestManager) {
    m.remove_plugin("dws").unwrap();
    m.load_plugin("dws", json!({})).unwrap();
}
