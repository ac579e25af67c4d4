//! Every linked plugin is removed and loaded again while jobs wait for it, hold its tokens, or run its
//! prolog: each job goes on, or shows what it waits for.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Once;

use jobtap_builtins as _;
use jobtap_core::host::{PluginDescriptor, Registry};
use jobtap_core::job::WaitStatus;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

fn linked() -> Vec<&'static PluginDescriptor> {
    Registry::linked().unwrap().plugins().collect()
}

/// A script for the plugin `lua` that accepts every request.
fn script() -> String {
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/come_and_go.lua");
    static WRITTEN: Once = Once::new();
    WRITTEN.call_once(|| {
        let submit = "function slurm_job_submit() return slurm.SUCCESS end";
        let modify = "function slurm_job_modify() return slurm.SUCCESS end";
        std::fs::write(path, format!("{submit}\n{modify}\n")).unwrap();
    });
    path.to_owned()
}

/// Starts a manager with all linked plugins loaded; prologs stay open.
fn manager() -> TestManager {
    // `submit-hold` would hold every job, so it is loaded later.
    let by_itself =
        |plugin: &PluginDescriptor| plugin.name.starts_with('.') && !plugin.only_plans();
    let by_name = linked().into_iter().filter(|plugin| !by_itself(plugin));
    let loads: Vec<Value> = by_name
        .filter(|plugin| plugin.name != "submit-hold")
        .map(|plugin| json!({ "load": plugin.name }))
        .collect();
    let mut builder = TestManager::new();
    for plugin in linked() {
        builder = builder.descriptor(plugin);
    }
    let mut m = builder
        .cores(4)
        .lifetime(1e6)
        .config(json!({
            "job-manager": {"plugins": loads, "prolog": {"command": ["pro"]}},
            "policy": {"limits": {"duration": "1h", "job-size": {"max": {"ncores": 4}}}},
            "queues": {"batch": {}, "debug": {}},
            "plugins": {
                "limits": {"user": {"running": 5}},
                "licenses": {"matlab": 1},
                "fairshare": {"weights": {"fairshare": 100}},
                "preempt-notice": {"before": "10s"},
                "lua": {"script": script()},
            },
        }))
        .start();
    m.start_queues().unwrap();
    m.hold_processes();
    m
}

fn job() -> TestJob {
    TestJob::new().duration(60.0).user(7).queue("batch")
}

/// Submits one job for each reason why a builtin can make a job wait.
fn submit_all(m: &mut TestManager) -> Vec<JobId> {
    let first = m.submit(job().name("one").dependency("license:matlab")).unwrap();
    m.assert_state(first, State::Run);
    let after = |scheme: &str| job().dependency(&format!("{scheme}:{first}"));
    let jobs = [
        after("afterok"),
        after("afterany"),
        job().name("one").dependency("singleton"),
        job().dependency("begin-time:500"),
        job().dependency("license:matlab"),
        job().dependency("string:data?type=out&scope=user"),
        job().dependency("string:data?type=in&scope=user"),
        job().ntasks(4),
        job().urgency(0),
        job().queue("debug"),
    ];
    let mut ids = vec![first];
    ids.extend(jobs.map(|job| m.submit(job).unwrap()));
    let waiting = ids.iter().filter(|id| m.job(**id).state() == State::Depend).count();
    assert_eq!((waiting, m.running_processes().count()), (7, 3));
    ids
}

/// Advances time and ends processes until nothing more can happen.
fn run_out(m: &mut TestManager) {
    for _ in 0..60 {
        let programs: Vec<String> =
            m.running_processes().map(|(process, _)| process.program.clone()).collect();
        programs.iter().for_each(|program| m.end_process(program, WaitStatus::from_exit_code(0)));
        m.advance(100.0);
    }
}

/// Asserts that every waiting job has a reason that says what it waits for.
#[track_caller]
fn assert_reasons(m: &TestManager, without: &str) {
    for id in m.jobs() {
        let (state, why) = (m.job(id).state(), m.why(id));
        assert!(!why.is_empty(), "without {without}: {id} in {state}: {:?}", m.events(id));
        assert!(why.iter().all(|text| text.len() > 10), "without {without}: {id}: {why:?}");
        if state == State::Depend {
            let held: Vec<&str> = m.job(id).dependencies().collect();
            assert!(!held.is_empty(), "without {without}: nothing holds {id}: {:?}", m.events(id));
            let named = |held: &&str| why.iter().any(|text| text.contains(*held));
            assert!(held.iter().all(named), "without {without}: {id}: {held:?} of {why:?}");
        }
    }
}

#[test]
fn removing_a_plugin_leaves_no_job_without_a_reason() {
    for plugin in linked() {
        let name = plugin.name;
        let mut m = manager();
        let ids = submit_all(&mut m);
        if name == "submit-hold" {
            m.load_plugin(name, json!({})).unwrap();
        }
        m.remove_plugin(name).unwrap();
        assert_reasons(&m, name);
        run_out(&mut m);
        assert_reasons(&m, name);
        m.load_plugin(name, json!({})).unwrap();
        assert_reasons(&m, name);
        // The job that its user has held.
        let _ = m.urgency(ids[9], 16);
        run_out(&mut m);
        if name == "submit-hold" {
            for id in &ids {
                let _ = m.urgency(*id, 16);
            }
            run_out(&mut m);
        }
        for id in m.jobs() {
            let (state, events) = (m.job(id).state(), m.events(id));
            assert_eq!(state, State::Inactive, "{name}: {id}: {events:?}; {:?}", m.why(id));
        }
    }
}

#[test]
fn every_linked_plugin_can_be_reloaded_while_jobs_wait() {
    for plugin in linked().into_iter().filter(|plugin| plugin.name != "submit-hold") {
        let name = plugin.name;
        let mut m = manager();
        let ids = submit_all(&mut m);
        m.reload_plugin(name, json!({})).unwrap();
        assert_reasons(&m, name);
        m.crash_and_restart();
        assert_reasons(&m, name);
        let _ = m.urgency(ids[9], 16);
        run_out(&mut m);
        for id in m.jobs() {
            let (state, events) = (m.job(id).state(), m.events(id));
            assert_eq!(state, State::Inactive, "{name}: {id}: {events:?}; {:?}", m.why(id));
        }
    }
}

#[test]
fn each_configuration_has_a_derived_schema() {
    let schemas = linked().into_iter().filter_map(|plugin| Some((plugin.name, (plugin.schema)()?)));
    for (name, schema) in schemas {
        // The schema of a type that doesn't derive `JsonSchema`.
        assert_ne!(schema, json!({"type": "object"}), "{name}");
    }
}
