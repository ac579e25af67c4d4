//! `logger`: adds a message to the manager's log, as scripts of administrators do.

use std::process::ExitCode;

use super::attr;
use crate::cli::common::message::{CliError, Prog};
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::rpc::errno::EPERM;
use crate::rpc::services::log::{Append, Severity};

const COMMAND: &str = "logger";

/// Options and arguments of `logger`.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
pub(crate) struct LoggerArgs {
    /// Severity: emerg, alert, crit, err, warning, notice, info or debug
    #[arg(short = 's', long, value_name = "SEVERITY", default_value = "notice")]
    severity: String,
    /// Name in front of the message
    #[arg(short = 'n', long, value_name = "NAME", default_value = COMMAND)]
    appname: String,
    /// The message
    #[arg(value_name = "MESSAGE")]
    message: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: LoggerArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Compiled, async |client| {
        let severity = Severity::ALL.into_iter().find(|known| known.name() == args.severity);
        let severity = severity.ok_or_else(|| {
            let all = Severity::ALL.map(Severity::name).join("|");
            CliError::failure(format!("invalid severity: Use {all}"))
        })?;
        let rank = attr::value(&client, "rank".to_owned()).await?.parse().unwrap_or_default();
        let text = args.message.join(" ");
        match client.call(Append { appname: args.appname, severity, rank, text }).await {
            // As in Flux, a refused message doesn't make a script fail.
            Err(refused) if refused.errno == EPERM => {
                session::print_message(&Prog::current().plain(COMMAND, refused));
                Ok(0)
            }
            other => other.map(|_| 0).map_err(CliError::from),
        }
    })
}
