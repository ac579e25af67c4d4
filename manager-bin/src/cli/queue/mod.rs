//! `queue`: lists queues, enables, disables, starts and stops them, and waits for their jobs.

mod change;
mod list;
mod row;
mod status;
mod wait;

use std::process::ExitCode;

use super::common::message::CliError;
use super::common::session;
use super::common::usage::Family;

const COMMAND: &str = "queue";

/// Arguments of `queue`.
#[derive(Debug, clap::Args)]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    command: QueueCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum QueueCommand {
    /// Show whether queues are enabled and started
    Status(status::StatusArgs),
    /// List queues with their limits and resources
    List(list::ListArgs),
    /// Enable the submission of jobs
    Enable(change::EnableArgs),
    /// Disable the submission of jobs
    Disable(change::DisableArgs),
    /// Start the scheduling of jobs
    Start(change::StartArgs),
    /// Stop the scheduling of jobs
    Stop(change::StopArgs),
    /// Wait until no jobs are active
    Drain(wait::DrainArgs),
    /// Wait until no jobs are running
    Idle(wait::IdleArgs),
}

/// The queue to which a subcommand applies, given as an argument or as an option.
#[derive(Debug, Clone, Default, clap::Args)]
struct QueueName {
    /// Name of the queue
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,
    /// Name of the queue
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
        QueueCommand::Drain(args) => wait::drain(&client, &args).await,
        QueueCommand::Idle(args) => wait::idle(&client, &args).await,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_and_option_must_not_both_name_a_queue() {
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
