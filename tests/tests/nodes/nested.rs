//! Instances that run as jobs on several nodes of another instance.

use std::fs;

use jobtap_tests::nodes::Nodes;
use jobtap_tests::{Output, jobtap};

use crate::{sorted, with_a_disk_of_its_own};

/// Runs a script as a batch job, and returns what it prints.
#[track_caller]
fn batch(nodes: &Nodes, options: &[&str], script: &str) -> Output {
    let file = nodes.directory().join("script.sh");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    let mut words = vec!["batch", "--output=batch.out"];
    words.extend(options);
    words.push("script.sh");
    let id = nodes.args(&words).ok();
    let code = nodes.jobtap(&format!("job status {id}")).code;
    let stdout = fs::read_to_string(nodes.directory().join("batch.out")).unwrap();
    Output { code, stdout, stderr: String::new() }
}

#[test]
fn a_batch_job_on_several_nodes_is_an_instance_of_these() {
    let nodes = Nodes::start(3);
    let line = "echo $FLUX_TASK_RANK on {{node.name}} by $PPID";
    let script = format!(
        "jobtap resource list -s free -no '{{nnodes}} {{ncores}} {{nodelist}}'
         jobtap getattr instance-level
         jobtap run -N2 -n2 sh -c 'echo {{{{node.name}}}}'
         jobtap exec sh -c 'echo $HOSTNAME'
         jobtap run -N2 -n4 sh -c '{line}' | awk '{{ print $NF }}' | sort -u | wc -l
         exit 5"
    );
    let ran = batch(&nodes, &["-N2", "--requires=rank:1-2"], &script);
    // The tasks are children of two different forkers.
    let expected = ["1", "2", "2 4 n[2-3]", "n2", "n2", "n3", "n3"];
    assert_eq!(sorted(&ran.stdout), expected);
    assert_eq!(ran.code, 5);
    let left = nodes.jobtap("run -N3 -n6 true");
    assert_eq!(left.code, 0, "all resources are free again: {left:?}");
    assert_eq!(nodes.end(), [Some(0), Some(0), Some(0)]);
}

#[test]
fn a_nested_instance_has_what_its_job_has_on_each_node() {
    let nodes = Nodes::start(2);
    // One of two cores on each node.
    let script =
        "jobtap resource list -s free -no '{nnodes} {ncores}'; jobtap run -N2 -n2 echo ran";
    let ran = batch(&nodes, &["-N2", "-n2", "-c1", "-t5m"], script);
    assert_eq!(sorted(&ran.stdout), ["2 2", "ran", "ran"]);
    let outside = nodes.args(&["run", "-N2", "-n2", "-c1", "echo", "beside"]).ok();
    assert_eq!(outside.lines().count(), 2);
}

#[test]
fn a_job_that_is_not_one_task_per_node_says_so() {
    let nodes = Nodes::start(2);
    let exe = jobtap().to_str().unwrap();
    let refused = nodes.args(&["run", "-N2", "-n4", exe, "start", "true"]);
    assert_ne!(refused.code, 0);
    let text = "this job has 4 tasks on 2 nodes: an instance has one on each";
    assert!(refused.stderr.contains(text), "{refused:?}");
    let without = nodes.args(&["run", "-N2", "-n2", "-o", "pmi=off", exe, "start", "true"]);
    assert!(without.stderr.contains("and offers no PMI"), "{without:?}");
    let turned = ["run", "-N2", "-n2", "-o", "taskmap=manual:[[1,1,1,1],[0,1,1,1]]", exe, "start"];
    let refused = nodes.args(&[&turned[..], &["true"]].concat());
    assert!(refused.stderr.contains("task 0 of this job is on its node number 1"), "{refused:?}");
    let cyclic = ["run", "-N2", "-n2", "-o", "taskmap=cyclic", exe, "start", exe, "resource"];
    let ran = nodes.args(&[&cyclic[..], &["list", "-s", "free", "-no", "{nodelist}"]].concat());
    assert_eq!(ran.ok(), "n[1-2]");
}

#[test]
fn a_nested_instance_on_another_host_is_reached_through_its_node() {
    let Some(nodes) = with_a_disk_of_its_own("500m") else { return };
    let file = nodes.directory().join("script.sh");
    fs::write(&file, "#!/bin/sh\njobtap submit --job-name=inner sleep 60\nsleep 60\n").unwrap();
    // On the disk that only that host has.
    let there = format!("--env=TMPDIR={}", nodes.directory().display());
    let batch = ["batch", "-N1", "--requires=rank:1", "--job-name=outer", &there, "script.sh"];
    let id = nodes.args(&batch).ok();
    let own = nodes.args(&["uri", "--wait", &id]).ok();
    assert!(own.starts_with("local:///"), "{own}");
    assert!(!std::path::Path::new(&own["local://".len()..]).exists(), "it is on another host");
    let exe = jobtap().to_str().unwrap();
    let through = ["proxy", &id, exe];
    let listed = || nodes.args(&[&through[..], &["jobs", "-no", "{name}"]].concat());
    jobtap_tests::until("it has a job", || listed().stdout == "inner\n");
    // More than may wait on the way, in both directions.
    let words = ["run", "--env=MUCH", "sh", "-c", "yes $(printenv MUCH | wc -c) | head -c 3000000"];
    let mut much = nodes.command(&[&through[..], &words].concat());
    let printed = jobtap_tests::run(much.env("MUCH", "m".repeat(100_000)));
    assert_eq!((printed.code, printed.stdout.len()), (0, 3_000_000), "{}", printed.stderr);
    assert!(printed.stdout.starts_with("100001\n"));
    let all = nodes.args(&["jobs", "-R", "-no", "{name}"]).ok();
    assert!(all.lines().any(|line| line == "inner"), "{all}");
    let tree = nodes.args(&["pstree", "-x"]).ok();
    assert!(tree.contains("inner"), "{tree}");
    // Its end is told as that of a manager nearby.
    nodes.jobtap(&format!("cancel {id}")).ok();
    nodes.jobtap(&format!("job wait-event -q -t 60s {id} clean")).ok();
    assert!(listed().stderr.contains("is not running"));
}

#[test]
fn a_canceled_nested_instance_leaves_nothing() {
    let nodes = Nodes::start(2);
    let file = nodes.directory().join("script.sh");
    fs::write(&file, "#!/bin/sh\njobtap run -N2 -n2 sh -c 'echo ready; sleep 54321'\n").unwrap();
    let id = nodes.args(&["batch", "-N2", "--output=batch.out", "script.sh"]).ok();
    let printed = || fs::read_to_string(nodes.directory().join("batch.out")).unwrap_or_default();
    jobtap_tests::until("its job runs", || printed().lines().count() == 2);
    nodes.jobtap(&format!("cancel {id}")).ok();
    nodes.jobtap(&format!("job wait-event -q -t 60s {id} clean")).ok();
    let sleeps =
        jobtap_tests::run(std::process::Command::new("pgrep").args(["-fx", "sleep 54321"]));
    assert_eq!(sleeps.stdout, "", "nothing is left of it");
    assert_eq!(nodes.jobtap("run -N2 -n4 true").code, 0);
}
