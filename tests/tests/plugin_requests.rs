//! Plugins in a real manager send requests to its services, to other plugins, and to programs that add a service.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::process::{Command, Stdio};

use jobtap_tests::{Manager, Output, Process, probe_manager, spawn, until, workspace};
use serde_json::{Value, json};

const LOADED: &str = "[job-manager]\nplugins = [{ load = \"probe\" }]\n";

/// Lets the plugin ask a service.
fn ask(m: &Manager, topic: &str, payload: Value) -> Output {
    let request = json!({"topic": topic, "payload": payload}).to_string();
    m.jobtap_args(&["plugin", "call", "probe.ask", &request])
}

fn asked(m: &Manager, topic: &str, payload: Value) -> Value {
    serde_json::from_str(&ask(m, topic, payload).ok()).unwrap()
}

#[track_caller]
fn refused(output: Output, text: &str) {
    assert!(output.code == 1 && output.stderr.contains(text), "{output:?}");
}

#[test]
fn a_plugin_asks_the_manager_and_other_plugins() {
    let m = Manager::start_with(probe_manager(), LOADED);
    let id = m.submit("-n2 --setattr=system.exec.test.run_duration=0.01s true");
    m.wait(&id, "clean");
    let jobs = asked(&m, "job-list.list", json!({"attrs": ["ntasks"]}));
    assert_eq!(jobs["jobs"][0]["ntasks"], 2, "{jobs}");
    assert_eq!(asked(&m, "job-manager.probe.add", json!(2)), 2);
    let key = m.jobtap(&format!("job id --to=kvs {id}")).ok();
    let request = json!({"key": format!("{key}.R")}).to_string();
    let read = m.jobtap_args(&["plugin", "call", "probe.ask", &request]).ok();
    let read: Value = serde_json::from_str(&read).unwrap();
    assert!(read["execution"]["R_lite"].is_array(), "{read}");

    refused(ask(&m, "unknown.topic", json!({})), "no service has the topic unknown.topic");
    refused(ask(&m, "job-manager.nosuch.x", json!({})), "no service has the topic");
    let stream = ask(&m, "kvs.watch", json!({"key": "x"}));
    refused(stream, "kvs.watch requires streaming RPC flag");
    let absent = json!({"key": "no.such.key"}).to_string();
    let absent = m.jobtap_args(&["plugin", "call", "probe.ask", &absent]);
    refused(absent, "No such file or directory");
}

/// Runs the program of the guide.
fn program(m: &Manager) -> Process {
    let guide = std::fs::read_to_string(workspace().join("docs/src/services.md")).unwrap();
    let program = guide.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let mut python = Command::new("python3");
    python.args(["-c", program]).env("JOBTAP_URI", m.uri()).stdout(Stdio::null());
    spawn(&mut python)
}

#[test]
fn a_program_adds_a_service_until_it_leaves() {
    let m = Manager::start_with(probe_manager(), LOADED);
    let first = program(&m);
    until("the service is there", || ask(&m, "storage.create", json!({"id": 1})).code == 0);
    assert_eq!(asked(&m, "storage.create", json!({"id": 7})), json!({"path": "/l/7"}));
    // A second one is refused, and the first goes on.
    let mut second = program(&m);
    assert!(!second.wait().unwrap().success());
    assert_eq!(asked(&m, "storage.create", json!({"id": 8})), json!({"path": "/l/8"}));
    drop(first);
    until("the service is gone", || ask(&m, "storage.create", json!({"id": 9})).code == 1);
    refused(ask(&m, "storage.create", json!({"id": 9})), "no service has the topic storage.create");
    let third = program(&m);
    until("it is there again", || ask(&m, "storage.create", json!({"id": 1})).code == 0);
    drop(third);
}
