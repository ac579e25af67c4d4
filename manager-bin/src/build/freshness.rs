//! Makes cargo notice sources that were replaced.
//!
//! Cargo compares the times of files. The generated crate has one path for all manifests, so another
//! directory of a plugin, or another SDK, can put other files with older times there.

use std::collections::BTreeMap;

use super::cargo::{self, Cargo};
use super::checksum;
use super::error::BuildError;
use super::generate;
use super::plan::Plan;
use super::resolve::{self, Resolved};

/// Removes what was compiled from other sources than the present ones.
pub(super) fn renew(
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
            return Err(BuildError::Resolve(text));
        }
    }
    known.extend(now);
    let text =
        serde_json::to_vec(&known).map_err(|error| BuildError::refused(error.to_string()))?;
    generate::write_if_changed(&record, &text)
}
