//! `job why`: what a job waits for, and on whom. Flux has no such command.

use serde_json::{Value, json};

use super::target::Target;
use crate::cli::ids::IdStyle;
use crate::cli::message::CliError;
use crate::cli::session;
use crate::client::Client;
use crate::shown;

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
            Ok(answer) => {
                session::print(&lines(&target.typed, &answer, IdStyle::current()))?;
            }
            Err(error) => {
                super::say(format!("{}: {error}", target.typed));
                failed = true;
            }
        }
    }
    super::any_failed(failed)
}

/// A line for each reason; the ids in it, which are the manager's, in our style.
fn lines(id: &str, answer: &Value, style: IdStyle) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let state = text(answer.get("state"));
    let reasons = answer.get("reasons").and_then(Value::as_array);
    let line = |reason: &Value| {
        let reason = text(reason.get("text"));
        format!("{id}: {state}: {}\n", shown::in_line(&reason))
    };
    let lines: String = reasons.into_iter().flatten().map(line).collect();
    match style {
        IdStyle::Unicode => lines,
        IdStyle::Ascii => lines.replace('ƒ', "f"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_a_line_with_job_and_state() {
        let reasons =
            json!([{"kind": "held", "text": "it is held"}, {"kind": "queue", "text": "x"}]);
        let answer = json!({"id": 1, "state": "SCHED", "reasons": reasons});
        let lines = |answer| lines("f1", &answer, IdStyle::Ascii);
        assert_eq!(lines(answer), "f1: SCHED: it is held\nf1: SCHED: x\n");
        let other = json!({"state": "SCHED", "reasons": [{"text": "held by ƒ2"}]});
        assert_eq!(lines(other), "f1: SCHED: held by f2\n");
    }
}
