//! `getattr`, `setattr` and `lsattr`: read and set the attributes of the manager.

use std::process::ExitCode;

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::client::Client;
use crate::rpc::services::attr::{Get, List, Set};

/// The variable with the rank for which a plugin has started a process.
pub(in crate::cli) const RANK: &str = "JOBTAP_RANK";

/// Arguments of `getattr`.
#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    /// Name of the attribute, such as size, hostlist or local-uri
    #[arg(value_name = "NAME")]
    name: String,
}

/// Options and arguments of `setattr`.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
pub(crate) struct SetArgs {
    /// Accepted without effect: attributes that can't be changed have no other value
    #[arg(short = 'f', long)]
    force: bool,
    /// Name of the attribute: log-stderr-level, or test.NAME for one of your own
    #[arg(value_name = "NAME")]
    name: String,
    /// Its new value
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    value: String,
}

/// Options of `lsattr`.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
pub(crate) struct ListArgs {
    /// Print the values too
    #[arg(short = 'v', long)]
    values: bool,
}

/// Runs `getattr`.
pub(crate) fn get(args: GetArgs) -> ExitCode {
    session::with_manager("getattr", Family::Compiled, async |client| {
        let value = value(&client, args.name).await?;
        session::print(&format!("{value}\n"))?;
        Ok(0)
    })
}

/// Runs `setattr`.
pub(crate) fn set(args: SetArgs) -> ExitCode {
    session::with_manager("setattr", Family::Compiled, async |client| {
        let SetArgs { name, value, .. } = args;
        let set = client.call(Set { name: name.clone(), value }).await;
        set.map_err(|error| CliError::failure(format!("{name}: {error}")))?;
        Ok(0)
    })
}

/// Runs `lsattr`.
pub(crate) fn list(args: ListArgs) -> ExitCode {
    session::with_manager("lsattr", Family::Compiled, async |client| {
        let mut text = String::new();
        for name in client.call(List {}).await?.names {
            if args.values {
                let value = value(&client, name.clone()).await?;
                text.push_str(&format!("{name:<40}{value}\n"));
            } else {
                text.push_str(&format!("{name}\n"));
            }
        }
        session::print(&text)?;
        Ok(0)
    })
}

/// The value of an attribute. One manager acts for all ranks: in a process that a plugin has started for one of
/// them, the attribute `rank` is that rank.
pub(in crate::cli) async fn value(client: &Client, name: String) -> Result<String, CliError> {
    if name == "rank"
        && let Ok(rank) = std::env::var(RANK)
    {
        return Ok(rank);
    }
    let found = client.call(Get { name: name.clone() }).await;
    found.map(|found| found.value).map_err(|error| CliError::failure(format!("{name}: {error}")))
}
