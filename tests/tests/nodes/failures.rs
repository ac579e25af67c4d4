//! Nodes that fail while jobs run.

use std::process::Command;
use std::time::{Duration, Instant};

use jobtap_tests::nodes::Nodes;
use jobtap_tests::{run, until};

use crate::with_a_disk_of_its_own;

fn state(nodes: &Nodes, id: &str) -> String {
    nodes.args(&["jobs", "-a", "-no", "{status_abbrev}", id]).ok()
}

#[test]
fn a_node_that_dies_takes_its_jobs_with_it_and_no_others() {
    let nodes = Nodes::start(3);
    let across = nodes.jobtap("submit -N3 -n3 --wait-event=start sleep 2001").ok();
    let other = nodes.jobtap("submit --requires=rank:0 --wait-event=start sleep 20").ok();
    nodes.signal(2, "KILL");
    // The node is lost when it has been away for half a minute.
    nodes.jobtap(&format!("job wait-event -q -t 90s {across} exception")).ok();
    let log = nodes.jobtap(&format!("job eventlog {across}")).ok();
    assert!(log.contains("type=\"node-failure\""), "{log}");
    nodes.jobtap(&format!("job wait-event -q -t 60s {across} clean")).ok();
    let drained = nodes.jobtap("resource drain -no {nodelist}").ok();
    assert_eq!(drained, "n3");
    assert!(["R", "CD"].contains(&&*state(&nodes, &other)), "the job of another node goes on");
    let id = nodes.jobtap("submit -N2 -n2 --wait-event=clean true").ok();
    assert_eq!(state(&nodes, &id), "CD");
    let left = || run(Command::new("pgrep").args(["-fx", "sleep 2001"])).stdout;
    until("no process of the job is left", || left().is_empty());
}

#[test]
fn a_short_stop_of_a_node_loses_nothing() {
    let nodes = Nodes::start(2);
    let script = "for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done";
    let id = nodes.args(&["submit", "-N2", "-n2", "--wait-event=start", "sh", "-c", script]).ok();
    nodes.signal(1, "STOP");
    std::thread::sleep(Duration::from_secs(2));
    nodes.signal(1, "CONT");
    let printed = nodes.jobtap(&format!("job attach {id}"));
    assert_eq!((printed.code, printed.stdout.lines().count()), (0, 12), "{printed:?}");
}

#[test]
fn a_shepherd_that_dies_on_a_node_is_replaced_and_its_job_goes_on() {
    let nodes = Nodes::start(2);
    let id = nodes.jobtap("submit -N2 -n2 --wait-event=start sleep 3").ok();
    let shepherd = |parent: u32| {
        let children = run(Command::new("pgrep").args(["-P", &parent.to_string()])).stdout;
        children.lines().next().unwrap_or_default().to_owned()
    };
    let first = shepherd(nodes.pid(1));
    run(Command::new("kill").args(["-s", "KILL", &first])).ok();
    let begun = Instant::now();
    assert_eq!(nodes.jobtap(&format!("job status {id}")).code, 0);
    assert!(begun.elapsed() < Duration::from_secs(30));
    nodes.jobtap("run -N2 -n2 true").ok();
}

#[test]
fn a_full_disk_of_a_node_loses_output_and_no_job() {
    let Some(nodes) = with_a_disk_of_its_own("2m") else { return };
    let on_second = ["run", "--requires=rank:1", "echo", "here"];
    assert_eq!(nodes.args(&on_second).ok(), "here");
    let fill = "head -c 9000000 /dev/zero >fill; true";
    nodes.args(&["exec", "-r", "1", "sh", "-c", fill]).ok();
    let much = "yes | head -c 1000000; exit 3";
    let ran = nodes.args(&["run", "--requires=rank:1", "sh", "-c", much]);
    assert_eq!(ran.code, 3, "its tasks run: {ran:?}");
    assert!(ran.stderr.contains("stdout lost: No space left on device"), "{ran:?}");
    assert_eq!(nodes.jobtap("run --requires=rank:0 echo there").ok(), "there");
    nodes.args(&["exec", "-r", "1", "rm", "fill"]).ok();
    assert_eq!(nodes.args(&on_second).ok(), "here");
    assert_eq!(nodes.end(), [Some(0); 2]);
}

#[test]
fn a_killed_manager_is_followed_by_one_that_takes_its_nodes_over() {
    let mut nodes = Nodes::start(3);
    let script = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done; exit $FLUX_TASK_RANK";
    let id = nodes.args(&["submit", "-N3", "-n3", "--wait-event=start", "sh", "-c", script]).ok();
    let over = nodes.args(&["submit", "-N2", "-n2", "--wait-event=clean", "echo", "over"]).ok();
    nodes.restart_manager();
    let printed = nodes.jobtap(&format!("job attach {id}"));
    assert_eq!((printed.code, printed.stdout.lines().count()), (2, 24), "{printed:?}");
    let log = nodes.jobtap(&format!("job eventlog {id}")).ok();
    assert_eq!(log.matches(" start").count(), 1, "it ran once: {log}");
    assert_eq!(nodes.jobtap(&format!("job attach {over}")).ok(), "over\nover");
    nodes.jobtap("run -N3 -n3 true").ok();
    assert_eq!(nodes.end(), [Some(0); 3]);
}
