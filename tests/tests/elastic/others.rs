//! Allocations of a real Flux, and of a job manager that only a command of the site knows.

use std::os::unix::fs::PermissionsExt;

use jobtap_tests::flux::flux;
use jobtap_tests::{clean, jobtap, run, temporary, until};

use crate::site::Site;

/// A table of allocations of one node.
const TABLE: &str = "cores = 1\nmax = 2\ntime-limit = \"10m\"\nidle-time = \"2s\"\n";

#[test]
fn a_flux_gives_allocations_and_takes_them_back() {
    let Some(flux) = flux() else { return };
    let directory = temporary();
    let config = directory.path().join("config.toml");
    let table = format!("[[allocation]]\nengine = \"flux\"\n{TABLE}");
    std::fs::write(&config, format!("[allocation-address]\nhost = \"127.0.0.1\"\n{table}"))
        .unwrap();
    // The manager and its command run in a Flux, whose address is the outer one's.
    let inner = r#"
        jobtap run -n1 sh -c 'echo ran in $FLUX_JOB_ID_PATH'
        jobtap allocation list -no '{table} {state} {nnodes}'
        jobtap submit --quiet -n1 sleep 100
    "#;
    let outer = r#"
        "$0" start --config-path="$1" sh -c "$2"
        echo "exit $?"
        flux jobs -a -no '{name} {status}' | cut -c1-7,16-
        flux jobs -no '{name}'
    "#;
    let mut command = clean(&flux);
    command.args(["start", "-s", "1", "sh", "-c", outer]).arg(jobtap()).arg(&config).arg(inner);
    command.env("TMPDIR", directory.path());
    let printed = run(&mut command);
    let lines: Vec<&str> = printed.stdout.lines().collect();
    assert!(lines[0].starts_with("ran in "), "{printed:?}");
    assert_eq!(lines[1], "flux running 1", "{printed:?}");
    assert_eq!(lines[2], "exit 0", "{printed:?}");
    assert!(lines[3].contains("CANCELED") || lines[3].contains("COMPLETED"), "{printed:?}");
    assert_eq!(lines.len(), 4, "no job is left: {printed:?}");
}

/// A job manager of one host: a job is a process, and its state is a file.
const SITE: &str = r#"#!/bin/sh
jobs=$(dirname "$0")/jobs
mkdir -p "$jobs"
case $1 in
submit)
    echo "$2 $4 $JOBTAP_NODES $JOBTAP_CORES" >>"$jobs/log"
    [ -e "$jobs/closed" ] && { echo "site: the queue is closed" >&2; exit 1; }
    id=$(($(ls "$jobs" | grep -c '\.name$') + 1))
    echo "$2" >"$jobs/$id.name"
    (env SLURMD_NODENAME=site$id setsid sh "$3" </dev/null >"$jobs/$id.out" 2>&1 & echo $! >"$jobs/$id.pid")
    echo $id ;;
status)
    shift
    for word; do
        for file in "$jobs"/*.name; do
            id=$(basename "$file" .name)
            [ "$(cat "$file")" = "${word%%=*}" ] || continue
            state=ended
            kill -0 "$(cat "$jobs/$id.pid")" 2>/dev/null && state=running
            echo "${word%%=*} $id $state"
        done
    done ;;
cancel)
    kill "$(cat "$jobs/$2.pid")" ;;
esac
"#;

#[test]
fn a_command_of_the_site_serves_any_other_job_manager() {
    let directory = temporary();
    let command = directory.path().join("site");
    std::fs::write(&command, SITE).unwrap();
    std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o755)).unwrap();
    let table = format!(
        "[[allocation]]\nengine = \"command\"\ncommand = [\"{}\"]\noptions = [\"-q=short\"]\n{TABLE}",
        command.display()
    );
    let site = Site::without_slurm(&table);
    let closed = directory.path().join("jobs/closed");
    std::fs::create_dir(directory.path().join("jobs")).unwrap();
    std::fs::write(&closed, "").unwrap();
    let id = site.jobtap("submit -n1 hostname").ok();
    let refusal = || site.jobtap("allocation list --tables -no {refusal}").ok();
    until("the refusal is shown", || refusal() == "the queue is closed");
    std::fs::remove_file(&closed).unwrap();
    assert_eq!(site.jobtap(&format!("job status {id}")).code, 0);
    let log = std::fs::read_to_string(directory.path().join("jobs/log")).unwrap();
    assert!(log.lines().all(|line| line.ends_with(" -q=short 1 1")), "{log}");
    until("it is forgotten", || site.jobtap("allocation list -no {id}").ok().is_empty());
    let scripts = || std::fs::read_dir(site.directory().join("state/allocations")).unwrap().count();
    assert_eq!(scripts(), 0, "no invitation is left");
}

#[test]
fn an_engine_that_is_not_there_is_named() {
    let table = format!("[[allocation]]\nengine = \"command\"\ncommand = [\"/no/qsub\"]\n{TABLE}");
    let site = Site::without_slurm(&table);
    let id = site.jobtap("submit -n1 true").ok();
    let refusal = || site.jobtap("allocation list --tables -no {refusal}").ok();
    until("the refusal is shown", || refusal().starts_with("/no/qsub: No such file"));
    let why = site.jobtap(&format!("job why {id}")).ok();
    assert!(why.contains("/no/qsub"), "{why}");
    let large = site.jobtap("run -n1 -c8 true");
    assert!(large.stderr.contains("unsatisfiable"), "no allocation is ever so large: {large:?}");
    assert_eq!(site.as_guest("allocation list --tables -no {name}").ok(), "command");
    let refused = site.as_guest("allocation release 1");
    assert!(refused.stderr.contains("Request requires owner credentials"), "{refused:?}");
    let refused = site.jobtap("allocation release 77");
    assert_eq!(refused.stderr.trim(), "jobtap-allocation: ERROR: there is no allocation 77");
}

#[test]
fn an_invitation_that_others_can_read_is_refused() {
    let directory = temporary();
    let file = directory.path().join("invitation");
    std::fs::write(&file, "{}").unwrap();
    let join = || run(clean(jobtap()).args(["allocation", "join"]).arg(&file));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(join().stderr.contains("others could read it (mode 644)"), "{:?}", join());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(join().stderr.contains("this is no invitation"), "{:?}", join());
}
