//! What the messages of the subcommands have in common.

use crate::cli::common::message::CliError;
use crate::rpc::RpcError;

/// The name of this command in messages and in the names of files.
pub(super) const COMMAND: &str = "resource";

/// The error message of these commands for an error response, in Flux's form.
pub(super) fn refused(error: &RpcError) -> CliError {
    CliError::failure(format!("[Errno {}] {error}", error.errno))
}
