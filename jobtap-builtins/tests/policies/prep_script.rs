//! `prep-script` in virtual time: which scripts run when, which variables they get, and what happens if they
//! fail.

use std::collections::BTreeMap;

use jobtap_builtins::{PrepScript, PriorityDefault};
use jobtap_core::plugin::Process;
use jobtap_core::prelude::*;
use jobtap_core::resource::Children;
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
    if process.program != "/bin/sh" || process.args.first()? != "-c" {
        return None;
    }
    // After the text for the shell, and the program's name.
    let (script, pairs) = process.args[3..].split_last()?;
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
        assert!(!variables.keys().any(|name| name.starts_with("SLURM_ARRAY_")), "{variables:?}");
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

/// A manager on two hosts with four cores and four GPUs each.
fn manager_with_gpus(table: Value) -> TestManager {
    let hosts = "testhost[0-1]".parse().unwrap();
    let resources = ResourceSet::uniform(0, &hosts, Children::new((0..=3).into(), (0..=3).into()));
    let config = json!({
        "job-manager": {"plugins": [{"load": "prep-script"}]},
        "plugins": {"prep-script": table},
    });
    let builder = TestManager::new().plugin::<PriorityDefault>().linked::<PrepScript>();
    builder.resources(resources).config(config).start()
}

#[test]
fn scripts_of_nodes_are_told_of_the_gpus_there() {
    let mut m = manager_with_gpus(all());
    // The first jobs take the first two GPUs of both nodes.
    for _ in 0..2 {
        m.submit(TestJob::new().gpus_per_task(2)).unwrap();
    }
    let id = m.submit(TestJob::new().gpus_per_task(2)).unwrap();
    m.submit(TestJob::new()).unwrap();
    m.finish(id, 0);
    let number = id.as_u64().to_string();
    let names = [
        "SLURM_JOB_GPUS",
        "CUDA_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        "ROCR_VISIBLE_DEVICES",
        "ZE_AFFINITY_MASK",
    ];
    for (script, variables) in scripts(&m) {
        let is_of_node = ["/etc/prolog", "/etc/epilog", "/etc/scrub"].contains(&script.as_str());
        let expected = is_of_node && variables["SLURM_JOB_ID"] == number;
        for name in names {
            let gpus = variables.get(name).map(String::as_str);
            match expected {
                true => assert_eq!(gpus, Some("2,3"), "{script} {name}"),
                false => assert_ne!(gpus, Some("2,3"), "{script} {name}"),
            }
            assert!(gpus.is_none() || is_of_node, "{script} {name}");
        }
    }
    let last = scripts(&m).into_iter().rfind(|(script, _)| script == "/etc/prolog");
    assert!(!last.unwrap().1.contains_key("SLURM_JOB_GPUS"));
}

#[test]
fn scripts_of_the_controller_are_told_of_the_array() {
    let array = |id: Option<u64>| {
        json!({"array_job_id": id, "array_task_id": 7, "array_task_cnt": 3, "array_task_min": 3,
            "array_task_max": 11, "array_task_step": 4})
    };
    let mut m = manager(all());
    let first = m.submit(TestJob::new().attribute("slurm", array(None))).unwrap();
    m.submit(TestJob::new().attribute("slurm", array(Some(77)))).unwrap();
    let all = scripts(&m);
    let of = |variables: &BTreeMap<String, String>| {
        let array = variables.iter().filter(|(name, _)| name.starts_with("SLURM_ARRAY_"));
        array.map(|(name, value)| format!("{}={value}", &name[12..])).collect::<Vec<_>>().join(" ")
    };
    let numbers = "TASK_COUNT=3 TASK_ID=7 TASK_MAX=11 TASK_MIN=3 TASK_STEP=4";
    // The id of the array is the id of its first job.
    assert_eq!(of(&all[0].1), format!("JOB_ID={} {numbers}", first.as_u64()));
    assert_eq!(of(&all[1].1), "");
    assert_eq!(of(&all[2].1), format!("JOB_ID=77 {numbers}"));
}

#[test]
fn spank_variables_reach_scripts_if_all_are_safe() {
    let mut m = manager(all());
    for variables in [json!(["SPANK_A=1", "SPANK_B=x=y"]), json!(["SPANK_A=1", "PATH=/tmp"])] {
        m.submit(TestJob::new().attribute("slurm", json!({"spank_job_env": variables}))).unwrap();
    }
    let all = scripts(&m);
    for (_, variables) in &all[..2] {
        assert_eq!((&*variables["SPANK_A"], &*variables["SPANK_B"]), ("1", "x=y"));
    }
    for (_, variables) in &all[2..] {
        assert!(!variables.contains_key("SPANK_A") && !variables.contains_key("PATH"));
    }
}

#[test]
fn the_variables_of_newer_versions_are_set() {
    let mut m = manager(all());
    let slurm = json!({"extra": "x", "core_spec": 0x8002, "selinux_context": "c"});
    let job = TestJob::new().attribute("slurm", slurm).attribute("qos", "high").duration(90.0);
    let id = m.submit(job).unwrap();
    let start = m.job(id).t_alloc().unwrap().as_secs().floor();
    for (script, variables) in scripts(&m) {
        assert_eq!(variables["SLURM_JOB_START_TIME"], start.to_string(), "{script}");
        assert_eq!(variables["SLURM_JOB_END_TIME"], (start + 90.0).to_string(), "{script}");
        assert_eq!((&*variables["SLURM_JOB_QOS"], &*variables["SLURM_JOB_EXTRA"]), ("high", "x"));
        assert_eq!(variables["SLURM_JOB_SELINUX_CONTEXT"], "c");
        assert_eq!(variables["SLURM_JOB_OVERSUBSCRIBE"], "OK");
        let threads = variables.get("SLURM_JOB_CORE_SPEC_TYPE").map(String::as_str);
        assert_eq!(threads, (script == "/etc/prolog").then_some("threads"), "{script}");
    }
    assert_eq!(scripts(&m)[1].1["SLURM_JOB_CORE_SPEC_COUNT"], "2");
}

/// The nodes on which scripts run now.
fn busy(m: &TestManager) -> Vec<String> {
    let running = m.running_processes().filter_map(|(process, _)| script(process));
    let mut nodes: Vec<String> =
        running.map(|(_, variables)| variables["SLURMD_NODENAME"].clone()).collect();
    nodes.sort();
    nodes
}

#[test]
fn serial_scripts_of_a_node_run_one_after_the_other() {
    let table = json!({"prolog": "/etc/prolog", "prolog-flags": ["Alloc", "Serial"]});
    let mut m = manager(table);
    m.hold_processes();
    let ids = [0; 4].map(|_| m.submit(TestJob::new().ntasks(2)).unwrap());
    look_up(&mut m);
    assert_eq!(busy(&m), ["testhost0", "testhost1"]);
    assert_eq!(scripts(&m).len(), 2);
    // One ends and the other is killed: both nodes go on with the next job.
    m.end_process("/bin/sh", WaitStatus::SUCCESS);
    assert_eq!(scripts(&m).len(), 3);
    for id in ids {
        let is_open = scripts(&m)[..2].iter().any(|(_, variables)| {
            variables["SLURM_JOB_ID"] == id.as_u64().to_string() && !m.job(id).event_posted("start")
        });
        if is_open {
            m.cancel(id).unwrap();
        }
    }
    assert_eq!(scripts(&m).len(), 4);
    assert_eq!(busy(&m), ["testhost0", "testhost1"]);

    let mut m = manager(json!({"prolog": "/etc/prolog"}));
    m.hold_processes();
    for _ in 0..4 {
        m.submit(TestJob::new().ntasks(2)).unwrap();
    }
    look_up(&mut m);
    assert_eq!(busy(&m).len(), 4);
}

#[test]
fn flags_that_are_not_served_are_refused_with_the_reason() {
    for (flag, why) in [
        ("Contain", "there is no step for processes from outside the job"),
        ("ForceRequeueOnFail", "a job that is not to be requeued ends when its prolog fails"),
        ("NoHold", "the tasks of every job wait for its prologs"),
        ("RunInJob", "scripts run on the manager's host"),
        ("X11", "X11 is not forwarded"),
    ] {
        let text = refusal(json!({"prolog-flags": ["Serial", flag]}));
        assert!(text.ends_with(&format!("prolog-flags: {flag} is not served: {why}")), "{text}");
    }
    for flags in [json!(["Alloc"]), json!(["DeferBatch", "Serial"])] {
        assert_eq!(refusal(json!({"prolog-flags": flags})), "");
    }
    assert!(refusal(json!({"prolog-flags": ["Parallel"]})).contains("Parallel"));
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
    m.end_process("/bin/sh", WaitStatus::from_exit_code(1));
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

/// Returns the error with which a manager with this table fails to start; empty if it starts.
fn refusal(table: Value) -> String {
    let config = json!({
        "job-manager": {"plugins": [{"load": "prep-script"}]},
        "plugins": {"prep-script": table},
    });
    let started = TestManager::new().linked::<PrepScript>().config(config).try_start();
    started.err().map(|error| error.text()).unwrap_or_default()
}

#[test]
fn a_bad_table_is_refused_by_its_key() {
    let relative = refusal(json!({"prolog": "prolog.sh"}));
    assert!(relative.ends_with("prolog: prolog.sh: must be an absolute path"), "{relative}");
    let pattern = refusal(json!({"epilog": ["/etc/[a"]}));
    assert!(pattern.contains("epilog: /etc/[a: "), "{pattern}");
    let unknown = refusal(json!({"prologue": "/etc/x"}));
    assert!(unknown.contains("prologue"), "{unknown}");
}
