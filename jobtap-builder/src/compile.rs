//! Compiles the generated crate, and names the crates that don't compile.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufReader, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use cargo_metadata::camino::Utf8PathBuf;
use cargo_metadata::diagnostic::DiagnosticLevel;
use cargo_metadata::{CompilerMessage, Message};

use crate::cargo::{self, Cargo, no_program};
use crate::checksum;
use crate::error::{BuildError, CompileError, CrateErrors, Culprit, Product};
use crate::generate;
use crate::plan::Plan;
use crate::resolve::{self, Package, PackageId, Resolved};

/// Runs `cargo build` and returns the binary, or the shared library, that it made.
pub(crate) fn compile(
    cargo: &Cargo,
    plan: &Plan,
    resolved: &Resolved,
    settings: &Settings,
) -> Result<PathBuf, BuildError> {
    let mut command = cargo.command("build");
    let colour = std::io::stderr().is_terminal();
    let format = if colour { "json-diagnostic-rendered-ansi" } else { "json" };
    command.arg(format!("--message-format={format}"));
    // The lock was written when the packages were resolved.
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
    // C code may contain the time at which it was compiled; a fixed time keeps builds reproducible.
    let time = std::env::var_os("SOURCE_DATE_EPOCH").unwrap_or_else(|| "0".into());
    command.env("SOURCE_DATE_EPOCH", time);
    command.envs(settings.environment.iter().map(|(name, value)| (name, value)));
    watch(&mut command, plan, resolved)
}

/// Removes what was compiled from other sources than the present ones.
///
/// Cargo compares the times of files. The generated crate has one path for all manifests, so another
/// directory of a plugin, or another SDK, can put other files with older times there.
pub(crate) fn discard_stale(
    cargo: &Cargo,
    plan: &Plan,
    resolved: &Resolved,
    target: &str,
    release: bool,
) -> Result<(), BuildError> {
    let mut now: BTreeMap<String, String> = BTreeMap::new();
    for package in resolved.reachable().filter(|package| package.source.is_none()) {
        // The manager carries the whole SDK, so a change of one package changes them all.
        let sum = match resolved.is_sdk(package, plan) {
            true => plan.sdk.checksum.clone(),
            false => checksum::of_package(resolve::directory(package))?,
        };
        now.insert(package.id.to_string(), sum);
    }
    let profile = if release { "release" } else { "quick" };
    let record = cargo.target_dir.join(format!("jobtap-sources-{target}-{profile}.json"));
    let before = std::fs::read(&record).unwrap_or_default();
    let mut known: BTreeMap<String, String> = serde_json::from_slice(&before).unwrap_or_default();
    let changed: Vec<&String> = now
        .iter()
        .filter(|(id, sum)| known.get(*id).is_some_and(|k| k != *sum))
        .map(|(id, _)| id)
        .collect();
    if !changed.is_empty() {
        let mut command = cargo.command("clean");
        command.args(["--quiet", "--target", target]);
        if release {
            command.arg("--release");
        }
        for id in changed {
            command.args(["--package", id]);
        }
        let output = cargo::run(&mut command)?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(CompileError::NotRemoved(text).into());
        }
    }
    known.extend(now);
    generate::write_if_changed(&record, &serde_json::to_vec(&known)?)
}

/// How the crate is to be compiled.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) target: String,
    pub(crate) release: bool,
    pub(crate) quiet: bool,
    /// Flags for the compiler.
    pub(crate) flags: Vec<String>,
    /// Flags for the C compiler, which some crates need.
    pub(crate) c_flags: Vec<String>,
    /// More variables for cargo.
    pub(crate) environment: Vec<(&'static str, OsString)>,
}

/// Reads cargo's messages. Its progress goes to standard error directly.
fn watch(command: &mut Command, plan: &Plan, resolved: &Resolved) -> Result<PathBuf, BuildError> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| no_program(command, e))?;
    let mut errors: BTreeMap<PackageId, u32> = BTreeMap::new();
    let mut product = None;
    let messages = BufReader::new(child.stdout.take().ok_or(CompileError::NoMessage)?);
    for message in Message::parse_stream(messages) {
        match message.map_err(|_| CompileError::NoMessage)? {
            Message::CompilerMessage(CompilerMessage { package_id, message, .. }) => {
                let is_error = matches!(message.level, DiagnosticLevel::Error);
                let package = resolved.packages.get(&package_id);
                if is_error || package.is_some_and(|package| is_plugin(package, plan)) {
                    // With a broken standard error there is no one to tell.
                    let rendered = message.rendered.unwrap_or_default();
                    let _ = std::io::stderr().write_all(rendered.as_bytes());
                }
                // The last message of a crate only counts the others.
                if is_error && !message.message.starts_with("aborting") {
                    *errors.entry(package_id).or_default() += 1;
                }
            }
            Message::CompilerArtifact(artifact) => {
                let library = || {
                    let is_ours = artifact.package_id == *resolved.root();
                    let is_shared = |file: &&Utf8PathBuf| file.extension() == Some("so");
                    artifact.filenames.iter().find(is_shared).filter(|_| is_ours).cloned()
                };
                let made = artifact.executable.clone().or_else(library);
                product = made.map(Into::into).or(product);
            }
            _ => {}
        }
    }
    let status = child.wait().map_err(|_| CompileError::NoMessage)?;
    match product {
        Some(product) if status.success() => Ok(product),
        _ => Err(blame(&errors, plan, resolved).into()),
    }
}

fn is_plugin(package: &Package, plan: &Plan) -> bool {
    plan.manifest.plugins.iter().any(|entry| package.name == entry.name)
}

/// Names the crates that don't compile, and where the manifest takes plugins from.
fn blame(errors: &BTreeMap<PackageId, u32>, plan: &Plan, resolved: &Resolved) -> CompileError {
    let product = match plan.manifest.manager.host {
        Some(_) => Product::Library,
        None => Product::Manager,
    };
    if errors.is_empty() {
        return CompileError::Cargo(product);
    }
    let culprit = |id: &PackageId| {
        let Some(package) = resolved.packages.get(id) else {
            return Culprit::Unknown(id.to_string());
        };
        let (name, version) = (package.name.to_string(), package.version.to_string());
        if let Some(entry) = plan.manifest.plugins.iter().find(|entry| name == entry.name) {
            let place = entry.path.as_ref().map(|path| plan.base.join(path).display().to_string());
            let source = || package.source.as_ref().map(ToString::to_string);
            let place = place.or_else(source).unwrap_or_default();
            return Culprit::Plugin { name, version, place };
        }
        if id == resolved.root() {
            return Culprit::Linking(product);
        }
        let users = plan.manifest.plugins.iter().filter(|entry| {
            let package = resolved.direct(&entry.name);
            package.is_some_and(|p| resolved.dependencies(&p.id).contains(id))
        });
        Culprit::Dependency { name, version, users: users.map(|user| user.name.clone()).collect() }
    };
    let each = errors.iter().map(|(id, count)| CrateErrors { culprit: culprit(id), count: *count });
    CompileError::Crates(each.collect())
}
