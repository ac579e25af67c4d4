//! `job why`: what a job waits for, and on whom. Flux has no such command.

use serde_json::{Value, json};

use super::target::Target;
use crate::cli::message::CliError;
use crate::cli::session;
use crate::client::Client;

/// Options and arguments of `job why`.
#[derive(Debug, clap::Args)]
pub(super) struct WhyArgs {
    /// Print the manager's answer as JSON, a line a job
    #[arg(long)]
    json: bool,
    /// The jobs
    #[arg(value_name = "JOBID", required = true)]
    ids: Vec<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &WhyArgs) -> Result<u8, CliError> {
    let mut failed = false;
    for id in &args.ids {
        let target = Target::parse(id)?;
        match client.rpc("job-manager.why", json!({ "id": target.id })).await {
            Ok(answer) if args.json => session::print(&format!("{answer}\n"))?,
            Ok(answer) => session::print(&lines(&target.typed, &answer))?,
            Err(error) => {
                super::say(format!("{}: {error}", target.typed));
                failed = true;
            }
        }
    }
    super::any_failed(failed)
}

/// A line for each reason.
fn lines(id: &str, answer: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let state = text(answer.get("state"));
    let reasons = answer.get("reasons").and_then(Value::as_array);
    let line = |reason: &Value| format!("{id}: {state}: {}\n", text(reason.get("text")));
    reasons.into_iter().flatten().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_a_line_with_job_and_state() {
        let reasons =
            json!([{"kind": "held", "text": "it is held"}, {"kind": "queue", "text": "x"}]);
        let answer = json!({"id": 1, "state": "SCHED", "reasons": reasons});
        assert_eq!(lines("f1", &answer), "f1: SCHED: it is held\nf1: SCHED: x\n");
    }
}
