//! Runs cargo and rustc for the generated crate.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::error::BuildError;

/// How cargo is to be run.
#[derive(Debug)]
pub(super) struct Cargo {
    /// The generated crate.
    pub(super) directory: PathBuf,
    /// Where cargo puts what it makes.
    pub(super) target_dir: PathBuf,
    /// The toolchain that the manifest names.
    pub(super) toolchain: Option<String>,
    /// Whether the network may not be used.
    pub(super) offline: bool,
    /// Configuration files and settings, as `--config` takes them.
    pub(super) config: Vec<String>,
}

/// The compiler that is used.
#[derive(Debug, Clone)]
pub(super) struct Rustc {
    /// As `rustc --version` says it.
    pub(super) version: String,
    /// The triple of this machine.
    pub(super) host: String,
}

impl Cargo {
    /// A cargo command in the generated crate.
    pub(super) fn command(&self, subcommand: &str) -> Command {
        let mut command = self.program("CARGO", "cargo");
        command.arg(subcommand).current_dir(&self.directory);
        if self.offline {
            command.arg("--offline");
        }
        for config in &self.config {
            command.args(["--config", config]);
        }
        command.env("CARGO_TARGET_DIR", &self.target_dir).stdin(Stdio::null());
        // Of a cargo that this program was started by.
        command.env_remove("CARGO_BUILD_TARGET");
        command
    }

    /// A toolchain that is asked for by name is one of rustup's.
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

    /// The compiler.
    pub(super) fn rustc(&self) -> Result<Rustc, BuildError> {
        let mut command = self.program("RUSTC", "rustc");
        let output = run(command.arg("-vV"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let host = text.lines().find_map(|line| line.strip_prefix("host: "));
        match (host, text.lines().next()) {
            (None, _) if self.toolchain.is_some() => {
                let toolchain = self.toolchain.as_deref().unwrap_or_default();
                Err(BuildError::refused(format!(
                    "[manager]: toolchain {toolchain:?} is not there: install it with `rustup toolchain install {toolchain}`, or leave `toolchain` out"
                )))
            }
            (Some(host), Some(version)) => {
                Ok(Rustc { version: version.to_owned(), host: host.to_owned() })
            }
            _ => Err(BuildError::Resolve(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    }

    /// Cargo's own directory, where it unpacks what it downloads.
    pub(super) fn home() -> PathBuf {
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
        std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home).unwrap_or_default()
    }

    /// The flags for the compiler: the ones that are set already, and ours.
    pub(super) fn rustflags(ours: &[String]) -> OsString {
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

    /// The variable by which crates' own builds take flags for the C compiler: those that are set
    /// already, and ours.
    pub(super) fn cflags(target: &str, ours: &[String]) -> (String, String) {
        let variable = format!("CFLAGS_{}", target.replace('-', "_"));
        let names = [&variable, &format!("CFLAGS_{target}"), "TARGET_CFLAGS", "CFLAGS"];
        let theirs = names.iter().find_map(|name| std::env::var(name).ok());
        let all: Vec<String> = theirs.into_iter().chain(ours.iter().cloned()).collect();
        (variable, all.join(" "))
    }
}

/// Runs a command and keeps what it says.
pub(super) fn run(command: &mut Command) -> Result<Output, BuildError> {
    command.output().map_err(|reason| no_program(command, reason))
}

pub(super) fn no_program(command: &Command, reason: std::io::Error) -> BuildError {
    BuildError::NoCargo { program: command.get_program().to_string_lossy().into_owned(), reason }
}

/// The configuration files of cargo's that hold for a directory and not for the generated crate.
pub(super) fn configs_of(directory: &Path) -> Vec<String> {
    let home = Cargo::home();
    let mut files: Vec<String> = directory
        .ancestors()
        .map(|ancestor| ancestor.join(".cargo"))
        .filter(|place| *place != home)
        .map(|place| place.join("config.toml"))
        .filter(|file| file.is_file())
        .map(|file| file.display().to_string())
        .collect();
    // The nearest one counts most, and is given last.
    files.reverse();
    files
}
