//! The processes of MPI programs find each other by the shepherd's PMI. Real programs, built with Debian's MPICH and
//! Open MPI, run across the tasks of a job without a launcher of their own, and by their own launchers in batch
//! scripts.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use jobtap_tests::{Manager, jobtap, run, temporary};
use tempfile::TempDir;

/// The implementations, as the suffixes that Debian gives to their commands, with their packages.
const ALL: [(&str, &str); 2] =
    [("mpich", "mpich and libmpich-dev"), ("openmpi", "openmpi-bin and libopenmpi-dev")];

/// Makes waiting tasks of Open MPI yield the processor, since there may be more tasks than processors.
const YIELD: &str = "--env=OMPI_MCA_mpi_yield_when_idle=1";

/// The installed implementations, and the programs of this folder built with each.
struct Programs {
    directory: TempDir,
    there: Vec<&'static str>,
}

impl Programs {
    #[allow(clippy::print_stdout)]
    fn build() -> Self {
        let directory = temporary();
        let mut there = Vec::new();
        for (name, packages) in ALL {
            let compiler = format!("mpicc.{name}");
            if let Err(error) = Command::new(&compiler).arg("--version").output() {
                println!("skipped: {compiler}: {error} (install {packages})");
                continue;
            }
            for program in ["hello", "ring"] {
                let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi");
                let mut compile = Command::new(&compiler);
                compile.arg("-o").arg(directory.path().join(format!("{program}.{name}")));
                compile.arg(source.join(program).with_extension("c"));
                assert!(compile.status().unwrap().success(), "{compile:?} fails");
            }
            there.push(name);
        }
        Self { directory, there }
    }

    /// The path of a program for each implementation.
    fn paths(&self, program: &str) -> impl Iterator<Item = String> {
        let path = move |name| self.directory.path().join(format!("{program}.{name}"));
        self.there.iter().map(move |name| path(name).display().to_string())
    }

    /// A script for each implementation that runs the program by its launcher, with these options.
    fn launched(&self, options: &str, program: &str) -> impl Iterator<Item = String> {
        let names = self.there.iter();
        names.zip(self.paths(program)).map(move |(name, path)| {
            // Without these, Open MPI's launcher refuses to be run by root.
            format!(
                "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n\
                 mpirun.{name} {options} {path}"
            )
        })
    }
}

fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// A manager with this many nodes of two cores, all of them this host.
fn cluster(nodes: usize) -> (TempDir, Manager) {
    let state = temporary();
    let options = [format!("--test-size={nodes}"), "--conf=resource.noverify=true".to_owned()];
    let options: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    let manager = Manager::start_in(jobtap(), &state.path().join("state"), &options);
    (state, manager)
}

#[test]
fn an_mpi_program_runs_across_the_tasks_of_a_job() {
    let programs = Programs::build();
    let m = Manager::start(jobtap());
    for hello in programs.paths("hello") {
        let output = m.jobtap_args(&["run", "-n4", YIELD, &hello]).ok();
        let expected = [0, 1, 2, 3].map(|rank| format!("rank {rank} of 4, sum 6"));
        assert_eq!(lines(&output), expected);
        // Two jobs at the same time don't see each other, and share no memory.
        let ids = m.jobtap_args(&["submit", "--cc=1-2", "-n2", &hello]).ok();
        for id in ids.lines() {
            let output = m.jobtap(&format!("job attach {id}")).ok();
            assert_eq!(lines(&output), ["rank 0 of 2, sum 1", "rank 1 of 2, sum 1"]);
        }
        assert_eq!(m.jobtap_args(&["run", "-n1", &hello]).ok(), "rank 0 of 1, sum 0");
    }
}

#[test]
fn a_message_goes_around_tasks_on_several_nodes() {
    let programs = Programs::build();
    let (_state, m) = cluster(4);
    for ring in programs.paths("ring") {
        for map in ["block", "cyclic"] {
            let map = format!("--taskmap={map}");
            let output = m.jobtap_args(&["run", "-N4", "-n8", YIELD, &map, &ring]).ok();
            let mut sum = 0;
            let expected = [0, 1, 2, 3, 4, 5, 6, 7].map(|rank| {
                sum += rank;
                let sum = if rank == 0 { 28 } else { sum };
                format!("ring {rank} of 8, sum {sum}, 2 share a node")
            });
            assert_eq!(lines(&output), expected, "{map}");
        }
    }
}

#[test]
fn an_mpi_program_runs_in_a_nested_manager() {
    let programs = Programs::build();
    let m = Manager::start(jobtap());
    for hello in programs.paths("hello") {
        let script = format!("jobtap run -n3 {hello}; jobtap run -n1 {hello}");
        let output = m.jobtap_args(&["alloc", "-n3", "sh", "-c", &script]).ok();
        let expected = [
            "rank 0 of 1, sum 0",
            "rank 0 of 3, sum 3",
            "rank 1 of 3, sum 3",
            "rank 2 of 3, sum 3",
        ];
        assert_eq!(lines(&output), expected);
    }
}

/// What two processes of the program `hello` print.
const TWO: [&str; 2] = ["rank 0 of 2, sum 1", "rank 1 of 2, sum 1"];

#[test]
fn launchers_of_mpi_start_all_ranks_in_alloc_and_batch() {
    let programs = Programs::build();
    let m = Manager::start(jobtap());
    for script in programs.launched("-n 2", "hello") {
        assert_eq!(lines(&m.jobtap_args(&["alloc", "-n2", "sh", "-c", &script]).ok()), TWO);
        let file = programs.directory.path().join("script");
        let output = programs.directory.path().join("output");
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        let to = format!("--output={}", output.display());
        let id = m.jobtap_args(&["batch", "-n2", &to, file.to_str().unwrap()]).ok();
        m.wait(&id, "clean");
        assert_eq!(lines(&std::fs::read_to_string(&output).unwrap()), TWO);
    }
}

#[test]
fn launchers_of_mpi_learn_the_size_of_an_sbatch_job() {
    let programs = Programs::build();
    let m = Manager::start(jobtap());
    let output = programs.directory.path().join("output");
    let to = format!("--output={}", output.display());
    let hellos = programs.launched("", "hello").zip(programs.paths("hello"));
    for (script, hello) in hellos {
        // The launcher reads the size from Slurm's variables alone. The second command is a process of its own.
        let script = format!("{script} && {hello}");
        let mut command = m.command(["sbatch", "--wait", "-n2", "-t1", &to, "--wrap", &script]);
        let status = run(command.current_dir(programs.directory.path()));
        assert_eq!(status.code, 0, "{status:?}");
        let expected = ["rank 0 of 1, sum 0", TWO[0], TWO[1]];
        assert_eq!(lines(&std::fs::read_to_string(&output).unwrap()), expected);
    }
}

#[test]
fn an_abort_of_one_rank_ends_the_job() {
    let programs = Programs::build();
    let m = Manager::start(jobtap());
    for hello in programs.paths("hello") {
        let output = m.jobtap_args(&["run", "-n4", YIELD, &hello, "abort"]);
        assert_eq!(output.code, 143, "the other ranks are terminated: {output:?}");
        assert!(output.stderr.contains("type=exec severity=0 PMI_Abort: "), "{output:?}");
    }
}

#[test]
fn the_text_of_an_abort_is_the_note_of_the_exception() {
    let m = Manager::start(jobtap());
    let note = |request: &str| {
        let script = format!("[ $PMI_RANK = 0 ] || echo '{request}' >&$PMI_FD; exec sleep 60");
        let output = m.jobtap_args(&["run", "-n2", "bash", "-c", &script]);
        let note = output.stderr.lines().find_map(|line| line.split_once("severity=0 "));
        note.map(|(_, note)| note.to_owned()).unwrap()
    };
    assert_eq!(note("cmd=abort exitcode=7"), "PMI_Abort: aborted");
    assert_eq!(note("cmd=abort exitcode=7 error_msg=out of x=1 y"), "PMI_Abort: out of x=1 y");
}

#[test]
fn without_pmi_each_task_is_alone() {
    let programs = Programs::build();
    let m = Manager::start(jobtap());
    for hello in programs.paths("hello").filter(|hello| hello.ends_with("mpich")) {
        for none in ["pmi=off", "pmi=none"] {
            let output = m.jobtap_args(&["run", "-n2", "-o", none, &hello]).ok();
            assert_eq!(lines(&output), ["rank 0 of 1, sum 0"; 2]);
        }
    }
    let refused = m.jobtap_args(&["run", "-n2", "-o", "pmi=pmix", "true"]);
    let text = "pmi: unknown implementation 'pmix': use off or simple";
    assert!(refused.code == 1 && refused.stderr.contains(text), "{refused:?}");
}

#[test]
fn only_tasks_of_jobs_with_pmi_have_its_socket_and_variables() {
    let m = Manager::start(jobtap());
    let show = "env | grep -c -e ^PMI_ -e ^FLUX_PMI_; ls /proc/self/fd | wc -l";
    let of = |options: &[&str]| {
        let mut command = m.command(["run"]);
        // The variables that a job has if a task of another job submits it.
        command.args(options).args(["sh", "-c", show]);
        command.env("PMI_FD", "77").env("PMI_RANK", "5").env("FLUX_PMI_LIBRARY_PATH", "/outer");
        lines(&run(&mut command).ok()).join(" ")
    };
    assert_eq!(of(&["-n1"]), "4 5");
    assert_eq!(of(&["-n2"]), "4 4 5 5");
    assert_eq!(of(&["-n2", "-o", "pmi=off"]), "0 0 4 4");
}

/// A program in C that loads the library by its path, as MPI libraries do.
#[test]
fn the_library_is_loaded_by_its_path() {
    let directory = temporary();
    let source = directory.path().join("load.c");
    let program = directory.path().join("load").display().to_string();
    std::fs::write(&source, LOAD).unwrap();
    let built = Command::new("cc").args(["-o", &program]).arg(&source).arg("-ldl").status();
    assert!(built.unwrap().success());
    let (_state, m) = cluster(2);
    for file in ["libpmi.so", "libpmi2.so"] {
        let output = m.jobtap_args(&["run", "-N2", "-n4", "--taskmap=cyclic", &program, file]).ok();
        let expected = [
            "0 of 4, 2 near: 0 2, right: of 1 from 2",
            "1 of 4, 2 near: 1 3, right: of 2 from 3",
            "2 of 4, 2 near: 0 2, right: of 3 from 0",
            "3 of 4, 2 near: 1 3, right: of 0 from 1",
        ];
        assert_eq!(lines(&output), expected, "{file}");
    }
    assert_eq!(
        m.jobtap_args(&["run", &program, "libpmi.so"]).ok(),
        "0 of 1, 1 near: 0, right: of 0 from 0"
    );
}

/// Each task puts a value for all, and one for its node. Then it gets the value of its right neighbor, and the one that
/// the other task on its node has put.
const LOAD: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL(name, ...) do { \
    int (*function)() = (int (*)())dlsym(library, #name); \
    int code = function ? function(__VA_ARGS__) : -99; \
    if (code != 0) { printf("%s: %d\n", #name, code); exit(1); } \
} while (0)

int main(int argc, char **argv)
{
    char path[4096], name[300], key[100], value[1100], node[1100];
    int spawned, rank, size, near, ranks[8], found, i;
    strcpy(path, getenv("FLUX_PMI_LIBRARY_PATH"));
    strcpy(strrchr(path, '/') + 1, argv[1]);
    void *library = dlopen(path, RTLD_NOW);
    if (!library) { puts(dlerror()); return 1; }
    CALL(PMI_Init, &spawned);
    CALL(PMI_Get_rank, &rank);
    CALL(PMI_Get_size, &size);
    CALL(PMI_KVS_Get_my_name, name, sizeof(name));
    CALL(PMI_Get_clique_size, &near);
    CALL(PMI_Get_clique_ranks, ranks, near);
    sprintf(key, "key-%d", rank);
    sprintf(value, "of %d", rank);
    CALL(PMI_KVS_Put, name, key, value);
    CALL(PMI_KVS_Commit, name);
    sprintf(key, "near-%d", rank);
    sprintf(value, "%d", rank);
    CALL(PMI2_Info_PutNodeAttr, key, value);
    CALL(PMI_Barrier);
    sprintf(key, "key-%d", (rank + 1) % size);
    CALL(PMI_KVS_Get, name, key, value, sizeof(value));
    sprintf(key, "near-%d", ranks[0] == rank ? ranks[near - 1] : ranks[0]);
    CALL(PMI2_Info_GetNodeAttr, key, node, sizeof(node), &found, 1);
    printf("%d of %d, %d near:", rank, size, near);
    for (i = 0; i < near; i++)
        printf(" %d", ranks[i]);
    printf(", right: %s from %s\n", value, node);
    CALL(PMI_Finalize);
    return 0;
}
"#;
