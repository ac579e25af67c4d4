//! `slurm`: for sites that come from Slurm.

mod attempt;
mod changes;
mod explain;
#[cfg(feature = "fuzz")]
pub(in crate::cli) mod foreign;
mod sources;
mod uses;
mod walk;

use std::process::ExitCode;
use std::time::Duration;

use jobtap_builtins::lua::kill_commands;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::slurm_commands::install;
use crate::users;

const COMMAND: &str = "slurm";

/// Options and arguments of `slurm`.
#[derive(Debug, clap::Args)]
pub(crate) struct SlurmArgs {
    #[command(subcommand)]
    command: SlurmCommand,
}

/// The commands of `slurm`. Their doc comments are the help texts.
#[derive(Debug, clap::Subcommand)]
enum SlurmCommand {
    /// Say what a job_submit.lua uses, and how it is served here
    Explain(explain::ExplainArgs),
    /// Write commands with Slurm's names, which call this program, into a directory for PATH
    Install(install::InstallArgs),
    /// Run a job_submit.lua on a described job, and print what it did
    Try(attempt::TryArgs),
}

/// Runs the command. The exit code is 1 if the script uses something that is not served, or refuses the job.
pub(crate) fn run(args: SlurmArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        let (text, good) = match args.command {
            SlurmCommand::Explain(args) => {
                let options = explain::options(&args).await?;
                explain::explain(&args, &options)?
            }
            SlurmCommand::Install(args) => (install::install(&args)?, true),
            SlurmCommand::Try(args) => {
                let requester = users::requester(args.uid()).await;
                let file = args.file().display().to_string();
                uninterrupted(&file, move || attempt::attempt(&args, requester)).await?
            }
        };
        session::print(&text)?;
        Ok(u8::from(!good))
    })
}

/// How long a script may take to load and to respond: longer than its time limits. A script that still runs then hangs
/// where no limit applies, and the manager would refuse the request as well.
const LONGEST: Duration = Duration::from_secs(30);

/// Runs a script on a thread. If SIGINT or SIGTERM ends the command, kills the programs that the script runs: they
/// aren't in the terminal's process group, and would continue. A thread that hangs isn't joined.
async fn uninterrupted<T: Send + 'static>(
    file: &str,
    run: impl FnOnce() -> Result<T, CliError> + Send + 'static,
) -> Result<T, CliError> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let ended = |signal: u8| {
        kill_commands();
        Err(CliError { text: String::new(), code: 128 + signal })
    };
    tokio::select! {
        _ = interrupt.recv() => ended(2),
        _ = terminate.recv() => ended(15),
        done = tokio::task::spawn_blocking(run) => done.map_err(CliError::failure)?,
        () = tokio::time::sleep(LONGEST) => {
            kill_commands();
            let seconds = LONGEST.as_secs();
            let text = format!("{file}: the script doesn't end within {seconds} s, and no limit stops it: it is refused");
            Err(CliError::failure(text))
        }
    }
}
