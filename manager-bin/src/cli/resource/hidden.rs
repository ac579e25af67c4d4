//! The queues that users have hidden from `resource list`: `list.hidden-queues` in `flux-resource.toml`.
//!
//! A site may have queues that contain all nodes and would appear in each line.

use std::ffi::OsString;

use serde_json::Value;

use super::messages::COMMAND;
use crate::cli::common::format::files::ConfigFile;
use crate::cli::common::message::CliError;

/// The key in the table of `resource list`.
pub(super) const KEY: &str = "hidden-queues";

/// The names of the queues that are shown only if a user asks for them.
///
/// # Errors
/// A file is malformed; the text names it.
pub(super) fn hidden_queues(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<String>, CliError> {
    let mut hidden = Vec::new();
    for file in ConfigFile::all(COMMAND, variable)? {
        if let Some(names) = file.config.get("list").and_then(|list| list.get(KEY)) {
            let wrong = || file.refuse(&format!("list.{KEY} must be a list of strings"));
            let names = names.as_array().ok_or_else(wrong)?.iter();
            let name = |name: &Value| name.as_str().map(str::to_owned);
            hidden = names.map(name).collect::<Option<_>>().ok_or_else(wrong)?;
        }
    }
    Ok(hidden)
}
