//! `job why`: prints what a job waits for. Flux has no such command.

use super::target::Target;
use crate::cli::ids::IdStyle;
use crate::cli::message::CliError;
use crate::cli::session;
use crate::client::Client;
use crate::rpc::services::job_manager::{Reason, Reasons, Why};
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
        let request = Why { id: target.id };
        let text = if args.json {
            client.call_raw(request).await.map(|answer| format!("{answer}\n"))
        } else {
            let answer = client.call(request).await;
            answer.map(|answer| lines(&target.typed, &answer, IdStyle::current()))
        };
        match text {
            Ok(text) => session::print(&text)?,
            Err(error) => {
                super::say(format!("{}: {error}", target.typed));
                failed = true;
            }
        }
    }
    super::any_failed(failed)
}

/// A line for each reason, with job ids in the style of this command's environment.
fn lines(id: &str, answer: &Reasons, style: IdStyle) -> String {
    let state = &answer.state;
    let line = |reason: &Reason| format!("{id}: {state}: {}\n", shown::in_line(&reason.text));
    let lines: String = answer.reasons.iter().map(line).collect();
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
        let lines = |texts: &[&str]| {
            let reason = |text: &&str| Reason { kind: "x".to_owned(), text: (*text).to_owned() };
            let reasons = texts.iter().map(reason).collect();
            lines("f1", &Reasons { state: "SCHED".to_owned(), reasons }, IdStyle::Ascii)
        };
        assert_eq!(lines(&["it is held", "x"]), "f1: SCHED: it is held\nf1: SCHED: x\n");
        assert_eq!(lines(&["held by ƒ2"]), "f1: SCHED: held by f2\n");
    }
}
