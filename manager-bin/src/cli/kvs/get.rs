//! `kvs get`: values as they are stored.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::about;
use crate::cli::message::CliError;
use crate::cli::session;
use crate::client::{Client, RpcError};
use crate::rpc::errno::EPROTO;

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
        // Values have texts of users in them, such as jobspecs; most are JSON, and stay the same.
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
    let answer = client.rpc("kvs.lookup", json!({ "key": key })).await?;
    let text = |name| answer.get(name).and_then(Value::as_str);
    match (text("value"), text("base64")) {
        (Some(text), _) => Ok(text.as_bytes().to_vec()),
        (None, Some(text)) => {
            BASE64_STANDARD.decode(text).map_err(|error| RpcError::new(EPROTO, error.to_string()))
        }
        (None, None) => Err(RpcError::new(EPROTO, "the answer has no value")),
    }
}
