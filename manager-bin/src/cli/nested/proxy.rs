//! `proxy`: runs a command whose commands go to another manager, such as one that runs as a job.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitCode;

use crate::cli::common::message::{CliError, system_text};
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::instance::attr::RANK;
use crate::cli::instance::uri::{connect, from_here};
use crate::rpc::uri;

const COMMAND: &str = "proxy";

/// Options and arguments of `proxy`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ProxyArgs {
    /// The manager: a job id, a path of job ids, pid:PID or local://PATH, as for uri
    #[arg(value_name = "TARGET")]
    target: String,
    /// Command to run [default: a shell]
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Runs the command. The exit code is that of COMMAND.
pub(in crate::cli) fn run(args: ProxyArgs) -> ExitCode {
    session::run(COMMAND, Family::Compiled, async {
        let address = from_here(&args.target).await?;
        // Checked before the command starts: its commands would each fail with the same message.
        drop(connect(&address).await?);
        let words = match args.command {
            words if words.is_empty() => {
                vec![std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())]
            }
            words => words,
        };
        run_with(&address, &words).await
    })
}

async fn run_with(address: &str, words: &[OsString]) -> Result<u8, CliError> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(CliError::failure("no command"));
    };
    let mut command = tokio::process::Command::new(program);
    command.args(arguments);
    command.env(uri::VARIABLE, address).env(uri::FLUX_VARIABLE, address);
    // The rank belongs to the manager that this process is a task of, not to the other one.
    command.env_remove(RANK);
    // The terminal also sends Ctrl-C to the command, so this process ignores it and ends when the command does.
    let _interrupts = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
    let _quits = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::quit())?;
    let status = command.status().await.map_err(|error| {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        let text = format!("{}: {}", Path::new(program).display(), system_text(&error));
        CliError { text, code: if missing { 127 } else { 126 } }
    })?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
