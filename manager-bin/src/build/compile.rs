//! Compiles the generated crate and says whose fault it is when that fails.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::cargo::{Cargo, no_program};
use super::error::BuildError;
use super::plan::Plan;
use super::resolve::{Package, Resolved};

/// Runs cargo to its end; gives the binary it made.
pub(super) fn compile(
    cargo: &Cargo,
    plan: &Plan,
    resolved: &Resolved,
    settings: &Settings,
) -> Result<PathBuf, BuildError> {
    let mut command = cargo.command("build");
    let colour = std::io::stderr().is_terminal();
    let format = if colour { "json-diagnostic-rendered-ansi" } else { "json" };
    command.arg(format!("--message-format={format}"));
    // The lock was settled when the packages were resolved.
    command.args(["--locked", "--target", &settings.target]);
    if settings.release {
        command.arg("--release");
    }
    if settings.quiet {
        command.arg("--quiet");
    }
    command
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", Cargo::rustflags(&settings.flags));
    let (variable, flags) = Cargo::cflags(&settings.target, &settings.c_flags);
    command.env(variable, flags);
    // C code may hold the time at which it was compiled, and a time of one's own stays the same.
    let time = std::env::var_os("SOURCE_DATE_EPOCH").unwrap_or_else(|| "0".into());
    command.env("SOURCE_DATE_EPOCH", time);
    watch(&mut command, plan, resolved)
}

/// How the crate is to be compiled.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) target: String,
    pub(super) release: bool,
    pub(super) quiet: bool,
    /// Flags for the compiler.
    pub(super) flags: Vec<String>,
    /// Flags for the C compiler, which some crates need.
    pub(super) c_flags: Vec<String>,
}

/// Reads cargo's messages: its progress goes to the terminal by itself.
fn watch(command: &mut Command, plan: &Plan, resolved: &Resolved) -> Result<PathBuf, BuildError> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| no_program(command, e))?;
    let mut errors: BTreeMap<String, u32> = BTreeMap::new();
    let mut executable = None;
    for line in BufReader::new(child.stdout.take().ok_or_else(no_messages)?).lines() {
        let line = line.map_err(|_| no_messages())?;
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let text = |path: &str| message.pointer(path).and_then(Value::as_str);
        let package = text("/package_id").and_then(|id| resolved.packages.get(id));
        match text("/reason") {
            Some("compiler-message") => {
                let is_error = text("/message/level") == Some("error");
                if is_error || package.is_some_and(|p| is_plugin(p, plan)) {
                    // Nobody is left to hear about a broken stderr.
                    let rendered = text("/message/rendered").unwrap_or_default();
                    let _ = std::io::stderr().write_all(rendered.as_bytes());
                }
                // The last message of a crate only counts the others.
                if is_error && !text("/message/message").is_some_and(|m| m.starts_with("aborting"))
                {
                    let id = text("/package_id").unwrap_or_default();
                    *errors.entry(id.to_owned()).or_default() += 1;
                }
            }
            Some("compiler-artifact") => {
                executable = text("/executable").map(PathBuf::from).or(executable);
            }
            _ => {}
        }
    }
    let status = child.wait().map_err(|_| no_messages())?;
    match executable {
        Some(executable) if status.success() => Ok(executable),
        _ => Err(BuildError::Compile(blame(&errors, plan, resolved))),
    }
}

fn no_messages() -> BuildError {
    BuildError::Compile("cargo ended without a word".into())
}

fn is_plugin(package: &Package, plan: &Plan) -> bool {
    plan.manifest.plugins.iter().any(|entry| entry.name == package.name)
}

/// Names the crates that don't compile, plugins by where the manifest has them from.
fn blame(errors: &BTreeMap<String, u32>, plan: &Plan, resolved: &Resolved) -> String {
    if errors.is_empty() {
        return "the manager was not built: cargo's own message is above".into();
    }
    let lines = errors.iter().map(|(id, count)| {
        let plural = if *count == 1 { "error" } else { "errors" };
        let Some(package) = resolved.packages.get(id) else {
            return format!("{id}: {count} {plural}, above");
        };
        let (name, version) = (&package.name, &package.version);
        if let Some(entry) = plan.manifest.plugins.iter().find(|entry| entry.name == *name) {
            let place = entry.path.as_ref().map(|path| plan.base.join(path).display().to_string());
            let place = place.or_else(|| package.source.clone()).unwrap_or_default();
            return format!(
                "plugin {name:?} {version} ({place}) does not compile: {count} {plural}, above"
            );
        }
        if *id == resolved.root() {
            return format!("linking the manager failed: {count} {plural}, above");
        }
        let users = plan.manifest.plugins.iter().filter(|entry| {
            let package = resolved.direct(&entry.name);
            package.is_some_and(|p| resolved.dependencies(&p.id).contains(id))
        });
        let users: Vec<String> = users.map(|entry| format!("{:?}", entry.name)).collect();
        let whose = match users.as_slice() {
            [] => String::new(),
            _ => format!(", which plugin {} needs,", users.join(", ")),
        };
        format!("crate {name} {version}{whose} does not compile: {count} {plural}, above")
    });
    lines.collect::<Vec<_>>().join("\n")
}
