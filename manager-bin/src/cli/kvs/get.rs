//! `kvs get`: values as they are stored.

use serde_json::Value;

use super::about;
use crate::cli::message::CliError;
use crate::cli::session;
use crate::client::{Client, RpcError};
use crate::rpc::errno::EPROTO;
use crate::rpc::services::kvs::Lookup;

/// Options and arguments of `kvs get`.
#[derive(Debug, clap::Args)]
pub(super) struct GetArgs {
    /// The bytes alone, without a newline that isn't in them
    #[arg(short = 'r', long)]
    raw: bool,
    /// The value as JSON, which it must be, on one line
    #[arg(short = 'j', long, conflicts_with = "raw")]
    json: bool,
    /// Print KEY= before the value
    #[arg(short = 'l', long)]
    label: bool,
    /// Dotted names such as checkpoint.job-manager
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &GetArgs) -> Result<u8, CliError> {
    for key in &args.keys {
        let bytes = value(client, key).await.map_err(|error| about(key, error))?;
        let printed = printed(args, key, bytes)?;
        // Values may contain texts of users, so control characters are escaped. Most values are JSON, which
        // has none.
        match std::str::from_utf8(&printed) {
            Ok(text) if !args.raw => session::print(text)?,
            _ => session::put(&mut std::io::stdout().lock(), &printed)?,
        }
    }
    Ok(0)
}

fn printed(args: &GetArgs, key: &str, bytes: Vec<u8>) -> Result<Vec<u8>, CliError> {
    let mut printed = if args.label { format!("{key}=").into_bytes() } else { Vec::new() };
    if args.json {
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|error| CliError::failure(format!("{key}: the value is no JSON: {error}")))?;
        printed.extend(value.to_string().into_bytes());
    } else {
        printed.extend(bytes);
    }
    if !args.raw && printed.last() != Some(&b'\n') {
        printed.push(b'\n');
    }
    Ok(printed)
}

/// The value of a key.
pub(super) async fn value(client: &Client, key: &str) -> Result<Vec<u8>, RpcError> {
    let found = client.call(Lookup { key: key.to_owned() }).await?;
    found.into_bytes().map_err(|error| RpcError::new(EPROTO, error.to_string()))
}
