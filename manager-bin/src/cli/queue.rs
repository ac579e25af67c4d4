//! `queue`: the state of the anonymous queue, its start and stop, and waiting for its jobs.

use std::process::ExitCode;

use jobtap_core::job::Fsd;
use serde_json::{Value, json};

use super::message::CliError;
use super::session;
use super::usage::Family;
use crate::client::Client;

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
    Status,
    /// Schedule jobs
    Start(StartArgs),
    /// Schedule no more jobs
    Stop(StopArgs),
    /// Wait until no job is active
    Drain(DrainArgs),
    /// Wait until no job runs
    Idle(IdleArgs),
}

/// Options of `queue start`.
#[derive(Debug, clap::Args)]
struct StartArgs {
    /// All queues
    #[arg(short = 'a', long)]
    all: bool,
    /// Don't show the state
    #[arg(long)]
    quiet: bool,
}

/// Options of `queue stop`.
#[derive(Debug, clap::Args)]
struct StopArgs {
    /// Why it is stopped
    #[arg(short = 'm', long, value_name = "REASON")]
    message: Option<String>,
    /// All queues
    #[arg(short = 'a', long)]
    all: bool,
    /// Don't show the state
    #[arg(long)]
    quiet: bool,
}

/// Options of `queue drain`.
#[derive(Debug, clap::Args)]
struct DrainArgs {
    /// Give up after this time
    #[arg(short = 't', long, value_name = "FSD")]
    timeout: Option<String>,
}

/// Options of `queue idle`.
#[derive(Debug, clap::Args)]
struct IdleArgs {
    /// Give up after this time
    #[arg(short = 't', long, value_name = "FSD")]
    timeout: Option<String>,
    /// Don't say that no jobs are pending
    #[arg(long)]
    quiet: bool,
}

/// Runs the command.
pub(crate) fn run(args: QueueArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Script, async |client| match args.command {
        QueueCommand::Status => {
            let status = status(&client).await?;
            session::print(&format!("{}\n{}\n", submission(&status), scheduling(&status)))?;
            Ok(0)
        }
        QueueCommand::Start(args) => change(&client, "start", None, args.all, args.quiet).await,
        QueueCommand::Stop(args) => {
            change(&client, "stop", args.message, args.all, args.quiet).await
        }
        QueueCommand::Drain(args) => {
            rest(&client, "drain", args.timeout.as_deref()).await?;
            Ok(0)
        }
        QueueCommand::Idle(args) => {
            let answer = rest(&client, "idle", args.timeout.as_deref()).await?;
            let pending = answer.get("pending").and_then(Value::as_u64).unwrap_or(0);
            if pending > 0 || !args.quiet {
                session::print(&format!("{pending} jobs\n"))?;
            }
            Ok(0)
        }
    })
}

async fn change(
    client: &Client,
    what: &str,
    reason: Option<String>,
    all: bool,
    quiet: bool,
) -> Result<u8, CliError> {
    let payload = json!({ "start": what == "start", "reason": reason, "all": all });
    client
        .rpc("job-manager.queue-start", payload)
        .await
        .map_err(|error| CliError::failure(format!("{what}: {error}")))?;
    if !quiet {
        session::print(&format!("{}\n", scheduling(&status(client).await?)))?;
    }
    Ok(0)
}

/// Waits until the manager says that its jobs have come to rest.
async fn rest(client: &Client, what: &str, timeout: Option<&str>) -> Result<Value, CliError> {
    let timeout = timeout.map(str::parse::<Fsd>).transpose();
    let timeout = timeout.map_err(|_| CliError::failure("invalid Flux standard duration"))?;
    let topic = format!("job-manager.{what}");
    let answer = client.rpc(&topic, json!({}));
    let answer = match timeout.and_then(Fsd::to_duration) {
        None => answer.await,
        Some(timeout) => tokio::time::timeout(timeout, answer)
            .await
            .map_err(|_| CliError::failure(format!("{what}: timeout")))?,
    };
    answer.map_err(|error| CliError::failure(format!("{what}: {error}")))
}

async fn status(client: &Client) -> Result<Value, CliError> {
    let answer = client.rpc("job-manager.queue-status", json!({})).await;
    answer.map_err(|error| CliError::failure(format!("status: {error}")))
}

fn submission(status: &Value) -> String {
    match status.get("enable").and_then(Value::as_bool) {
        Some(false) => {
            let reason = status.get("disable_reason").and_then(Value::as_str).unwrap_or_default();
            format!("Job submission is disabled: {reason}")
        }
        _ => "Job submission is enabled".into(),
    }
}

fn scheduling(status: &Value) -> String {
    let stopped = status.get("start").and_then(Value::as_bool) == Some(false);
    match status.get("stop_reason").and_then(Value::as_str) {
        Some(reason) if stopped => format!("Scheduling is stopped: {reason}"),
        _ if stopped => "Scheduling is stopped".into(),
        _ => "Scheduling is started".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_told_with_its_reason() {
        let status = json!({"enable": true, "start": false, "stop_reason": "repair"});
        assert_eq!(submission(&status), "Job submission is enabled");
        assert_eq!(scheduling(&status), "Scheduling is stopped: repair");
        let status = json!({"enable": false, "disable_reason": "full", "start": true});
        assert_eq!(submission(&status), "Job submission is disabled: full");
        assert_eq!(scheduling(&status), "Scheduling is started");
        assert_eq!(scheduling(&json!({"start": false})), "Scheduling is stopped");
    }
}
