//! Jobs on several nodes, and what of them comes from each.

use std::fs;
use std::path::Path;
use std::process::Command;

use jobtap_tests::nodes::Nodes;
use jobtap_tests::{run, temporary};

use crate::sorted;

#[test]
fn a_job_across_nodes_is_one_job() {
    let nodes = Nodes::start(3);
    assert_eq!(nodes.jobtap("resource list -no {nodelist} -s free").ok(), "n[1-3]");
    // Output comes from all nodes, with the ranks of the job.
    let line = "echo $FLUX_TASK_RANK of $FLUX_JOB_SIZE on {{node.name}}";
    let printed = nodes.args(&["run", "-N3", "-n6", "sh", "-c", line]).ok();
    let wanted = [
        "0 of 6 on n1",
        "1 of 6 on n1",
        "2 of 6 on n2",
        "3 of 6 on n2",
        "4 of 6 on n3",
        "5 of 6 on n3",
    ];
    assert_eq!(sorted(&printed), wanted);
    let labelled = nodes.args(&["run", "-N2", "-n2", "-l", "sh", "-c", "seq 1 2"]).ok();
    assert_eq!(sorted(&labelled), ["0: 1", "0: 2", "1: 1", "1: 2"]);
    // The highest status counts.
    let failed = nodes.args(&["run", "-N3", "-n3", "sh", "-c", "exit $FLUX_TASK_RANK"]);
    assert_eq!(failed.code, 2, "{failed:?}");
    // Much output, which no node holds in memory.
    let much = nodes.args(&["run", "-N2", "-n2", "sh", "-c", "yes | head -c 2000000"]);
    assert_eq!(much.stdout.len(), 4_000_000);
    // One event for each milestone, as if the job ran on one node.
    let id = nodes.jobtap("submit -N3 -n3 --wait-event=clean true").ok();
    let log = nodes.jobtap(&format!("job eventlog {id}")).ok();
    for once in ["start", "finish", "release", "free", "clean"] {
        let count = log.lines().filter(|line| line.split_whitespace().nth(1) == Some(once)).count();
        assert_eq!(count, 1, "{once}: {log}");
    }
    assert_eq!(nodes.end(), [Some(0), Some(0), Some(0)]);
}

#[test]
fn tasks_of_all_nodes_share_files_and_input() {
    let nodes = Nodes::start(2);
    let file = nodes.directory().join("out");
    fs::write(&file, "old\n").unwrap();
    for _ in 0..5 {
        nodes.args(&["run", "-N2", "-n4", "--output=out", "sh", "-c", "echo $FLUX_TASK_RANK"]).ok();
        assert_eq!(sorted(&fs::read_to_string(&file).unwrap()), ["0", "1", "2", "3"]);
    }
    nodes.args(&["run", "-N2", "-n2", "--output=out.{{node.name}}", "echo", "own"]).ok();
    for name in ["n1", "n2"] {
        assert_eq!(
            fs::read_to_string(nodes.directory().join(format!("out.{name}"))).unwrap(),
            "own\n"
        );
    }
    let echo = nodes.command(&["run", "-N2", "-n2", "cat"]);
    let with_input = ["sh", "-c", "echo hello | exec \"$@\"", "sh"];
    let mut command = Command::new(with_input[0]);
    command.args(&with_input[1..]).arg(echo.get_program()).args(echo.get_args());
    command.envs(echo.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(run(&mut command).ok(), "hello\nhello");
    let last = nodes.jobtap("jobs -a --count=1 -no {id}").ok();
    let input = nodes.jobtap(&format!("job eventlog -f json -p guest.input {last}")).ok();
    // "hello" and a newline.
    assert!(input.contains("\"aGVsbG8K\""), "{input}");
}

#[test]
fn limits_and_affinity_hold_on_each_node() {
    let nodes = Nodes::start(2);
    let words = ["run", "-N2", "-n2", "-c1", "-o", "cpu-affinity=per-task", "--rlimit=nofile=77"];
    let task = ["sh", "-c", "echo $(ulimit -n) $(nproc)"];
    let printed = nodes.args(&[&words[..], &task[..]].concat()).ok();
    assert_eq!(printed, "77 1\n77 1");
}

#[test]
fn signals_and_cancellation_reach_all_nodes() {
    let nodes = Nodes::start(2);
    let script = "trap 'exit 7' USR1; echo ready; while :; do sleep 0.1; done";
    let id = nodes.args(&["submit", "-N2", "-n2", "--output=ready", "sh", "-c", script]).ok();
    let ready = nodes.directory().join("ready");
    let count = || fs::read_to_string(&ready).unwrap_or_default().lines().count();
    jobtap_tests::until("both tasks are ready", || count() == 2);
    let ps = nodes.args(&["pgrep", "-o", "{id}", "sh"]);
    assert!(ps.code <= 1, "{ps:?}");
    nodes.jobtap(&format!("job kill -s USR1 {id}")).ok();
    assert_eq!(nodes.jobtap(&format!("job status {id}")).code, 7);
    let id = nodes.jobtap("submit -N2 -n2 --wait-event=start sleep 1000").ok();
    nodes.jobtap(&format!("cancel {id}")).ok();
    nodes.jobtap(&format!("job wait-event -q -t 60s {id} clean")).ok();
    let sleeps = run(Command::new("pgrep").args(["-fx", "sleep 1000"]));
    assert_eq!(sleeps.stdout, "", "nothing is left of it");
}

#[test]
fn the_first_exit_limits_the_time_of_tasks_on_other_nodes() {
    let nodes = Nodes::start(2);
    let script = "[ $FLUX_TASK_RANK = 1 ] && exit 3; sleep 600";
    let words = ["run", "-N2", "-n2", "-o", "exit-timeout=0.2s", "sh", "-c", script];
    let ended = nodes.args(&words);
    assert_eq!(ended.code, 3, "{ended:?}");
    let text = "sh: task rank 1 on host n2 exited (Exit 3) and exit-timeout=0.2s has expired";
    assert!(ended.stderr.contains(text), "{ended:?}");
}

#[test]
#[allow(clippy::print_stdout)]
fn an_mpi_program_runs_across_nodes() {
    let nodes = Nodes::start(4);
    let directory = temporary();
    let program = directory.path().join("ring");
    for (name, packages) in
        [("mpich", "mpich and libmpich-dev"), ("openmpi", "openmpi-bin and libopenmpi-dev")]
    {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi/ring.c");
        let mut compile = Command::new(format!("mpicc.{name}"));
        match compile.arg("-o").arg(&program).arg(source).status() {
            Ok(status) => assert!(status.success()),
            Err(error) => {
                println!("skipped: mpicc.{name}: {error} (install {packages})");
                continue;
            }
        }
        let program = program.to_str().unwrap();
        let run = ["run", "-N4", "-n8", "--env=OMPI_MCA_mpi_yield_when_idle=1", program];
        let printed = nodes.args(&run);
        assert_eq!(printed.code, 0, "{name}: {printed:?}");
        assert!(printed.stdout.contains('8'), "{name}: {printed:?}");
    }
}

#[test]
fn tasks_of_all_nodes_reach_the_manager() {
    let nodes = Nodes::start(2);
    let exe = jobtap_tests::jobtap().to_str().unwrap();
    let line = format!(
        "id=$({exe} submit --requires=rank:0 echo from $FLUX_TASK_RANK) && {exe} job attach $id"
    );
    let printed = nodes.args(&["run", "-N2", "-n2", "sh", "-c", &line]);
    assert_eq!(sorted(&printed.stdout), ["from 0", "from 1"], "{printed:?}");
    assert_eq!(nodes.jobtap("jobs -a --count=99 -no {id}").ok().lines().count(), 3);
}

#[test]
fn the_prolog_and_the_epilog_of_a_job_run_on_each_of_its_nodes() {
    let directory = temporary();
    let ran = directory.path().join("ran");
    // The node's own process knows its name by the launcher.
    let command = |what: &str| {
        let line = format!(
            "echo {what} $JOBTAP_RANK $SLURMD_NODENAME >>{}; exit $((JOBTAP_RANK == 9))",
            ran.display()
        );
        format!("job-manager.{what}.command=[\"sh\", \"-c\", \"{line}\"]")
    };
    let (prolog, epilog) = (command("prolog"), command("epilog"));
    let options = [
        "--conf=job-manager.plugins=[{load=\"perilog\"}]",
        "--conf",
        &prolog,
        "--conf=job-manager.prolog.per-rank=true",
        "--conf",
        &epilog,
        "--conf=job-manager.epilog.per-rank=true",
    ];
    let nodes = Nodes::start_with(3, "5s", &options);
    assert_eq!(nodes.jobtap("run -N3 -n3 true").code, 0);
    let id = nodes.jobtap("submit --requires=rank:1 true").ok();
    nodes.jobtap(&format!("job wait-event {id} clean")).ok();
    let ran = fs::read_to_string(&ran).unwrap();
    let mut ran: Vec<&str> = ran.lines().collect();
    ran.sort_unstable();
    let expected = [
        "epilog 0 n1",
        "epilog 1 n2",
        "epilog 1 n2",
        "epilog 2 n3",
        "prolog 0 n1",
        "prolog 1 n2",
        "prolog 1 n2",
        "prolog 2 n3",
    ];
    assert_eq!(ran, expected);
}

#[test]
fn a_prolog_that_fails_on_a_node_drains_that_node() {
    let options = [
        "--conf=job-manager.plugins=[{load=\"perilog\"}]",
        "--conf=job-manager.prolog.command=[\"sh\", \"-c\", \"echo cannot mount >&2; [ $SLURMD_NODENAME != n2 ]\"]",
        "--conf=job-manager.prolog.per-rank=true",
    ];
    let nodes = Nodes::start_with(3, "5s", &options);
    let failed = nodes.jobtap("run -N3 -n3 true");
    assert_ne!(failed.code, 0);
    assert_eq!(nodes.jobtap("resource drain -no {nodelist}").ok(), "n2");
    let log = nodes.jobtap("dmesg").ok();
    assert!(log.contains("n2") && log.contains("cannot mount"), "{log}");
}
