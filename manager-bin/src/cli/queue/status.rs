//! `queue status`, and the lines about the state of queues that other subcommands print as well.

use super::name::QueueName;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::Client;
use crate::rpc::service::Service;
use crate::rpc::services::queue::{AllocQuery, Counts, GetStatus, List, Status};
use crate::shown;

/// Options of `queue status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    name: QueueName,
    /// Show all queues, and the numbers of alloc requests and running jobs
    #[arg(short = 'v', long)]
    verbose: bool,
}

/// Which lines are printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    pub(super) submission: bool,
    pub(super) scheduling: bool,
    /// The numbers of alloc requests and running jobs, after the lines of all queues.
    pub(super) counts: bool,
}

/// Runs `queue status`.
pub(super) async fn run(client: &Client, args: &StatusArgs) -> Result<u8, CliError> {
    let shown = Shown { submission: true, scheduling: true, counts: args.verbose };
    // As in Flux, the counts are those of all queues, so all queues are shown.
    let name = args.name.get()?.filter(|_| !args.verbose);
    show(client, name, shown).await?;
    Ok(0)
}

/// Prints the lines of the queue `name`, or of all queues.
pub(super) async fn show(
    client: &Client,
    name: Option<&str>,
    shown: Shown,
) -> Result<(), CliError> {
    let mut text = String::new();
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => names(client).await?,
    };
    if names.is_empty() {
        text += &lines(None, &status(client, None).await?, shown);
    }
    for name in &names {
        text += &lines(Some(name), &status(client, Some(name)).await?, shown);
    }
    if shown.counts {
        text += &counts(call(client, AllocQuery {}).await?);
    }
    session::print(&text)
}

/// The names of all queues. Empty if there is only the anonymous queue.
pub(super) async fn names(client: &Client) -> Result<Vec<String>, CliError> {
    Ok(call(client, List {}).await?.queues)
}

async fn status(client: &Client, name: Option<&str>) -> Result<Status, CliError> {
    call(client, GetStatus { name: name.map(str::to_owned) }).await
}

async fn call<S: Service>(client: &Client, request: S) -> Result<S::Response, CliError> {
    let response = client.call(request).await;
    response.map_err(|error| CliError::failure(format!("status: {error}")))
}

fn lines(name: Option<&str>, status: &Status, shown: Shown) -> String {
    let prefix = name.map(|name| format!("{name}: ")).unwrap_or_default();
    let mut text = String::new();
    for (line, wanted) in
        [(submission(status), shown.submission), (scheduling(status), shown.scheduling)]
    {
        if wanted {
            text += &format!("{prefix}{line}\n");
        }
    }
    text
}

fn submission(status: &Status) -> String {
    match status.enable {
        Some(false) => {
            let reason = status.disable_reason.as_deref().unwrap_or_default();
            format!("Job submission is disabled: {}", shown::in_line(reason))
        }
        _ => "Job submission is enabled".into(),
    }
}

fn scheduling(status: &Status) -> String {
    let stopped = status.start == Some(false);
    match status.stop_reason.as_deref() {
        Some(reason) if stopped => {
            format!("Scheduling is stopped: {}", shown::in_line(reason))
        }
        _ if stopped => "Scheduling is stopped".into(),
        _ => "Scheduling is started".into(),
    }
}

fn counts(counts: Counts) -> String {
    let Counts { queue_length, alloc_pending, running } = counts;
    format!(
        "{queue_length} alloc requests queued\n\
         {alloc_pending} alloc requests pending to scheduler\n{running} running jobs\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Shown = Shown { submission: true, scheduling: true, counts: false };

    #[test]
    fn the_state_is_printed_with_its_reason() {
        let reason = |text: &str| Some(text.to_owned());
        let (enable, start) = (Some(true), Some(false));
        let stop_reason = reason("repair");
        let status = Status { enable, start, stop_reason, ..Status::default() };
        assert_eq!(
            lines(None, &status, ALL),
            "Job submission is enabled\nScheduling is stopped: repair\n"
        );
        let (enable, start) = (Some(false), Some(true));
        let disable_reason = reason("full");
        let status = Status { enable, start, disable_reason, ..Status::default() };
        assert_eq!(
            lines(Some("a"), &status, ALL),
            "a: Job submission is disabled: full\na: Scheduling is started\n"
        );
        let stopped = Status { start: Some(false), ..Status::default() };
        assert_eq!(scheduling(&stopped), "Scheduling is stopped");
    }

    #[test]
    fn the_counts_are_printed_as_in_flux() {
        assert_eq!(
            counts(Counts { queue_length: 1, alloc_pending: 2, running: 3 }),
            "1 alloc requests queued\n2 alloc requests pending to scheduler\n3 running jobs\n"
        );
    }
}
