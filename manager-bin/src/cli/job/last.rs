//! `job last`: the ids of the user's last jobs, the newest first, as plugin `.history` keeps them.

use crate::cli::ids::show_id;
use crate::cli::message::CliError;
use crate::cli::session;
use crate::client::Client;
use crate::rpc::services::plugin::History;

/// Arguments of `job last`.
#[derive(Debug, clap::Args)]
pub(super) struct LastArgs {
    /// How many, or a slice such as [1:3]
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

/// The requested slice: `N` stands for the first N. A slice in brackets is parsed by the plugin.
fn slice(text: &str) -> Result<String, String> {
    if text.starts_with('[') {
        return Ok(text.to_owned());
    }
    match text.parse::<i64>() {
        Ok(count) => Ok(format!("[:{count}]")),
        Err(_) => Err("a number, or a slice such as [1:3]".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_slice_of_the_newest() {
        assert_eq!(slice("3").as_deref(), Ok("[:3]"));
        assert_eq!(slice("[::-1]").as_deref(), Ok("[::-1]"));
        assert!(slice("many").is_err());
    }
}
