//! `kvs get`: prints stored values.

use serde_json::Value;

use super::messages::key_error;
use super::namespace::{Namespace, NamespaceArgs};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::{Client, RpcError};
use crate::rpc::errno::EPROTO;
use crate::rpc::services::kvs::{Found, Lookup, Watch};

/// Options and arguments of `kvs get`.
#[derive(Debug, clap::Args)]
pub(super) struct GetArgs {
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Print the bytes unchanged, without adding a newline
    #[arg(short = 'r', long)]
    raw: bool,
    /// Print the value, which must be JSON, as one line of JSON
    #[arg(short = 'j', long, conflicts_with = "raw")]
    json: bool,
    /// Print KEY= before the value
    #[arg(short = 'l', long)]
    label: bool,
    /// Wait until the key exists
    #[arg(short = 'W', long)]
    waitcreate: bool,
    /// Print the value and each new value, until interrupted
    #[arg(short = 'w', long)]
    watch: bool,
    /// With --watch, exit after N values
    #[arg(short = 'c', long, value_name = "N", requires = "watch")]
    count: Option<u64>,
    /// Accepted without effect: only different values are printed
    #[arg(short = 'u', long, requires = "watch")]
    uniq: bool,
    /// With --watch, print only what was added to the value
    #[arg(short = 'A', long, requires = "watch", conflicts_with = "json")]
    append: bool,
    /// Accepted without effect: all changes of the key are seen
    #[arg(short = 'f', long, requires = "watch")]
    full: bool,
    /// Keys, which are dotted names such as checkpoint.job-manager
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &GetArgs) -> Result<u8, CliError> {
    if args.watch || args.waitcreate {
        let [key] = args.keys.as_slice() else {
            return Err(CliError::failure("--watch and --waitcreate are for one key only"));
        };
        return watch(client, args, key).await;
    }
    let namespace = args.namespace.namespace()?;
    for key in &args.keys {
        let bytes = value(client, &namespace, key).await.map_err(|error| key_error(key, error))?;
        print(args, &printed(args, key, bytes)?)?;
    }
    Ok(0)
}

/// Prints the successive values of the key; without `--watch` only the first.
async fn watch(client: &Client, args: &GetArgs, key: &str) -> Result<u8, CliError> {
    let limit = if args.watch { args.count } else { Some(1) };
    let whole = args.namespace.namespace()?.whole(key);
    let request = Watch { key: whole, waitcreate: args.waitcreate };
    let mut values = client.stream(request).await?;
    let (mut last, mut count) = (Vec::new(), 0);
    while limit.is_none_or(|limit| count < limit)
        && let Some(value) = values.next().await
    {
        let value = bytes(value.map_err(|error| key_error(key, error))?)?;
        let new = if args.append { added(&last, &value).to_vec() } else { value.clone() };
        print(args, &printed(args, key, new)?)?;
        last = value;
        count += 1;
    }
    Ok(0)
}

/// The bytes that were appended to the value `last`; the whole value if it doesn't begin with `last`.
pub(super) fn added<'a>(last: &[u8], value: &'a [u8]) -> &'a [u8] {
    value.strip_prefix(last).unwrap_or(value)
}

/// Prints what [`printed`] returned. Values may contain texts of users: control characters are escaped, so that
/// they don't reach the terminal.
fn print(args: &GetArgs, printed: &[u8]) -> Result<(), CliError> {
    match std::str::from_utf8(printed) {
        Ok(text) if !args.raw => session::print(text),
        _ => session::write(&mut std::io::stdout().lock(), printed),
    }
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
    // As in Flux, even after a value that ends in a newline.
    if !args.raw {
        printed.push(b'\n');
    }
    Ok(printed)
}

/// The value of a key.
pub(super) async fn value(
    client: &Client,
    namespace: &Namespace,
    key: &str,
) -> Result<Vec<u8>, RpcError> {
    bytes(client.call(Lookup { key: namespace.whole(key) }).await?)
}

/// The bytes of a response.
pub(super) fn bytes(found: Found) -> Result<Vec<u8>, RpcError> {
    found.into_bytes().map_err(|error| RpcError::new(EPROTO, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_value_that_begins_with_the_last_one_was_added_to() {
        assert_eq!(added(b"", b"one"), b"one");
        assert_eq!(added(b"one", b"one two"), b" two");
        assert_eq!(added(b"one", b"three"), b"three");
    }
}
