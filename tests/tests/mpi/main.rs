//! MPI programs find each other by the shepherd's PMI: a real one, built with Debian's MPICH, runs across the tasks
//! of a job without a launcher of its own.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::Path;
use std::process::Command;

use jobtap_tests::{Manager, jobtap, run, temporary};

/// The compiler of Debian's packages `mpich` and `libmpich-dev`.
const COMPILER: &str = "mpicc.mpich";

/// Builds the program in a directory; returns its path, or `None` where the compiler is missing.
#[allow(clippy::print_stdout)]
fn program(directory: &Path) -> Option<String> {
    let file = directory.join("hello");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi/hello.c");
    let mut compile = Command::new(COMPILER);
    match compile.arg("-o").arg(&file).arg(source).status() {
        Ok(status) => assert!(status.success(), "{COMPILER} fails"),
        Err(error) => {
            println!("skipped: {COMPILER}: {error} (install libmpich-dev and mpich)");
            return None;
        }
    }
    Some(file.display().to_string())
}

fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn an_mpi_program_runs_across_the_tasks_of_a_job() {
    let directory = temporary();
    let Some(hello) = program(directory.path()) else { return };
    let m = Manager::start(jobtap());
    let output = m.jobtap_args(&["run", "-n4", &hello]).ok();
    let expected = [0, 1, 2, 3].map(|rank| format!("rank {rank} of 4, sum 6"));
    assert_eq!(lines(&output), expected);
    // Two at the same time don't see each other, and a single task needs no PMI.
    let ids = m.jobtap_args(&["submit", "--cc=1-2", "-n2", &hello]).ok();
    for id in ids.lines() {
        let output = m.jobtap(&format!("job attach {id}")).ok();
        assert_eq!(lines(&output), ["rank 0 of 2, sum 1", "rank 1 of 2, sum 1"]);
    }
    assert_eq!(m.jobtap_args(&["run", "-n1", &hello]).ok(), "rank 0 of 1, sum 0");
}

#[test]
fn an_mpi_program_runs_in_a_nested_manager() {
    let directory = temporary();
    let Some(hello) = program(directory.path()) else { return };
    let m = Manager::start(jobtap());
    let script = format!("jobtap run -n3 {hello}; jobtap run -n1 {hello}");
    let output = m.jobtap_args(&["alloc", "-n3", "sh", "-c", &script]).ok();
    let expected =
        ["rank 0 of 1, sum 0", "rank 0 of 3, sum 3", "rank 1 of 3, sum 3", "rank 2 of 3, sum 3"];
    assert_eq!(lines(&output), expected);
}

#[test]
fn an_abort_of_one_rank_ends_the_job() {
    let directory = temporary();
    let Some(hello) = program(directory.path()) else { return };
    let m = Manager::start(jobtap());
    let output = m.jobtap_args(&["run", "-n4", &hello, "abort"]);
    assert_eq!(output.code, 143, "the other ranks are terminated: {output:?}");
    assert!(output.stderr.contains("task 1 called MPI_Abort with exit code 42"), "{output:?}");
}

#[test]
fn without_pmi_each_task_is_alone() {
    let directory = temporary();
    let Some(hello) = program(directory.path()) else { return };
    let m = Manager::start(jobtap());
    let output = m.jobtap_args(&["run", "-n2", "-o", "pmi=off", &hello]).ok();
    assert_eq!(lines(&output), ["rank 0 of 1, sum 0"; 2]);
    let refused = m.jobtap_args(&["run", "-n2", "-o", "pmi=pmix", &hello]);
    let text = "pmi: unknown implementation 'pmix': use off or simple";
    assert!(refused.code == 1 && refused.stderr.contains(text), "{refused:?}");
}

#[test]
fn only_tasks_of_jobs_with_pmi_have_its_socket_and_variables() {
    let m = Manager::start(jobtap());
    let show = "env | grep -c ^PMI_; ls /proc/self/fd | wc -l";
    let of = |options: &[&str]| {
        let mut command = m.command(["run"]);
        // As a job submitted by a task of another one.
        command.args(options).args(["sh", "-c", show]).env("PMI_FD", "77").env("PMI_RANK", "5");
        lines(&run(&mut command).ok()).join(" ")
    };
    assert_eq!(of(&["-n1"]), "0 4");
    assert_eq!(of(&["-n2"]), "3 3 5 5");
    assert_eq!(of(&["-n2", "-o", "pmi=off"]), "0 0 4 4");
}
