//! `prep-script` in virtual time: which scripts run when, what they are told, and what follows from failures.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeMap;

use jobtap_builtins::{PrepScript, PriorityDefault};
use jobtap_core::plugin::Process;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

fn manager(table: Value) -> TestManager {
    let config = json!({
        "job-manager": {"plugins": [{"load": "prep-script"}]},
        "plugins": {"prep-script": table},
    });
    let builder = TestManager::new().plugin::<PriorityDefault>().linked::<PrepScript>();
    builder.hosts(2).config(config).start()
}

fn all() -> Value {
    json!({
        "prolog": "/etc/prolog",
        "epilog": ["/etc/epilog", "/etc/scrub"],
        "prolog-slurmctld": "/etc/prepare",
        "epilog-slurmctld": "/etc/account",
        "cluster-name": "test",
        "slurm-conf": "/etc/slurm.conf",
    })
}

/// The script of a process, with its variables.
fn script(process: &Process) -> Option<(String, BTreeMap<String, String>)> {
    if process.program != "/usr/bin/env" || process.args.first()? != "-i" {
        return None;
    }
    let (script, pairs) = process.args[1..].split_last()?;
    let pairs = pairs.iter().filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some((script.clone(), pairs.collect()))
}

fn scripts(m: &TestManager) -> Vec<(String, BTreeMap<String, String>)> {
    m.started_processes().iter().filter_map(script).collect()
}

fn names(m: &TestManager) -> Vec<String> {
    scripts(m).into_iter().map(|(name, _)| name).collect()
}

/// Ends the processes that look names up, since they run before the scripts.
fn look_up(m: &mut TestManager) {
    while m.running_processes().any(|(process, _)| process.program == "getent") {
        m.end_process("getent", WaitStatus::from_exit_code(2));
    }
}

#[test]
fn scripts_run_before_and_after_the_tasks() {
    let mut m = manager(all());
    let id = m.submit(TestJob::new().nodes(2).ntasks(8)).unwrap();
    assert_eq!(names(&m), ["/etc/prepare", "/etc/prolog", "/etc/prolog"]);
    m.assert_state(id, State::Run);
    m.finish(id, 0);
    m.assert_state(id, State::Inactive);
    let mut after = names(&m).split_off(3);
    after.sort();
    assert_eq!(after, ["/etc/account", "/etc/epilog", "/etc/epilog", "/etc/scrub", "/etc/scrub"]);
}

#[test]
fn a_manager_without_scripts_starts_no_process() {
    let mut m = manager(json!({}));
    let id = m.submit(TestJob::new()).unwrap();
    m.finish(id, 0);
    m.assert_state(id, State::Inactive);
    assert_eq!(m.started_processes().len(), 0);
}

#[test]
fn each_script_gets_the_variables_of_its_context() {
    let mut m = manager(all());
    let job = TestJob::new().nodes(2).ntasks(8).user(1001).name("app").attribute("bank", "chem");
    let id = m.submit(job).unwrap();
    m.finish(id, 5);
    let all = scripts(&m);
    let of = |name: &str| all.iter().find(|(script, _)| script == name).unwrap().1.clone();
    let (prolog, epilog) = (of("/etc/prolog"), of("/etc/epilog"));
    let (prepare, account) = (of("/etc/prepare"), of("/etc/account"));
    for variables in [&prolog, &epilog, &prepare, &account] {
        assert_eq!(variables["SLURM_JOB_ID"], id.as_u64().to_string());
        assert_eq!(variables["SLURM_JOB_UID"], "1001");
        assert_eq!(variables["SLURM_JOB_CPUS_PER_NODE"], "4(x2)");
        assert_eq!(variables["SLURM_JOB_NUM_NODES"], "2");
        assert_eq!(variables["SLURM_CLUSTER_NAME"], "test");
        assert_eq!(variables["SLURM_JOB_ACCOUNT"], "chem");
        assert_eq!(variables["SLURM_JOB_RESTART_COUNT"], "0");
        assert!(!variables.contains_key("PATH"));
    }
    let context = |variables: &BTreeMap<String, String>| variables["SLURM_SCRIPT_CONTEXT"].clone();
    assert_eq!(context(&prolog), "prolog_slurmd");
    assert_eq!(context(&epilog), "epilog_slurmd");
    assert_eq!(context(&prepare), "prolog_slurmctld");
    assert_eq!(context(&account), "epilog_slurmctld");
    assert_eq!(prolog["SLURMD_NODENAME"], "testhost0");
    assert_eq!(prolog["SLURM_CONF"], "/etc/slurm.conf");
    assert_eq!(prolog["SLURM_JOB_NTASKS"], "8");
    assert_eq!(prolog["SLURM_NODELIST"], "testhost[0-1]");
    assert!(!prolog.contains_key("SLURM_JOB_NAME"));
    assert_eq!(prepare["SLURM_JOB_NAME"], "app");
    assert_eq!(prepare["SLURM_JOB_NODELIST"], "testhost[0-1]");
    assert!(!prepare.contains_key("SLURM_JOB_EXIT_CODE"));
    assert_eq!(account["SLURM_JOB_EXIT_CODE"], "1280");
    assert_eq!(epilog["SLURM_JOB_EXIT_CODE2"], "5:0");
}

#[test]
fn an_unset_account_is_null_in_the_controller_only() {
    let mut m = manager(all());
    m.submit(TestJob::new()).unwrap();
    let all = scripts(&m);
    assert_eq!(all[0].1["SLURM_JOB_ACCOUNT"], "(null)");
    assert!(!all[1].1.contains_key("SLURM_JOB_ACCOUNT"));
}

#[test]
fn the_first_script_that_fails_ends_the_list() {
    let mut m = manager(json!({"epilog": ["/etc/first", "/etc/second"]}));
    let id = m.submit(TestJob::new()).unwrap();
    m.hold_processes();
    m.finish(id, 0);
    look_up(&mut m);
    m.end_process("/usr/bin/env", WaitStatus::from_exit_code(1));
    m.assert_state(id, State::Inactive);
    assert_eq!(names(&m), ["/etc/first"]);
    assert!(m.resource_log().iter().any(|entry| entry.name == "drain"));
}

#[test]
fn a_script_that_takes_too_long_is_killed() {
    let mut m = manager(json!({"prolog": "/etc/slow", "timeout": "1h", "prolog-timeout": "10s"}));
    m.hold_processes();
    let id = m.submit(TestJob::new()).unwrap();
    look_up(&mut m);
    m.advance(9.0);
    m.assert_state(id, State::Run);
    m.advance(2.0);
    m.assert_state(id, State::Inactive);
    assert_eq!(m.running_processes().count(), 0);
    let note = "prolog on testhost0: /etc/slow: killed: no end after 10 s; submitted again, held";
    m.assert_exception(id, "prolog", note);
}

#[test]
fn a_bad_table_is_refused_by_its_key() {
    let refusal = |table: Value| {
        let config = json!({
            "job-manager": {"plugins": [{"load": "prep-script"}]},
            "plugins": {"prep-script": table},
        });
        TestManager::new()
            .linked::<PrepScript>()
            .config(config)
            .try_start()
            .err()
            .unwrap_or_default()
    };
    let relative = refusal(json!({"prolog": "prolog.sh"}));
    assert!(relative.ends_with("prolog: prolog.sh: must be an absolute path"), "{relative}");
    let pattern = refusal(json!({"epilog": ["/etc/[a"]}));
    assert!(pattern.contains("epilog: /etc/[a: "), "{pattern}");
    let unknown = refusal(json!({"prologue": "/etc/x"}));
    assert!(unknown.contains("prologue"), "{unknown}");
}
