//! `queue status`, and the lines about queues that other subcommands print too.

use serde_json::{Value, json};

use super::super::message::CliError;
use super::super::session;
use super::QueueName;
use crate::client::Client;
use crate::shown;

/// Options of `queue status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    name: QueueName,
    /// Count requests for resources and running jobs too
    #[arg(short = 'v', long)]
    verbose: bool,
}

/// What is shown of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    pub(super) submission: bool,
    pub(super) scheduling: bool,
    /// The counts after all queues.
    pub(super) counts: bool,
}

/// Runs `queue status`.
pub(super) async fn run(client: &Client, args: &StatusArgs) -> Result<u8, CliError> {
    let shown = Shown { submission: true, scheduling: true, counts: args.verbose };
    show(client, args.name.get()?, shown).await?;
    Ok(0)
}

/// Prints the lines of one queue, or of all.
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
        text += &counts(&ask(client, "job-manager.alloc-query", json!({})).await?);
    }
    session::print(&text)
}

/// The names of all queues; none for the anonymous one.
pub(super) async fn names(client: &Client) -> Result<Vec<String>, CliError> {
    let answer = ask(client, "job-manager.queue-list", json!({})).await?;
    let names = answer.get("queues").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    Ok(names.map(str::to_owned).collect())
}

async fn status(client: &Client, name: Option<&str>) -> Result<Value, CliError> {
    let payload = name.map_or_else(|| json!({}), |name| json!({ "name": name }));
    ask(client, "job-manager.queue-status", payload).await
}

async fn ask(client: &Client, topic: &str, payload: Value) -> Result<Value, CliError> {
    let answer = client.rpc(topic, payload).await;
    answer.map_err(|error| CliError::failure(format!("status: {error}")))
}

fn lines(name: Option<&str>, status: &Value, shown: Shown) -> String {
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

fn submission(status: &Value) -> String {
    match status.get("enable").and_then(Value::as_bool) {
        Some(false) => {
            let reason = status.get("disable_reason").and_then(Value::as_str).unwrap_or_default();
            format!("Job submission is disabled: {}", shown::in_line(reason))
        }
        _ => "Job submission is enabled".into(),
    }
}

fn scheduling(status: &Value) -> String {
    let stopped = status.get("start").and_then(Value::as_bool) == Some(false);
    match status.get("stop_reason").and_then(Value::as_str) {
        Some(reason) if stopped => {
            format!("Scheduling is stopped: {}", shown::in_line(reason))
        }
        _ if stopped => "Scheduling is stopped".into(),
        _ => "Scheduling is started".into(),
    }
}

fn counts(answer: &Value) -> String {
    let number = |key: &str| answer.get(key).and_then(Value::as_u64).unwrap_or(0);
    format!(
        "{} alloc requests queued\n{} alloc requests pending to scheduler\n{} running jobs\n",
        number("queue_length"),
        number("alloc_pending"),
        number("running"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Shown = Shown { submission: true, scheduling: true, counts: false };

    #[test]
    fn the_state_is_told_with_its_reason() {
        let status = json!({"enable": true, "start": false, "stop_reason": "repair"});
        assert_eq!(
            lines(None, &status, ALL),
            "Job submission is enabled\nScheduling is stopped: repair\n"
        );
        let status = json!({"enable": false, "disable_reason": "full", "start": true});
        assert_eq!(
            lines(Some("a"), &status, ALL),
            "a: Job submission is disabled: full\na: Scheduling is started\n"
        );
        assert_eq!(scheduling(&json!({"start": false})), "Scheduling is stopped");
    }

    #[test]
    fn the_counts_are_those_of_flux() {
        let answer = json!({"queue_length": 1, "alloc_pending": 2, "running": 3});
        assert_eq!(
            counts(&answer),
            "1 alloc requests queued\n2 alloc requests pending to scheduler\n3 running jobs\n"
        );
    }
}
