//! `kvs get`: prints stored values.

use serde_json::Value;

use super::key_error;
use crate::cli::message::CliError;
use crate::cli::session;
use crate::client::{Client, RpcError};
use crate::rpc::errno::EPROTO;
use crate::rpc::services::kvs::Lookup;

/// Options and arguments of `kvs get`.
#[derive(Debug, clap::Args)]
pub(super) struct GetArgs {
    /// Print the bytes unchanged, without adding a newline
    #[arg(short = 'r', long)]
    raw: bool,
    /// Print the value, which must be JSON, as one line of JSON
    #[arg(short = 'j', long, conflicts_with = "raw")]
    json: bool,
    /// Print KEY= before the value
    #[arg(short = 'l', long)]
    label: bool,
    /// Keys, which are dotted names such as checkpoint.job-manager
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &GetArgs) -> Result<u8, CliError> {
    for key in &args.keys {
        let bytes = value(client, key).await.map_err(|error| key_error(key, error))?;
        let printed = printed(args, key, bytes)?;
        // Values may contain texts of users: control characters are escaped, so that they don't reach the
        // terminal.
        match std::str::from_utf8(&printed) {
            Ok(text) if !args.raw => session::print(text)?,
            _ => session::write(&mut std::io::stdout().lock(), &printed)?,
        }
    }
    Ok(0)
}

/// The bytes to print for a value.
fn printed(args: &GetArgs, key: &str, bytes: Vec<u8>) -> Result<Vec<u8>, CliError> {
    let mut printed = if args.label { format!("{key}=").into_bytes() } else { Vec::new() };
    if args.json {
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|error| CliError::failure(format!("{key}: the value is not JSON: {error}")))?;
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
