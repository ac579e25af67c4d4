//! Real launchers: `srun` in a Slurm of four nodes, `flux run` in a Flux, and MPICH's `mpiexec`.

use std::path::Path;
use std::process::Command;

use jobtap_tests::flux::flux;
use jobtap_tests::slurm::{Installation, Slurm};
use jobtap_tests::{clean, jobtap, run, temporary};
use tempfile::TempDir;

use crate::sorted;

/// Writes the script that the first task runs. On a command line, Flux would expand the tag itself.
fn script() -> TempDir {
    let directory = temporary();
    let line = "exec jobtap run -N4 -n4 sh -c 'echo {{node.name}} $FLUX_TASK_RANK'\n";
    std::fs::write(directory.path().join("script"), line).unwrap();
    directory
}

#[test]
#[allow(clippy::print_stdout)]
fn srun_makes_an_instance_of_its_nodes() {
    let exe = jobtap().to_str().unwrap();
    let directory = script();
    let script = directory.path().join("script");
    let script = script.to_str().unwrap();
    let newer = ["24.11", "26.05"].map(Installation::made);
    for slurm in [Installation::system()].iter().chain(&newer) {
        if let Some(what) = slurm.missing() {
            println!("skipped: no {what}");
            continue;
        }
        let slurm = Slurm::of_four_nodes(slurm);
        let words = ["-N4", "--ntasks-per-node=1", "--mpi=pmi2", exe, "start", "sh", script];
        let printed = slurm.client("srun", &words);
        assert_eq!(printed.code, 0, "{printed:?}");
        assert_eq!(sorted(&printed.stdout), ["n1 0", "n2 1", "n3 2", "n4 3"], "{printed:?}");
        let words = ["-N2", "--ntasks-per-node=1", "--mpi=none", exe, "start", "true"];
        let refused = slurm.client("srun", &words);
        assert!(refused.stderr.contains("offers no PMI"), "{refused:?}");
    }
}

#[test]
#[allow(clippy::print_stdout)]
fn a_batch_script_of_slurm_starts_an_instance_of_its_nodes() {
    let slurm = Installation::system();
    if let Some(what) = slurm.missing() {
        return println!("skipped: no {what}");
    }
    let slurm = Slurm::of_four_nodes(&slurm);
    let directory = script();
    let (batch, output) = (directory.path().join("batch"), directory.path().join("output"));
    // The script asks for more tasks than nodes: that is what its programs want, and not how many instances there are.
    let text = format!(
        "#!/bin/sh\n#SBATCH -N4 -n8 -c1\n\
         {} start --nodes=auto sh {}\necho \"ended: $?\"\n",
        jobtap().display(),
        directory.path().join("script").display()
    );
    std::fs::write(&batch, text).unwrap();
    let (output_option, batch) = (format!("-o{}", output.display()), batch.display().to_string());
    let submitted = slurm.client("sbatch", &["--wait", &output_option, &batch]);
    let printed = std::fs::read_to_string(&output).unwrap_or_default();
    assert_eq!(submitted.code, 0, "{submitted:?}: {printed}");
    assert_eq!(sorted(&printed), ["ended: 0", "n1 0", "n2 1", "n3 2", "n4 3"], "{printed}");
}

/// A `flux` that gives each task of a job a host name of its own, and is the real one else.
const FLUX_WITH_HOSTS: &str = r#"#!/bin/sh
[ "$1" = run ] || exec "$FLUX" "$@"
shift
options=run
while [ "${1#-}" != "$1" ]; do
    options="$options $1"
    shift
done
exec "$FLUX" $options unshare --uts sh -c 'hostname "n$PMI_RANK"; exec "$@"' sh "$@"
"#;

/// Writes the program `flux` that gives each task a host name of its own.
pub(crate) fn flux_with_hosts(directory: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let wrapper = directory.join("flux");
    std::fs::write(&wrapper, FLUX_WITH_HOSTS).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
#[allow(clippy::print_stdout)]
fn a_script_of_flux_starts_an_instance_of_its_nodes() {
    let Some(flux) = flux() else { return };
    if run(Command::new("unshare").args(["--uts", "true"])).code != 0 {
        return println!(
            "skipped: this system doesn't allow a process to have a host name of its own"
        );
    }
    let directory = script();
    flux_with_hosts(directory.path());
    let mut instance = clean(&flux);
    let path = std::env::var("PATH").unwrap_or_default();
    // Flux puts its own directory first.
    let line = "PATH=$0:$PATH; export PATH; exec \"$1\" start --nodes=auto sh \"$0/script\"";
    instance.args(["start", "-s", "4", "sh", "-c", line]).arg(directory.path()).arg(jobtap());
    let printed = run(instance.env("FLUX", &flux).env("PATH", path));
    assert_eq!(sorted(&printed.stdout), ["n0 0", "n1 1", "n2 2", "n3 3"], "{printed:?}");
}

#[test]
fn nodes_are_refused_where_there_is_no_allocation() {
    let mut start = clean(jobtap());
    for name in ["SLURM_JOB_ID", "FLUX_URI", "FLUX_JOB_ID", "SLURM_STEP_ID"] {
        start.env_remove(name);
    }
    let refused = run(start.args(["start", "--nodes=auto", "true"]));
    let begins = "jobtap-start: --nodes=auto: this is no script in an allocation";
    assert!(refused.code == 1 && refused.stderr.starts_with(begins), "{refused:?}");
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
        return println!(
            "skipped: this system doesn't allow a process to have a host name of its own"
        );
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
        // The instance ends with the job.
        let resources = directory.path().join("resources");
        std::fs::write(&resources, "exec jobtap resource R\n").unwrap();
        let mut launcher = clean(&flux);
        launcher.args(["start", "-s", "2"]).arg(&flux);
        launcher.args(["run", "-N2", "--tasks-per-node=1", "-t30m"]);
        let printed = run(on_hosts_of_their_own(&mut launcher, &resources)).ok();
        let r: serde_json::Value = serde_json::from_str(&printed).unwrap();
        let left = r["execution"]["expiration"].as_f64().unwrap() - now();
        assert!((1000.0..=1800.0).contains(&left), "{left} s are left: {printed}");
    }
}

fn now() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map(|since| since.as_secs_f64()).unwrap_or_default()
}
