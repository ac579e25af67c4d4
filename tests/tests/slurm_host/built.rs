//! Builds the files that Slurm loads, from the plugins of `tests/plugins/slurm-probe`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use jobtap_tests::slurm::Slurm;
use jobtap_tests::{run, temporary, workspace};

/// Where Debian's libslurm-dev and the source of Slurm are.
const HEADER: &str = "/usr/include/slurm/slurm.h";

/// Says in one line why a test is skipped, if a part of Slurm is missing.
pub(crate) fn is_skipped(test: &str) -> bool {
    let missing = if !Slurm::has_nodes() {
        "slurmctld, slurmd or sbatch"
    } else if !Path::new(HEADER).exists() {
        "slurm/slurm.h (libslurm-dev)"
    } else if source().is_none() {
        "src/slurmctld/slurmctld.h (SLURM_SOURCE_DIR)"
    } else {
        return false;
    };
    eprintln!("{test}: skipped, there is no {missing}");
    true
}

/// The source of Slurm: `SLURM_SOURCE_DIR`, or what `.ci/slurm-source` has put beside the build.
fn source() -> Option<PathBuf> {
    let named = std::env::var_os("SLURM_SOURCE_DIR").map(PathBuf::from);
    let fetched = fs::read_dir(target().join("slurm-source")).into_iter().flatten().flatten();
    let all = named.into_iter().chain(fetched.map(|entry| entry.path()));
    all.into_iter().find(|root| root.join("src/slurmctld/slurmctld.h").exists())
}

/// The directory for what is built, which outlives the tests.
fn target() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    // The tests' own binary is in `TARGET/PROFILE/deps`.
    exe.ancestors().nth(3).unwrap().to_owned()
}

/// Builds a file of this kind with these plugins, and puts it where slurm.conf's `PluginDir` finds it.
pub(crate) fn build(macro_name: &str, file: &str, plugins: &[&str], etc: &Path) {
    // One build at a time: they share a directory.
    static BUILDS: Mutex<()> = Mutex::new(());
    let _one = BUILDS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let wrapper = temporary();
    let root = workspace();
    let name = file.strip_prefix("job_submit_").or(file.strip_prefix("prep_")).unwrap();
    let manifest = format!(
        "[package]\nname = \"{file}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
         [lib]\ncrate-type = [\"cdylib\"]\n\
         [dependencies]\n\
         slurm-probe = {{ path = {:?} }}\n\
         jobtap-slurm = {{ path = {:?}, features = [\"binding\"] }}\n\
         [workspace]\n\
         [profile.dev]\ndebug = \"line-tables-only\"\n",
        root.join("tests/plugins/slurm-probe"),
        root.join("jobtap-slurm"),
    );
    let code =
        format!("use slurm_probe as _;\njobtap_slurm::{macro_name}!({name:?}, {plugins:?});\n");
    fs::write(wrapper.path().join("Cargo.toml"), manifest).unwrap();
    // The same versions as in the workspace, so that nothing has to be fetched.
    fs::copy(root.join("Cargo.lock"), wrapper.path().join("Cargo.lock")).unwrap();
    fs::create_dir(wrapper.path().join("src")).unwrap();
    fs::write(wrapper.path().join("src/lib.rs"), code).unwrap();
    let target = target().join("slurm-host");
    let built = run(Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet"])
        .env("CARGO_TARGET_DIR", &target)
        .env("SLURM_SOURCE_DIR", source().unwrap())
        .current_dir(wrapper.path()));
    built.ok();
    let from = target.join("debug").join(format!("lib{file}.so"));
    fs::copy(from, etc.join("../plugins").join(format!("{file}.so"))).unwrap();
}

/// Builds `job_submit_site.so`.
pub(crate) fn job_submit(plugins: &[&str], etc: &Path) {
    build("export_job_submit", "job_submit_site", plugins, etc);
}

/// Builds `prep_site.so`.
pub(crate) fn prep(plugins: &[&str], etc: &Path) {
    build("export_prep", "prep_site", plugins, etc);
}
