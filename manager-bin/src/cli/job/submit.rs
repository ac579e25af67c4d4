//! `job submit`: submits a jobspec from a file or standard input.

use jobtap_core::job::Flags;
use serde_json::Value;

use super::several::COMMAND;
use crate::cli::common::ids::show_id;
use crate::cli::common::message::{CliError, system_text};
use crate::cli::common::session;
use crate::client::Client;
use crate::files::input;
use crate::rpc::services::ingest::{Submit, Submitted};

/// The flag of a jobspec that is already signed. Only this command knows it; the service has no such flag.
const SIGNED: &str = "signed";

/// Options and arguments of `job submit`.
#[derive(Debug, clap::Args)]
pub(super) struct JobSubmitArgs {
    /// Urgency of the job, 0 to 31
    #[arg(
        short = 'u',
        long,
        value_name = "N",
        default_value_t = 16,
        allow_negative_numbers = true
    )]
    urgency: i64,
    /// Comma-separated list of debug, waitable, signed, novalidate
    #[arg(short = 'f', long, value_name = "FLAGS")]
    flags: Vec<String>,
    /// File with the jobspec; "-" or no file reads stdin
    #[arg(value_name = "FILE")]
    file: Option<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &JobSubmitArgs) -> Result<u8, CliError> {
    let (flags, signed) = flags(&args.flags)?;
    let text = read(args.file.as_deref())?;
    if text.is_empty() {
        return Err(CliError::failure("required jobspec is empty"));
    }
    let (signed, jobspec) =
        if signed { (Some(text), None) } else { (None, Some(Value::from(text).into())) };
    let request =
        Submit { jobspec, signed, urgency: Some(args.urgency), flags: Some(flags.bits()) };
    let Submitted { id, messages } =
        session::print_refusal_messages(COMMAND, client.call(request).await)?;
    session::print_plugin_messages(COMMAND, &messages);
    session::print(&format!("{}\n", show_id(id)))?;
    Ok(0)
}

fn flags(lists: &[String]) -> Result<(Flags, bool), CliError> {
    let (mut flags, mut signed) = (Flags::NONE, false);
    for word in lists.iter().flat_map(|list| list.split(',')) {
        match word {
            SIGNED => signed = true,
            word => {
                let unknown = |_| CliError::failure(format!("unknown flag: {word}"));
                flags |= word.parse().map_err(unknown)?;
            }
        }
    }
    Ok((flags, signed))
}

fn read(file: Option<&str>) -> Result<String, CliError> {
    match file {
        None | Some("-") => Ok(input::stdin_text()?),
        Some(path) => input::text(path)
            .map_err(|error| CliError::failure(format!("{path}: {}", system_text(&error)))),
    }
}
