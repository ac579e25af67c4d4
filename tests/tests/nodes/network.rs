//! Nodes on hosts whose network is cut: packets are lost, and no connection is closed.
#![allow(clippy::print_stdout)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jobtap_tests::network::Network;
use jobtap_tests::nodes::Nodes;
use jobtap_tests::{Process, run, serve, until};

/// An instance over so many hosts, whose nodes are lost when they are away for this time. `None` if there can't be any.
fn over(size: u32, grace: &str) -> Option<(Network, Nodes)> {
    let Some(network) = Network::make(size) else {
        println!("skipped: this system doesn't allow a process to have a network of its own");
        return None;
    };
    let nodes = Nodes::start_by(size, grace, &[], |rank| network.wrapper(rank));
    Some((network, nodes))
}

fn count(line: &str) -> usize {
    run(Command::new("pgrep").args(["-fx", line])).stdout.lines().count()
}

/// Waits for something that may take so many seconds.
#[track_caller]
fn within(seconds: u64, what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(seconds), "not within {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_short_cut_of_the_network_loses_nothing() {
    let Some((network, nodes)) = over(2, "30s") else { return };
    let script = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done";
    for (cut, mend) in [
        (Network::unplug as fn(&Network, u32), Network::plug as fn(&_, _)),
        (Network::cut, Network::mend),
    ] {
        let job = ["submit", "-N2", "-n2", "--wait-event=start", "sh", "-c", script];
        let id = nodes.args(&job).ok();
        cut(&network, 1);
        // What is asked of the node meanwhile isn't lost, either.
        let later = nodes.jobtap("submit --requires=rank:1 echo later").ok();
        std::thread::sleep(Duration::from_secs(5));
        mend(&network, 1);
        let printed = nodes.jobtap(&format!("job attach {id}"));
        assert_eq!((printed.code, printed.stdout.lines().count()), (0, 16), "{printed:?}");
        assert_eq!(nodes.jobtap(&format!("job attach {later}")).ok(), "later");
    }
    assert_eq!(nodes.jobtap("resource drain -no {nodelist}").ok(), "");
    assert_eq!(nodes.end(), [Some(0); 2]);
}

/// Starts a command on the node of rank 2.
fn exec(nodes: &Nodes, line: &str) -> Process {
    let mut words = vec!["exec", "-n", "-r", "2"];
    words.extend(line.split(' '));
    let mut command = nodes.command(&words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let exec = serve(&mut command);
    until("it runs", || count(line) == 1);
    exec
}

#[test]
fn a_long_cut_ends_the_jobs_of_that_node_and_it_can_return() {
    let Some((network, nodes)) = over(3, "3s") else { return };
    let across = ["submit", "-N2", "-n2", "--requires=rank:1-2", "--wait-event=start"];
    let across = nodes.args(&[&across[..], &["sleep", "2003"]].concat()).ok();
    let other = nodes.jobtap("submit --requires=rank:0 --wait-event=start sleep 120").ok();
    let mut command = exec(&nodes, "sleep 98766");
    assert_eq!(count("sleep 2003"), 2);
    network.cut(2);
    let begun = Instant::now();
    // 15 s of silence, and then 3 s.
    nodes.jobtap(&format!("job wait-event -q -t 60s {across} exception")).ok();
    assert!(begun.elapsed() < Duration::from_secs(22), "{:?}", begun.elapsed());
    let log = nodes.jobtap(&format!("job eventlog {across}")).ok();
    assert!(log.contains("type=\"node-failure\""), "{log}");
    nodes.jobtap(&format!("job wait-event -q -t 30s {across} clean")).ok();
    assert_eq!(count("sleep 2003"), 1, "only the task that can't be reached is left");
    assert_eq!(command.wait().unwrap().code(), Some(68), "the client of exec is told");
    assert_eq!(nodes.jobtap("resource drain -no {nodelist}").ok(), "n3");
    assert_eq!(nodes.args(&["jobs", "-no", "{status_abbrev}", &other]).ok(), "R");
    nodes.jobtap("run -N2 -n2 true").ok();
    // The command there ends once the node has missed its manager for 20 s and then for 30 s.
    assert_eq!(count("sleep 98766"), 1);
    within(60, "the command ends where nobody can stop it", || count("sleep 98766") == 0);
    network.mend(2);
    within(30, "the node ends what is left of the job", || count("sleep 2003") == 0);
    nodes.jobtap("resource undrain 2").ok();
    nodes.jobtap(&format!("cancel {other}")).ok();
    assert_eq!(nodes.jobtap("run -N3 -n3 echo here").ok(), "here\nhere\nhere");
    assert_eq!(nodes.end(), [Some(0); 3]);
}

#[test]
fn a_node_that_was_cut_off_at_the_end_ends_when_the_network_is_back() {
    let Some((network, mut nodes)) = over(2, "30s") else { return };
    nodes.jobtap("run -N2 -n2 true").ok();
    network.cut(1);
    let begun = Instant::now();
    nodes.signal(0, "TERM");
    assert_eq!(nodes.wait(0), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    // It notices the silence after 20 s, and finds nobody in the next 5 s.
    std::thread::sleep(Duration::from_secs(28).saturating_sub(begun.elapsed()));
    network.mend(1);
    let mended = Instant::now();
    assert_eq!(nodes.wait(1), Some(1));
    assert!(mended.elapsed() < Duration::from_secs(25), "{:?}", mended.elapsed());
}
