//! Runs cargo and rustc for the generated crate.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::error::ToolchainError;
use crate::sdk::Sdk;

/// How cargo is to be run.
#[derive(Debug)]
pub(crate) struct Cargo {
    /// The generated crate.
    pub(crate) directory: PathBuf,
    /// Where cargo puts what it makes.
    pub(crate) target_dir: PathBuf,
    /// The toolchain that the manifest names.
    pub(crate) toolchain: Option<String>,
    /// Whether the network may not be used.
    pub(crate) offline: bool,
    /// Configuration files and settings, as `--config` takes them.
    pub(crate) config: Vec<String>,
}

/// The compiler that is used.
#[derive(Debug, Clone)]
pub(crate) struct Rustc {
    /// The output of `rustc --version`.
    pub(crate) version: String,
    /// The triple of this machine.
    pub(crate) host: String,
}

impl Cargo {
    /// A cargo command in the generated crate.
    pub(crate) fn command(&self, subcommand: &str) -> Command {
        let mut command = self.program("CARGO", "cargo");
        command.arg(subcommand).current_dir(&self.directory);
        if self.offline {
            command.arg("--offline");
        }
        for config in &self.config {
            command.args(["--config", config]);
        }
        command.env("CARGO_TARGET_DIR", &self.target_dir).stdin(Stdio::null());
        // A cargo that started this program may have set it.
        command.env_remove("CARGO_BUILD_TARGET");
        command
    }

    /// Returns a command for cargo or rustc. A toolchain that the manifest names is run by rustup.
    fn program(&self, variable: &str, name: &str) -> Command {
        match &self.toolchain {
            Some(toolchain) => {
                let mut command = Command::new("rustup");
                command.args(["run", toolchain, name]).env_remove("RUSTC").env_remove("CARGO");
                command
            }
            None => Command::new(std::env::var_os(variable).unwrap_or_else(|| name.into())),
        }
    }

    /// Asks the compiler for its version and host.
    pub(crate) fn rustc(&self) -> Result<Rustc, ToolchainError> {
        // In the same directory as cargo, since rustup chooses a toolchain by directory.
        let mut command = self.program("RUSTC", "rustc");
        let output = run(command.arg("-vV").current_dir(&self.directory))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let host = text.lines().find_map(|line| line.strip_prefix("host: "));
        match (host, text.lines().next()) {
            (None, _) if self.toolchain.is_some() => {
                let toolchain = self.toolchain.clone().unwrap_or_default();
                Err(ToolchainError::NotInstalled(toolchain))
            }
            (Some(host), Some(version)) => {
                Ok(Rustc { version: version.to_owned(), host: host.to_owned() })
            }
            _ => {
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                Err(ToolchainError::NoVersion(text))
            }
        }
    }

    /// Refuses a compiler that is too old for the SDK, and a target that it can't compile for.
    pub(crate) fn check(
        &self,
        rustc: &Rustc,
        sdk: &Sdk,
        target: &str,
    ) -> Result<(), ToolchainError> {
        let needed = sdk.rust_version.as_deref().unwrap_or_default();
        if rustc.is_older_than(needed) {
            return Err(ToolchainError::TooOld {
                rustc: rustc.version.clone(),
                sdk: sdk.named(),
                needed: needed.to_owned(),
            });
        }
        if target == rustc.host {
            return Ok(());
        }
        let mut command = self.program("RUSTC", "rustc");
        command.args(["--print", "target-libdir", "--target", target]);
        let output = run(command.current_dir(&self.directory))?;
        if !output.status.success() {
            return Err(ToolchainError::UnknownTarget(target.to_owned()));
        }
        let library = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if Path::new(&library).is_dir() {
            return Ok(());
        }
        let (target, toolchain) = (target.to_owned(), self.toolchain.clone());
        Err(ToolchainError::NoStandardLibrary { target, toolchain })
    }

    /// Returns cargo's own directory, where it unpacks what it downloads.
    pub(crate) fn home() -> PathBuf {
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
        std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home).unwrap_or_default()
    }

    /// Returns the flags for the compiler: those of the environment, then ours.
    pub(crate) fn rustflags(ours: &[String]) -> OsString {
        let encoded = std::env::var("CARGO_ENCODED_RUSTFLAGS").ok();
        let plain = || {
            Some(
                std::env::var("RUSTFLAGS")
                    .ok()?
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join("\u{1f}"),
            )
        };
        let theirs = encoded.or_else(plain).filter(|flags| !flags.is_empty());
        let all: Vec<String> = theirs.into_iter().chain(ours.iter().cloned()).collect();
        all.join("\u{1f}").into()
    }

    /// Returns the variable from which build scripts take flags for the C compiler, and its value: the
    /// flags of the environment, then ours.
    pub(crate) fn cflags(target: &str, ours: &[String]) -> (String, String) {
        let variable = format!("CFLAGS_{}", target.replace('-', "_"));
        let names = [&variable, &format!("CFLAGS_{target}"), "TARGET_CFLAGS", "CFLAGS"];
        let theirs = names.iter().find_map(|name| std::env::var(name).ok());
        let all: Vec<String> = theirs.into_iter().chain(ours.iter().cloned()).collect();
        (variable, all.join(" "))
    }
}

impl Rustc {
    /// Returns whether it is older than a version in the form of `rust-version` in Cargo.toml.
    fn is_older_than(&self, needed: &str) -> bool {
        let numbers = |text: &str| -> Option<(u64, u64)> {
            let mut parts = text.split('.');
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        };
        let own = self.version.split(' ').nth(1).and_then(numbers);
        // Cargo checks a version that can't be compared here.
        own.zip(numbers(needed)).is_some_and(|(own, needed)| own < needed)
    }
}

/// Runs a command and returns its output.
pub(crate) fn run(command: &mut Command) -> Result<Output, ToolchainError> {
    command.output().map_err(|reason| no_program(command, reason))
}

pub(crate) fn no_program(command: &Command, reason: std::io::Error) -> ToolchainError {
    let program = command.get_program().to_string_lossy().into_owned();
    ToolchainError::NoProgram { program, reason }
}

/// Returns cargo's configuration files of a directory, which cargo doesn't read in the generated crate.
pub(crate) fn configs_of(directory: &Path) -> Vec<String> {
    let home = Cargo::home();
    let mut files: Vec<String> = directory
        .ancestors()
        .map(|ancestor| ancestor.join(".cargo"))
        .filter(|place| *place != home)
        .map(|place| place.join("config.toml"))
        .filter(|file| file.is_file())
        .map(|file| file.display().to_string())
        .collect();
    // Cargo lets a later `--config` win, and the nearest file must win.
    files.reverse();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let older = |version: &str| {
            let (version, host) = (version.to_owned(), String::new());
            Rustc { version, host }.is_older_than("1.95")
        };
        assert!(older("rustc 1.94.1 (e408947bf 2026-03-25)") && older("rustc 1.9.0"));
        assert!(!older("rustc 1.95.0 (59807616e 2026-04-14)") && !older("rustc 1.100.0"));
        // A nightly counts as the release of its number.
        assert!(!older("rustc 1.95.0-nightly (59807616e 2026-02-14)"));
        assert!(!older("another compiler"));
    }
}
