//! A site that builds managers: a directory with plugin crates of its own.
//!
//! All builds share one cache, as a user's do. They begin one after the other, since the cache is
//! locked; none uses the network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::{Output, clean, jobtap, run, temporary, workspace};

/// A crate that has a scheduler and no plugin.
const SCHEDULER: &str = r#"
jobtap_core::scheduler! {
    /// Names the scheduler in messages.
    pub static SHORTEST = "shortest", |_| Err(jobtap_core::sched::TableError::new("not today"));
}
"#;

/// The directory of a site.
pub struct Site {
    directory: TempDir,
}

impl Default for Site {
    fn default() -> Self {
        Self::new()
    }
}

impl Site {
    /// Makes an empty site.
    pub fn new() -> Self {
        Self { directory: temporary() }
    }

    /// Makes a site with the plugin `deadline` in a directory of its own, and the plugin `probe` and the
    /// scheduler `shortest` in `crates`, a directory of crates.
    #[track_caller]
    pub fn with_plugins() -> Self {
        let site = Self::new();
        site.plugin("deadline");
        site.write("crates/probe-0.1.0/Cargo.toml", &cargo_toml("probe"));
        site.copy("tests/plugins/probe/src/lib.rs", "crates/probe-0.1.0/src/lib.rs");
        // Without the crate's other plugin: these tests are about crates of one plugin.
        let probe = site.read("crates/probe-0.1.0/src/lib.rs");
        let lines = probe.lines().filter(|line| !line.contains("slurm"));
        site.write("crates/probe-0.1.0/src/lib.rs", &lines.collect::<Vec<_>>().join("\n"));
        site.write("crates/shortest-0.1.0/Cargo.toml", &cargo_toml("shortest"));
        site.write("crates/shortest-0.1.0/src/lib.rs", SCHEDULER);
        for name in ["probe", "shortest"] {
            let file = format!("crates/{name}-0.1.0/.cargo-checksum.json");
            site.write(&file, r#"{"files":{},"package":null}"#);
        }
        site
    }

    /// Copies a plugin from the examples into a directory of its own.
    #[track_caller]
    pub fn plugin(&self, name: &str) {
        self.write(&format!("{name}/Cargo.toml"), &cargo_toml(name));
        self.copy(&format!("examples/{name}/src/lib.rs"), &format!("{name}/src/lib.rs"));
    }

    /// Returns the path of a file of the site.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file.
    #[track_caller]
    pub fn write(&self, name: &str, text: &str) {
        let file = self.path(name);
        if let Some(parent) = file.parent() {
            done(parent, fs::create_dir_all(parent));
        }
        done(&file, fs::write(&file, text));
    }

    /// Reads a file.
    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        let file = self.path(name);
        done(&file, fs::read_to_string(&file))
    }

    /// Copies a file of the checkout, or a directory with all of its content.
    #[track_caller]
    pub fn copy(&self, from: &str, to: &str) {
        copy(&workspace().join(from), &self.path(to));
    }

    /// Returns a command of the plain manager that runs in the site's directory.
    pub fn command(&self) -> Command {
        let mut command = clean(jobtap());
        command.current_dir(self.directory.path());
        command
    }

    /// Runs `jobtap build` with the shared cache and without the network; words are split at blanks.
    #[track_caller]
    pub fn build(&self, words: &str) -> Output {
        self.build_with(words, &[])
    }

    /// As [`build`](Self::build), with these variables of the environment.
    #[track_caller]
    pub fn build_with(&self, words: &str, variables: &[(&str, &Path)]) -> Output {
        let mut command = self.command();
        command.envs(variables.iter().copied());
        command.env("JOBTAP_BUILD_CACHE", cache()).env("CARGO_NET_OFFLINE", "true");
        run(command.arg("build").args(words.split_whitespace()))
    }
}

/// Returns the directory in which all builds of the tests keep compiled crates.
pub fn cache() -> PathBuf {
    // The tests' own binary is in `TARGET/PROFILE/deps`.
    let exe = std::env::current_exe().unwrap_or_default();
    exe.ancestors().nth(3).unwrap_or(Path::new("")).join("tmp/managers")
}

/// Returns a plugin's manifest as an author without a checkout of jobtap writes it.
fn cargo_toml(name: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\nlicense = \"MIT\"\n\
         authors = [\"A Site <site@site.example>\"]\n\n[dependencies]\njobtap-core = \"0.2\"\n\
         schemars = \"1\"\nserde = {{ version = \"1\", features = [\"derive\"] }}\n\
         serde_json = \"1\"\n"
    )
}

#[track_caller]
fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        done(to, fs::create_dir_all(to));
        for entry in done(from, fs::read_dir(from)) {
            let entry = done(from, entry);
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        if let Some(parent) = to.parent() {
            done(parent, fs::create_dir_all(parent));
        }
        done(from, fs::copy(from, to));
    }
}

#[track_caller]
fn done<T>(path: &Path, result: std::io::Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}
