//! The manager and its commands change no file or directory that they did not make: they follow no
//! symbolic links, refuse directories that others can change, and replace a file as a whole or not at all.
#![allow(clippy::unwrap_used)]

mod state_directory;
mod written;

use jobtap_tests::Output;

/// Asserts that a command failed with a message that contains `text`, and without a panic.
#[track_caller]
fn refused(output: Output, text: &str) {
    assert!(output.code == 1 && output.stderr.contains(text), "{text}: {output:?}");
    assert!(!output.stderr.contains("panicked"), "{output:?}");
}
