//! An installed Flux, inside which plugins are tested.

use std::path::PathBuf;
use std::process::Command;

use crate::workspace;

/// Returns the `flux` command that `.ci/flux` finds, or prints why the test is skipped.
#[allow(clippy::print_stdout)]
pub fn flux() -> Option<PathBuf> {
    let script = workspace().join(".ci/flux");
    let found = match Command::new(&script).output() {
        Ok(found) => found,
        Err(error) => panic!("{}: {error}", script.display()),
    };
    if found.status.success() {
        return Some(String::from_utf8_lossy(&found.stdout).trim_end().into());
    }
    println!("skipped: {}", String::from_utf8_lossy(&found.stderr).trim_end());
    None
}
