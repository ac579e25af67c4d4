//! Real launchers: `srun` in a Slurm of four nodes, `flux run` in a Flux, and MPICH's `mpiexec`.

use std::path::Path;
use std::process::Command;

use jobtap_tests::flux::flux;
use jobtap_tests::slurm::{Installation, Slurm};
use jobtap_tests::{clean, jobtap, run, temporary};
use tempfile::TempDir;

/// Writes the script that the first task runs. On a command line, Flux would expand the tag itself.
fn script() -> TempDir {
    let directory = temporary();
    let line = "exec jobtap run -N4 -n4 sh -c 'echo {{node.name}} $FLUX_TASK_RANK'\n";
    std::fs::write(directory.path().join("script"), line).unwrap();
    directory
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
#[allow(clippy::print_stdout)]
fn srun_makes_an_instance_of_its_nodes() {
    let slurm = Installation::system();
    if let Some(what) = slurm.missing() {
        return println!("skipped: no {what}");
    }
    let slurm = Slurm::of_four_nodes(&slurm);
    let exe = jobtap().to_str().unwrap();
    let directory = script();
    let script = directory.path().join("script");
    let words =
        ["-N4", "--ntasks-per-node=1", "--mpi=pmi2", exe, "start", "sh", script.to_str().unwrap()];
    let printed = slurm.client("srun", &words);
    assert_eq!(printed.code, 0, "{printed:?}");
    assert_eq!(sorted(&printed.stdout), ["n1 0", "n2 1", "n3 2", "n4 3"], "{printed:?}");
    let words = ["-N2", "--ntasks-per-node=1", "--mpi=none", exe, "start", "true"];
    let refused = slurm.client("srun", &words);
    assert!(refused.stderr.contains("offers no PMI"), "{refused:?}");
}

/// Runs a launcher's tasks as if each were on a host of its own, which the system has to allow.
fn on_hosts_of_their_own<'c>(launcher: &'c mut Command, script: &Path) -> &'c mut Command {
    let hosts = "hostname \"n$PMI_RANK\"; exec \"$@\"";
    launcher.args(["unshare", "--uts", "sh", "-c", hosts, "sh"]).arg(jobtap()).arg("start");
    launcher.arg("sh").arg(script)
}

#[test]
#[allow(clippy::print_stdout)]
fn other_launchers_do_so_too() {
    if run(Command::new("unshare").args(["--uts", "true"])).code != 0 {
        return println!("skipped: the system lets nobody give names to hosts");
    }
    let directory = script();
    let script = directory.path().join("script");
    let wanted = ["n0 0", "n1 1", "n2 2", "n3 3"];
    if Path::new("/usr/bin/mpiexec.mpich").exists() {
        let mut launcher = clean(Path::new("/usr/bin/mpiexec.mpich"));
        let printed = run(on_hosts_of_their_own(launcher.args(["-n", "4"]), &script));
        assert_eq!(sorted(&printed.stdout), wanted, "{printed:?}");
    } else {
        println!("skipped: no mpiexec.mpich (install mpich)");
    }
    if let Some(flux) = flux() {
        let mut launcher = clean(&flux);
        launcher.args(["start", "-s", "4"]).arg(&flux).args(["run", "-N4", "--tasks-per-node=1"]);
        let printed = run(on_hosts_of_their_own(&mut launcher, &script));
        assert_eq!(sorted(&printed.stdout), wanted, "{printed:?}");
    }
}
