//! Short jobs, which are handed to the shepherd ahead of their turn: they run once each and in their order, whatever comes
//! between.

use std::fs;
use std::path::Path;
use std::process::Command;

use jobtap_tests::{Manager, jobtap, run, temporary, until};
use tempfile::TempDir;

const JOBS: usize = 300;

/// Submits jobs that note that they run. Returns their ids, in the order of their submission.
fn submit(m: &Manager, runs: &Path) -> Vec<String> {
    let script = format!("echo $FLUX_JOB_ID >>{}", runs.display());
    let cc = format!("--cc=1-{JOBS}");
    m.jobtap_args(&["submit", &cc, "sh", "-c", &script]).ok().lines().map(str::to_owned).collect()
}

fn ran(runs: &Path) -> Vec<String> {
    fs::read_to_string(runs).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// A manager with one core, and the directory that it is in.
fn one_core() -> (Manager, TempDir) {
    let host = run(&mut Command::new("hostname")).ok();
    let text = format!(
        "[resource]\nnoverify = true\n[[resource.config]]\nhosts = \"{}\"\ncores = \"0\"\n",
        host.trim()
    );
    let directory = temporary();
    let config = directory.path().join("config.toml");
    fs::write(&config, text).unwrap();
    let options = ["--config-path".as_ref(), config.as_os_str()];
    (Manager::start_in(jobtap(), &directory.path().join("state"), &options), directory)
}

#[test]
fn on_one_core_they_run_in_the_order_of_their_ids() {
    let (m, directory) = one_core();
    let runs = directory.path().join("runs");
    let ids = submit(&m, &runs);
    m.jobtap("queue drain").ok();
    assert_eq!(ran(&runs), ids);
    let all = "submit validate depend priority alloc start finish release free clean";
    for id in [&ids[0], &ids[JOBS / 2], &ids[JOBS - 1]] {
        let log = m.jobtap(&format!("job eventlog -f json {id}")).ok();
        let name = |line: &str| line.split('"').nth(5).unwrap_or_default().to_owned();
        assert_eq!(log.lines().map(name).collect::<Vec<_>>().join(" "), all, "{log}");
    }
}

#[test]
fn none_begins_once_it_is_said_that_its_queue_is_stopped() {
    let (m, directory) = one_core();
    let runs = directory.path().join("runs");
    let ids = submit(&m, &runs);
    until("some have run", || ran(&runs).len() > 10);
    m.jobtap("queue stop").ok();
    // The one that runs may still write.
    m.jobtap("queue idle --quiet").ok();
    let before = ran(&runs);
    assert!(before.len() < JOBS, "all have run already");
    let urgent = m.jobtap_args(&["submit", "--urgency=20", "sh", "-c", "true"]).ok();
    let last = ids.last().unwrap();
    m.jobtap(&format!("cancel {last}")).ok();
    assert_eq!(ran(&runs), before);
    m.jobtap("queue start").ok();
    m.jobtap("queue drain").ok();
    let mut expected = ids.clone();
    expected.pop();
    assert_eq!(ran(&runs), expected);
    let start = |id: &str| -> f64 { m.field(id, "t_run").parse().unwrap() };
    assert!(start(urgent.trim()) < start(&ids[before.len()]), "the urgent job goes first");
}
