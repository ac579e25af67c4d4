//! `shutdown`: ends a manager, and shows its log until it has exited.

use std::path::PathBuf;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::instance::uri;
use crate::client::Client;
use crate::rpc::services::attr::Shutdown;
use crate::rpc::services::log::{Dmesg, Line};

const COMMAND: &str = "shutdown";

/// Options and arguments of `shutdown`.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
pub(crate) struct ShutdownArgs {
    /// Don't wait until the manager has exited
    #[arg(long)]
    background: bool,
    /// Show only errors and warnings of the manager
    #[arg(long, conflicts_with = "verbose")]
    quiet: bool,
    /// Show all messages of the manager
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true,
          default_missing_value = "1")]
    verbose: Option<u8>,
    /// Write all stored keys to an archive at the end
    #[arg(long, value_name = "PATH")]
    dump: Option<PathBuf>,
    /// Accepted without effect: the store needs no garbage collection
    #[arg(long)]
    gc: bool,
    /// Accepted without effect, as --gc
    #[arg(long)]
    skip_gc: bool,
    /// Accepted without effect: nothing is asked
    #[arg(short = 'y', long)]
    yes: bool,
    /// Accepted without effect: nothing is asked
    #[arg(short = 'n', long)]
    no: bool,
    /// Manager that runs as this job or has this address [default: that of the environment]
    #[arg(value_name = "TARGET")]
    target: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: ShutdownArgs) -> ExitCode {
    session::run(COMMAND, Family::Compiled, async {
        let client = match &args.target {
            None => Client::connect().await?,
            Some(target) => uri::connect_to(target).await?,
        };
        shutdown(client, &args).await
    })
}

async fn shutdown(client: Client, args: &ShutdownArgs) -> Result<u8, CliError> {
    let dump = match args.dump.as_deref() {
        Some(path) if path.as_os_str() == "auto" => {
            let text = "--dump=auto: the store needs no garbage collection: name an archive";
            return Err(CliError::failure(text));
        }
        // Absolute, since the manager has another current directory.
        path => path.map(std::path::absolute).transpose()?,
    };
    // Opened before the request, so that no line is missed.
    let mut lines = client.stream_ahead(Dmesg { nobacklog: true }).await?;
    let pid = client.call(Shutdown { dump }).await?.pid.and_then(Pid::from_raw);
    // The pidfd becomes readable when the process ends, even if its parent doesn't wait for it. An error means that the
    // process has ended already.
    let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    if args.background {
        return Ok(0);
    }
    let shown = Shown::new(args);
    // The stream ends or fails when the manager ends.
    while let Some(Ok(line)) = lines.next().await {
        for line in line.into_lines().iter().filter(|line| shown.shows(line)) {
            session::print_message(&line.text);
        }
    }
    // The manager may write the archive until it exits.
    if let Some(process) = process {
        let ended = move || poll(&mut [PollFd::new(&process, PollFlags::IN)], None);
        let _ = tokio::task::spawn_blocking(ended).await;
    }
    Ok(0)
}

/// The severities that are shown.
struct Shown(&'static [&'static str]);

impl Shown {
    fn new(args: &ShutdownArgs) -> Self {
        const SEVERITIES: &[&str] = &["emerg", "alert", "crit", "err", "warning", "notice", "info"];
        match (args.quiet, args.verbose) {
            (true, _) => Self(SEVERITIES.get(..5).unwrap_or(SEVERITIES)),
            (false, Some(_)) => Self(&[]),
            (false, None) => Self(SEVERITIES),
        }
    }

    /// Returns true for a line `SERVICE.SEVERITY[RANK]: MESSAGE` of such a severity.
    fn shows(&self, line: &Line) -> bool {
        let start = line.text.split('[').next().unwrap_or_default();
        let severity = start.rsplit('.').next().unwrap_or_default();
        self.0.is_empty() || self.0.contains(&severity)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: ShutdownArgs,
    }

    #[test]
    fn the_options_select_the_severities_of_messages() {
        let shows = |words: &[&str]| {
            let words = [&["shutdown"], words].concat();
            let shown = Shown::new(&Command::try_parse_from(words).unwrap().args);
            ["err", "warning", "info", "debug"].map(|severity| {
                let text = format!("job-manager.{severity}[0]: a.b[1]: text");
                shown.shows(&Line { text, ..Line::default() })
            })
        };
        assert_eq!(shows(&[]), [true, true, true, false]);
        assert_eq!(shows(&["--quiet"]), [true, true, false, false]);
        assert_eq!(shows(&["--verbose"]), [true; 4]);
        assert_eq!(shows(&["--verb=2"]), [true; 4]);
    }
}
