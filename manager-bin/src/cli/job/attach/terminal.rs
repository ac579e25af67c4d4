//! The terminal of this client, for jobs with a terminal that a user types into (`pty.interactive`).

use std::io::{self, IsTerminal};

use jobtap_core::jobspec::path;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::{Value, json};

use crate::cli::common::message::CliError;

const PTY: &str = "attributes.system.shell.options.pty";

/// Passes each key on to the job, which echoes and interprets it, until this is dropped.
pub(super) struct Raw {
    before: Termios,
}

impl Raw {
    /// Returns `None` if standard input is not a terminal, or its mode can't be set.
    pub(super) fn new() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw).ok()?;
        Some(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // An error is ignored: the terminal is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
    }
}

/// The size of this terminal, in lines and characters.
pub(super) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdin()).ok()?;
    Some((size.ws_row, size.ws_col))
}

/// Whether the job has a terminal that a user types into, and this client has a terminal to type in.
pub(super) fn is_interactive(jobspec: &Value) -> bool {
    let asked = jobspec.pointer(&format!("/{}/interactive", PTY.replace('.', "/")));
    let off = [None, Some(&json!(0)), Some(&json!(false))].contains(&asked);
    !off && io::stdin().is_terminal()
}

/// Makes the job interactive if `wanted`. If the job is interactive, puts the size of this terminal into the jobspec.
/// Returns whether it is interactive.
///
/// # Errors
/// The jobspec has a value of another type in this place.
pub(in crate::cli) fn offer(jobspec: &mut Value, wanted: bool) -> Result<bool, CliError> {
    let set = |jobspec: &mut Value, key: &str, value: Value| {
        path::set(jobspec, &format!("{PTY}.{key}"), value).map_err(CliError::failure)
    };
    if wanted {
        // `-o pty` has the value 1.
        let found = jobspec.pointer(&format!("/{}", PTY.replace('.', "/")));
        if found.is_some_and(|found| !found.is_object()) {
            path::set(jobspec, PTY, json!({})).map_err(CliError::failure)?;
        }
        set(jobspec, "interactive", json!(1))?;
    }
    if !is_interactive(jobspec) {
        return Ok(false);
    }
    if let Some((rows, columns)) = size() {
        set(jobspec, "rows", json!(rows))?;
        set(jobspec, "columns", json!(columns))?;
    }
    Ok(true)
}
