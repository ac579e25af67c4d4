//! What the messages of the subcommands have in common.

use crate::cli::common::message::CliError;
use crate::client::RpcError;
use crate::rpc::errno::{EISDIR, ENOENT, ENOTDIR};

/// The name of this command in messages.
pub(super) const COMMAND: &str = "kvs";

/// The error about a key. The message names the key if it is the cause.
pub(super) fn key_error(key: &str, error: RpcError) -> CliError {
    match error.errno {
        ENOENT | ENOTDIR | EISDIR => CliError::failure(format!("{key}: {error}")),
        _ => error.into(),
    }
}
