//! An instance of several nodes, which a launcher has started: jobs across them, and nodes that fail.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod campaign;
mod exec;
mod failures;
mod jobs;
mod launchers;
mod nested;
mod network;
mod rates;
mod record;
mod start;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use jobtap_tests::nodes::Nodes;
use jobtap_tests::{run, temporary};

/// Starts a node that sees a disk of this size in the place of the directory for temporary files.
const OWN_DISK: &str = r#"#!/bin/sh
exec unshare --mount sh -c 'mount -t tmpfs -o size=$size none "$TMPDIR" && exec "$@"' sh "$@"
"#;

/// An instance of two nodes. The directory for temporary files of the second one is a disk of this size, which nobody else sees.
/// `None` if there can't be one.
#[allow(clippy::print_stdout)]
fn with_a_disk_of_its_own(size: &str) -> Option<Nodes> {
    if run(Command::new("unshare").args(["--mount", "true"])).code != 0 {
        println!("skipped: this system doesn't allow a process to mount a disk of its own");
        return None;
    }
    let directory = temporary();
    let wrapper = directory.path().join("wrapper");
    fs::write(&wrapper, OWN_DISK.replace("$size", size)).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    Some(Nodes::start_by(2, "5s", &[], |rank| (rank == 1).then(|| wrapper.clone())))
}

/// The lines of a text, sorted: nodes print in any order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}
