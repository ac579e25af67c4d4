//! Builds the files that Slurm loads, from the plugins of `tests/plugins/slurm-probe`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use jobtap_tests::slurm::Installation;
use jobtap_tests::{run, temporary, workspace};
use tempfile::TempDir;

/// The directory of the build, which outlives the tests.
fn target() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    // The tests' own binary is in `TARGET/PROFILE/deps`.
    exe.ancestors().nth(3).unwrap().to_owned()
}

/// The directory with what is compiled for a Slurm. Each has its own, since cargo would compile the adapter again
/// whenever the headers are others than the time before. A new one starts as a copy of another: most is the same.
fn target_for(of: &Installation) -> PathBuf {
    let directory = |version: &str| target().join(format!("slurm-host-{version}"));
    let own = directory(&of.version());
    let others = || {
        let entries = fs::read_dir(target()).unwrap().flatten().map(|entry| entry.path());
        let begin = directory("");
        let begin = begin.file_name().unwrap().to_str().unwrap().to_owned();
        let is_one = move |path: &PathBuf| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|n| n.starts_with(&begin))
        };
        entries.filter(is_one)
    };
    if !own.exists()
        && let Some(other) = others().next()
    {
        run(Command::new("cp").arg("-a").arg(other).arg(&own)).ok();
    }
    own
}

/// A file that Slurm loads.
pub(crate) struct Built {
    // Removed at the end of the test.
    _directory: TempDir,
    path: PathBuf,
}

impl Built {
    /// Copies the file to where `PluginDir` finds it; `etc` is the directory of slurm.conf.
    pub(crate) fn put(&self, etc: &Path) {
        self.put_into(&etc.join("../plugins"));
    }

    /// Copies the file into this directory.
    pub(crate) fn put_into(&self, directory: &Path) {
        fs::copy(&self.path, directory.join(self.path.file_name().unwrap())).unwrap();
    }
}

/// Builds a file of this kind with these plugins. Must be called before anything is started: it takes long the first
/// time, and the time of a test's processes is limited.
fn build(of: &Installation, macro_name: &str, file: &str, plugins: &[&str]) -> Built {
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
    let target = target_for(of);
    let source = of.source().unwrap_or(Path::new("none"));
    let built = run(Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet"])
        .env("CARGO_TARGET_DIR", &target)
        .env("SLURM_INCLUDE_DIR", of.include())
        .env("SLURM_SOURCE_DIR", source)
        .current_dir(wrapper.path()));
    built.ok();
    let path = wrapper.path().join(format!("{file}.so"));
    // Copied, since the next build overwrites it.
    fs::copy(target.join("debug").join(format!("lib{file}.so")), &path).unwrap();
    Built { _directory: wrapper, path }
}

/// Builds `job_submit_site.so`.
pub(crate) fn job_submit(of: &Installation, plugins: &[&str]) -> Built {
    build(of, "export_job_submit", "job_submit_site", plugins)
}

/// Builds `prep_site.so`.
pub(crate) fn prep(of: &Installation, plugins: &[&str]) -> Built {
    build(of, "export_prep", "prep_site", plugins)
}
