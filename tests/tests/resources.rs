//! Jobs get the resources that they request, on several nodes; nodes that are drained, lost, reserved or
//! without an executor get no jobs, also after a `kill -9`.
#![allow(clippy::unwrap_used)]

use jobtap_tests::{Manager, jobtap, temporary};
use tempfile::TempDir;

/// A configuration with three nodes of four cores, of which the third has GPUs.
const NODES: &str = r#"
[resource]
noverify = true
[[resource.config]]
hosts = "n[0-2]"
cores = "0-3"
[[resource.config]]
hosts = "n2"
gpus = "0-1"
"#;

/// Starts a manager whose nodes are all on this host, and returns it with its directory.
fn cluster() -> (Manager, TempDir) {
    let temporary = temporary();
    let file = temporary.path().join("nodes.toml");
    std::fs::write(&file, NODES).unwrap();
    let options = ["--test-size=3".as_ref(), "--config-path".as_ref(), file.as_os_str()];
    (Manager::start_in(jobtap(), &temporary.path().join("state"), &options), temporary)
}

/// Runs a job and returns how many tasks it had, and on how many nodes.
#[track_caller]
fn ran(m: &Manager, options: &str) -> (usize, String) {
    let output = m.jobtap(&format!("run {options} printenv FLUX_JOB_NNODES")).ok();
    (output.lines().count(), output.lines().next().unwrap_or_default().to_owned())
}

#[test]
fn jobs_can_request_resources_in_every_shape() {
    let (m, _temporary) = cluster();
    assert_eq!(ran(&m, "--cores=6"), (6, "2".to_owned()));
    assert_eq!(ran(&m, "--cores=6 -N3"), (3, "3".to_owned()));
    assert_eq!(ran(&m, "-N2 --tasks-per-node=3"), (6, "2".to_owned()));
    assert_eq!(ran(&m, "-N1 --tasks-per-core=2"), (8, "1".to_owned()));
    assert_eq!(ran(&m, "-N1 --gpus-per-node=2"), (1, "1".to_owned()));
    assert_eq!(ran(&m, "--shape=node=2/slot=2/core=2"), (4, "2".to_owned()));
    assert_eq!(ran(&m, "--shape=slot=2{a}/[core;gpu]"), (2, "1".to_owned()));
    let copies = m.jobtap("bulksubmit --dry-run --cores={} true ::: 1 2").ok();
    assert_eq!(copies, "bulksubmit: submit --cores=1 true\nbulksubmit: submit --cores=2 true");
    let shapes = ["bulksubmit", "--dry-run", "--shape=node={}{x}/slot/core", "true", ":::", "1"];
    let shapes = m.jobtap_args(&shapes).ok();
    assert_eq!(shapes, "bulksubmit: submit --shape=node=1{x}/slot/core true");
    let refused = |options: &str, text: &str| {
        m.jobtap(&format!("run {options} true")).says(1, &format!("jobtap-run: ERROR: {text}"));
    };
    refused(
        "--cores=2 -n2",
        "Per-resource options can't be used with per-task options. (See --help for details)",
    );
    refused("--gpus-per-node=1", "--gpus-per-node requires --nodes");
    refused(
        "--shape=slot=2{bla}}",
        "--shape=slot=2{bla}}: Mismatched braces starting at position 11.",
    );
    refused(
        "--shape=slot/node",
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    );
}

#[test]
fn drained_lost_and_reserved_nodes_survive_a_kill() {
    let (mut m, _temporary) = cluster();
    let stays = m.submit("-N1 --requires=host:n0 sleep 600");
    let dies = m.submit("-N2 --requires=host:n[1-2] sleep 600");
    m.wait(&stays, "start");
    m.wait(&dies, "start");
    m.jobtap("resource drain n0 bad fan").ok();
    m.jobtap("resource offline n1").ok();
    m.wait(&dies, "clean");
    let log = m.jobtap(&format!("job eventlog {dies}")).ok();
    let failure = r#"type="node-failure" severity=0 note="node failure on n1 (rank 1)""#;
    assert!(log.contains(failure), "{log}");
    m.jobtap("resource maintenance add n2 new disks").ok();
    let waits = m.submit("-N1 true");
    let why = format!(
        "{waits}: SCHED: it could still run when a maintenance begins, so it waits until that is over: \
         n2 now (new disks)"
    );
    let on_lost = m.submit("-N1 --requires=host:n1 true");
    let status = m.jobtap_args(&["resource", "status", "-n", "-o", "{state} {nodelist}"]);
    let status = status.ok();
    for _ in 0..2 {
        assert_eq!(m.jobtap(&format!("job why {waits}")).ok(), why);
        let told = m.jobtap(&format!("job why {on_lost}")).ok();
        assert!(told.ends_with("nodes that are drained: n1 (offline: node failure)"), "{told}");
        let same = m.jobtap_args(&["resource", "status", "-n", "-o", "{state} {nodelist}"]).ok();
        assert_eq!(same, status);
        assert_eq!(m.field(&stays, "state"), "RUN");
        m.kill();
        m.start_again();
    }
    m.jobtap("resource maintenance remove 1").ok();
    m.wait(&waits, "clean");
    assert_eq!(m.field(&waits, "nodelist"), "n2");
    m.jobtap("resource online n1").ok();
    m.jobtap("resource undrain n1 repaired").ok();
    m.wait(&on_lost, "clean");
    assert_eq!(m.field(&on_lost, "nodelist"), "n1");
    m.jobtap(&format!("cancel {stays}")).ok();
    m.wait(&stays, "clean");
}

#[test]
fn a_host_without_an_executor_is_named() {
    let other = "[[resource.config]]\nhosts = \"n1\"\ncores = \"0-3\"";
    let m = Manager::start_with(jobtap(), other);
    let output = m.jobtap("run --requires=host:n1 true");
    assert_eq!(output.code, 1);
    let words = "type=exec severity=0 no executor on n1 (rank 1)";
    assert!(output.stderr.contains(words), "{output:?}");
    let simulated = m.submit("--requires=host:n1 --setattr=exec.test.run_duration=0.1s true");
    m.wait(&simulated, "clean");
    assert_eq!(m.field(&simulated, "result"), "COMPLETED");
}

#[test]
fn nodes_idle_for_a_reservation_are_listed_with_a_reason() {
    let (m, _temporary) = cluster();
    let list = |what: &str, format: &str| {
        let lines = m.jobtap_args(&["resource", what, "-n", "-o", format]).ok();
        // The blank of the format remains where the last column is empty.
        lines.replace(" \n", "|").replace('\n', "|")
    };
    let usual = "free n[0-2]|allocated|down";
    assert_eq!(list("list", "{state} {nodelist}"), usual);
    m.jobtap("resource maintenance add n2 new disks").ok();
    m.jobtap("resource maintenance add n[0-1] --from 2099-01-02T03:04:05Z firmware").ok();
    let now = list("list", "{state} {nodelist}");
    assert_eq!(now, "free n[0-1]|maintenance n2|allocated|down");
    assert_eq!(m.jobtap("resource info -s free").ok(), "2 Nodes, 8 Cores, 0 GPUs");
    assert_eq!(m.jobtap("resource info -s maintenance").ok(), "1 Nodes, 4 Cores, 2 GPUs");
    // The nodes are still there, so the total doesn't change.
    let status = list("status", "{state} {nodelist}");
    assert_eq!(status, "avail n[0-2]|maintenance n2|reserved n[0-1]");
    let reasons = list("status", "{state} {reason}");
    assert_eq!(reasons, "avail|maintenance new disks|reserved from Jan02 03:04: firmware");
    assert_eq!(m.jobtap("resource status -s reserved -i n0 -no {nodelist}").ok(), "n0");
    m.jobtap("resource maintenance remove 1").ok();
    assert_eq!(list("list", "{state} {nodelist}"), usual);
}

#[test]
fn a_nested_manager_has_the_resources_of_its_job() {
    let (m, _temporary) = cluster();
    let exe = jobtap().to_str().unwrap();
    let inner = |options: &[&str], script: &str| {
        let line = [&["run"], options, &[exe, "start", "sh", "-c", script]].concat();
        m.jobtap_args(&line).ok()
    };
    let list = "jobtap resource list -s free -no '{nnodes} {ncores} {nodelist}'";
    assert_eq!(inner(&["-n1", "-c2", "--requires=hosts:n1"], list), "1 2 n1");
    assert_eq!(inner(&["-N1", "-n1", "-x", "--requires=hosts:n0"], list), "1 4 n0");
    // The nested manager ends with its job, and its initial program is no task of that job.
    let end = "jobtap run -t1h true 2>&1; printenv FLUX_JOB_ID || echo none";
    let said = inner(&["-n1", "-t10m"], end);
    assert!(said.contains("exceeds remaining instance lifetime"), "{said}");
    assert!(said.ends_with("none"), "{said}");
    let test = format!("{exe} start -s2 jobtap resource list -s free -no '{{nnodes}}'");
    assert_eq!(m.jobtap_args(&["run", "-n1", "sh", "-c", &test]).ok(), "2");
}
