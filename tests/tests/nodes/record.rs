//! The script of the guide's chapter "In an allocation", as it stands there, in a real Slurm of four nodes and a real Flux
//! of four brokers: a thousand jobs, an MPI program, and the loss of a node.
//!
//! With `--nocapture`, what it prints is the chapter's record.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use jobtap_tests::flux::flux;
use jobtap_tests::slurm::{Installation, Slurm};
use jobtap_tests::{clean, jobtap, run, temporary};
use tempfile::TempDir;

use crate::launchers::flux_with_hosts;

/// The script, in a directory with the programs that it runs; `None` without MPICH.
fn script(engine: &str) -> Option<TempDir> {
    let compiler = Path::new("/usr/bin/mpicc.mpich");
    if !compiler.exists() {
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let chapter = fs::read_to_string(root.join("../docs/src/allocation.md")).unwrap();
    let (_, script) = chapter.rsplit_once("```sh\n#!/bin/sh\n#SBATCH").unwrap();
    let (script, _) = script.split_once("```").unwrap();
    let script = script.replace("--nodes=slurm", &format!("--nodes={engine}"));
    let directory = temporary();
    let at = |name: &str| directory.path().join(name);
    // The jobs run where the batch script does.
    fs::write(at("job.sh"), format!("#!/bin/sh\n#SBATCH{script}")).unwrap();
    symlink(jobtap(), at("jobtap")).unwrap();
    let ring = root.join("tests/mpi/ring.c");
    let compiled = run(Command::new(compiler).arg(ring).arg("-o").arg(at("ring")));
    assert_eq!(compiled.code, 0, "{compiled:?}");
    Some(directory)
}

/// Checks that it prints what the chapter says. Lines for which `is_node` holds are by jobs of the nodes that are left.
#[track_caller]
fn check(printed: &str, is_node: impl Fn(&str) -> bool) {
    let has = |text: &str| assert!(printed.contains(text), "{text:?} is missing in:\n{printed}");
    has("free      4      8     0 n[");
    has("1000 COMPLETED");
    has("ring 6 of 8, sum 21, 2 share a node");
    has("\"name\":\"exception\",\"context\":{\"type\":\"node-failure\"");
    has("drained* no connection for 3 s");
    let left = printed.lines().filter(|line| is_node(line)).count();
    assert_eq!(left, 3, "the jobs of the other nodes: {printed}");
}

#[test]
#[allow(clippy::print_stdout)]
fn the_guides_script_does_in_slurm_what_the_guide_shows() {
    let slurm = Installation::system();
    if let Some(what) = slurm.missing() {
        return println!("skipped: no {what}");
    }
    let Some(directory) = script("slurm") else { return println!("skipped: no mpicc.mpich") };
    let slurm = Slurm::of_four_nodes(&slurm);
    let (path, output) = (directory.path().display(), directory.path().join("out.txt"));
    let (output_option, chdir) = (format!("-o{}", output.display()), format!("-D{path}"));
    let export = format!("--export=PATH={path}:/usr/bin:/bin");
    let job = format!("{path}/job.sh");
    let begin = Instant::now();
    slurm.client("sbatch", &["--wait", &export, &chdir, &output_option, &job]);
    println!("{:.1} s", begin.elapsed().as_secs_f64());
    let printed = fs::read_to_string(&output).unwrap_or_default();
    println!("{printed}");
    check(&printed, |line| line.len() == 2 && line.starts_with('n'));
}

#[test]
#[allow(clippy::print_stdout)]
fn the_guides_script_does_in_flux_what_the_guide_shows() {
    let Some(flux) = flux() else { return };
    let Some(directory) = script("flux") else { return println!("skipped: no mpicc.mpich") };
    if run(Command::new("unshare").args(["--uts", "true"])).code != 0 {
        return println!(
            "skipped: this system doesn't allow a process to have a host name of its own"
        );
    }
    flux_with_hosts(directory.path());
    let mut instance = clean(&flux);
    let path = std::env::var("PATH").unwrap_or_default();
    // Flux puts its own directory first.
    let line = "cd \"$0\" && PATH=$0:$PATH && export PATH && exec sh job.sh";
    instance.args(["start", "-s", "4", "sh", "-c", line]).arg(directory.path());
    let begin = Instant::now();
    let printed = run(instance.env("FLUX", &flux).env("PATH", path));
    println!("{:.1} s\n{}\n{}", begin.elapsed().as_secs_f64(), printed.stdout, printed.stderr);
    // Flux has replaced the tag in the script, which is an argument of its job.
    let host = run(&mut Command::new("hostname")).ok();
    check(&printed.stdout, |line| line == host.trim());
}
