//! `openapi`: prints the OpenAPI document of the services, which a manager also serves at `/openapi.json`.

use std::process::ExitCode;

use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::rpc::openapi;

/// Options of `openapi`.
#[derive(Debug, clap::Args)]
pub(crate) struct OpenapiArgs {}

/// Runs the command.
pub(crate) fn run(_args: OpenapiArgs) -> ExitCode {
    session::run("openapi", Family::Compiled, async {
        session::print(&format!("{:#}\n", openapi::document()))?;
        Ok(0)
    })
}
