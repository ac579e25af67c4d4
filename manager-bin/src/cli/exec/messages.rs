//! How a command that isn't run for a node is reported.

use crate::cli::common::message::Prog;
use crate::cli::common::session;

/// The name of this command in messages.
pub(super) const COMMAND: &str = "exec";

/// The exit code of a command that can't be run, other than one that isn't found.
pub(super) const NOT_RUN: u8 = 126;

/// Prints an error about one node.
pub(super) fn complain(text: &str) {
    session::print_message(&Prog::current().plain(COMMAND, format!("Error: {text}")));
}
