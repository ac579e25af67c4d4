//! `housekeeping` with real scripts: nodes stay allocated until the scripts exit, commands list and kill the scripts,
//! and a restarted manager repeats those that were interrupted when it was killed.

use std::fs;
use std::path::Path;

use jobtap_tests::{Manager, jobtap, temporary, until};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Starts a manager with three nodes of one core, whose housekeeping runs this script.
fn cluster(directory: &TempDir, script: &str) -> Manager {
    let command = json!(["sh", "-c", script]);
    let nodes = "[resource]\nnoverify = true\nconfig = [{ hosts = \"n[0-2]\", cores = \"0\" }]\n";
    let table = format!("[job-manager.housekeeping]\nrelease-after = \"0\"\ncommand = {command}\n");
    let file = directory.path().join("config.toml");
    fs::write(&file, format!("{nodes}{table}")).unwrap();
    let options = ["--test-size=3".as_ref(), "--config-path".as_ref(), file.as_os_str()];
    Manager::start_in(jobtap(), &directory.path().join("state"), &options)
}

/// Returns a script that waits for a file named after its rank. It exits when the directory is removed, since
/// no manager ends a script that a killed manager left behind.
fn held_up(go: &Path) -> String {
    let (go, directory) = (go.display(), go.parent().unwrap().display());
    format!("until [ -e {go}.$JOBTAP_RANK ] || [ ! -d {directory} ]; do sleep 0.05; done")
}

fn let_go(go: &Path, rank: u32) {
    fs::write(format!("{}.{rank}", go.display()), "").unwrap();
}

/// Runs a job on all nodes to its end, and returns its id.
fn ended(m: &Manager) -> String {
    let id = m.submit("-N3 true");
    m.wait(&id, "clean");
    id
}

fn listed(m: &Manager, format: &str) -> String {
    m.jobtap_args(&["housekeeping", "list", "-no", format]).ok()
}

#[test]
fn nodes_wait_for_a_script_that_can_be_listed_and_killed() {
    let directory = temporary();
    let go = directory.path().join("go");
    let m = cluster(&directory, &held_up(&go));
    let id = ended(&m);
    assert_eq!(
        listed(&m, "{id.f58} {nnodes} {pending.nnodes} {nodelist}"),
        format!("{id} 3 3 n[0-2]")
    );
    let stats = m.jobtap("module stats job-manager").ok();
    let stats: Value = serde_json::from_str(&stats).unwrap();
    let running = stats.pointer("/housekeeping/running").and_then(Value::as_object).unwrap();
    assert_eq!(running.values().next().map(|run| &run["pending"]), Some(&json!("0-2")));
    let state = "resource status -s housekeeping -no {state}:{nodelist}";
    assert_eq!(m.jobtap(state).ok(), "housekeeping:n[0-2]");
    assert_eq!(m.jobtap("resource list -s free -no {nnodes}").ok(), "0");
    let next = m.submit("-N1 true");
    let_go(&go, 1);
    m.wait(&next, "clean");
    m.jobtap("housekeeping kill -t n0").ok();
    until("what is left is on rank 2", || listed(&m, "{ranks}") == "2");
    m.jobtap_args(&["housekeeping", "kill", "-j", &id]).ok();
    until("nothing is left", || listed(&m, "{ranks}").is_empty());
    let log = m.jobtap("dmesg").ok();
    assert!(log.contains(&format!("n[0,2] (rank 0,2) {id}: Terminated")), "{log}");
}

#[test]
fn the_script_can_ask_the_manager_about_its_job() {
    let directory = temporary();
    let exe = jobtap().display();
    let m = cluster(&directory, &format!("{exe} jobs -no '{{result}}' $FLUX_JOB_ID"));
    let id = ended(&m);
    let line = format!("housekeeping: n0 (rank 0) {id}: COMPLETED");
    until("its answer is logged", || m.jobtap("dmesg").ok().contains(&line));
}

#[test]
fn housekeeping_is_repeated_after_a_kill() {
    let directory = temporary();
    let go = directory.path().join("go");
    let mut m = cluster(&directory, &held_up(&go));
    let id = ended(&m);
    m.kill();
    m.start_again();
    assert_eq!(listed(&m, "{id.f58} {pending.ranks}"), format!("{id} 0-2"));
    let next = m.submit("-N3 true");
    let why = m.jobtap(&format!("job why {next}")).ok();
    assert!(why.contains(&format!("plugin housekeeping since the end of {id}")), "{why}");
    (0..3).for_each(|rank| let_go(&go, rank));
    m.wait(&next, "clean");
}

#[test]
fn a_bad_table_is_refused_and_a_later_one_takes_effect() {
    let m = Manager::start(jobtap());
    m.configure("[job-manager.housekeeping]\ncommand = [\"true\"]\nafter = 1\n");
    let refused = m.jobtap("config reload");
    let text = "job-manager.housekeeping: 1 object item(s) left unpacked: after";
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains(text), "{}", refused.stderr);
    m.configure("[job-manager.housekeeping]\ncommand = [\"echo\", \"clean\"]\n");
    m.jobtap("config reload").ok();
    let id = m.submit("true");
    m.wait(&id, "clean");
    let line = format!("{id}: clean");
    until("its output is logged", || m.jobtap("dmesg").ok().contains(&line));
}

#[test]
fn malformed_requests_are_refused() {
    let m = Manager::start(jobtap());
    for (line, text) in [
        ("", "specify at least one of --targets, --jobid, or --all"),
        ("--all -j 1", "do not specify --jobid with --all"),
        ("-t [", "--targets must be a valid Idset or Hostlist"),
        ("-t nobody", "didn't find nobody in instance hostlist"),
    ] {
        let refused = m.jobtap(&format!("housekeeping kill {line}"));
        let told = (refused.code, refused.stderr.trim_end().to_owned());
        assert_eq!(told, (1, format!("jobtap-housekeeping: ERROR: {text}")));
    }
    // Without configured housekeeping nothing runs.
    assert_eq!(m.jobtap("housekeeping kill --all").ok(), "");
    assert_eq!(m.jobtap("housekeeping list -n").ok(), "");
}
