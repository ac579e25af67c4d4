//! `queue`: lists queues, enables, disables, starts and stops them, and waits for their jobs.

mod change;
mod list;
mod rest;
mod row;
mod status;

use std::process::ExitCode;

use super::message::CliError;
use super::session;
use super::usage::Family;

const COMMAND: &str = "queue";

/// Arguments of `queue`.
#[derive(Debug, clap::Args)]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    command: QueueCommand,
}

/// One line per subcommand.
#[derive(Debug, clap::Subcommand)]
enum QueueCommand {
    /// Show whether jobs are accepted and scheduled
    Status(status::StatusArgs),
    /// List queues with their limits and resources
    List(list::ListArgs),
    /// Accept jobs
    Enable(change::EnableArgs),
    /// Accept no more jobs
    Disable(change::DisableArgs),
    /// Schedule jobs
    Start(change::StartArgs),
    /// Schedule no more jobs
    Stop(change::StopArgs),
    /// Wait until no job is active
    Drain(rest::DrainArgs),
    /// Wait until no job runs
    Idle(rest::IdleArgs),
}

/// The queue that a subcommand is about, in either of its spellings.
#[derive(Debug, Clone, Default, clap::Args)]
struct QueueName {
    /// This queue
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,
    /// The same, as an option
    #[arg(short = 'q', long = "queue", value_name = "NAME", hide = true)]
    option: Option<String>,
}

impl QueueName {
    fn get(&self) -> Result<Option<&str>, CliError> {
        match (&self.option, &self.queue) {
            (Some(option), Some(queue)) => Err(CliError::failure(format!(
                "Conflicting queues specified as --queue={option} and {queue}"
            ))),
            (option, queue) => Ok(option.as_deref().or(queue.as_deref())),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: QueueArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Script, async |client| match args.command {
        QueueCommand::Status(args) => status::run(&client, &args).await,
        QueueCommand::List(args) => list::run(&client, &args).await,
        QueueCommand::Enable(args) => change::enable(&client, &args).await,
        QueueCommand::Disable(args) => change::disable(&client, &args).await,
        QueueCommand::Start(args) => change::start(&client, &args).await,
        QueueCommand::Stop(args) => change::stop(&client, &args).await,
        QueueCommand::Drain(args) => rest::drain(&client, &args).await,
        QueueCommand::Idle(args) => rest::idle(&client, &args).await,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_named_once() {
        let name = |queue: Option<&str>, option: Option<&str>| {
            let (queue, option) = (queue.map(str::to_owned), option.map(str::to_owned));
            let name = QueueName { queue, option };
            name.get().map(|name| name.map(str::to_owned)).map_err(|error| error.text)
        };
        assert_eq!(name(Some("a"), None), Ok(Some("a".to_owned())));
        assert_eq!(name(None, Some("a")), Ok(Some("a".to_owned())));
        assert_eq!(name(None, None), Ok(None));
        let error = name(Some("b"), Some("a")).unwrap_err();
        assert_eq!(error, "Conflicting queues specified as --queue=a and b");
    }
}
