//! `job last`: prints the ids of the user's most recent jobs, the newest first. The builtin plugin `.history`
//! records them.

use crate::cli::common::ids::show_id;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::Client;
use crate::rpc::services::plugin::History;

/// Arguments of `job last`.
#[derive(Debug, clap::Args)]
pub(super) struct LastArgs {
    /// Number of jobs, or a slice such as [1:3]
    #[arg(value_name = "N|SLICE", default_value = "1", value_parser = slice)]
    slice: String,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &LastArgs) -> Result<u8, CliError> {
    let ids = client.call(History { slice: args.slice.clone() }).await?.jobs;
    if ids.is_empty() {
        return Err(CliError::failure("job history is empty"));
    }
    for id in ids {
        session::print(&format!("{}\n", show_id(id)))?;
    }
    Ok(0)
}

/// A text that selects no jobs of the history.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("a number, or a slice such as [1:3]")]
struct NoSlice;

/// Turns a number N into the slice of the first N jobs. The plugin parses slices in brackets.
fn slice(text: &str) -> Result<String, NoSlice> {
    if text.starts_with('[') {
        return Ok(text.to_owned());
    }
    match text.parse::<i64>() {
        Ok(count) => Ok(format!("[:{count}]")),
        Err(_) => Err(NoSlice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_selects_the_newest_jobs() {
        assert_eq!(slice("3").as_deref(), Ok("[:3]"));
        assert_eq!(slice("[::-1]").as_deref(), Ok("[::-1]"));
        assert!(slice("many").is_err());
    }
}
