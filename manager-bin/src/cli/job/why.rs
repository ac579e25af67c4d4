//! `job why`: prints the reasons why a job is pending. Flux has no such command.

use super::several::{any_failed, print_message};
use crate::cli::common::arrays;
use crate::cli::common::ids::IdStyle;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::Client;
use crate::rpc::services::job_manager::{Reason, Reasons, Why};
use crate::shown;

/// Options and arguments of `job why`.
#[derive(Debug, clap::Args)]
pub(super) struct WhyArgs {
    /// Print the manager's response as JSON, one line for each job
    #[arg(long)]
    json: bool,
    /// Job ids
    #[arg(value_name = "JOBID", required = true)]
    ids: Vec<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &WhyArgs) -> Result<u8, CliError> {
    let mut failed = false;
    for id in &args.ids {
        let target = arrays::target(id, client).await?;
        let request = Why { id: target.id };
        let text = if args.json {
            client.call_raw(request).await.map(|response| format!("{response}\n"))
        } else {
            let response = client.call(request).await;
            response.map(|response| lines(&target.typed, &response, IdStyle::current()))
        };
        match text {
            Ok(text) => session::print(&text)?,
            Err(error) => {
                print_message(format!("{}: {error}", target.typed));
                failed = true;
            }
        }
    }
    any_failed(failed)
}

/// A line for each reason. The manager writes job ids with `ƒ`, which the ASCII style replaces.
fn lines(id: &str, response: &Reasons, style: IdStyle) -> String {
    let state = &response.state;
    let line = |reason: &Reason| format!("{id}: {state}: {}\n", shown::in_line(&reason.text));
    let lines: String = response.reasons.iter().map(line).collect();
    match style {
        IdStyle::Unicode => lines,
        IdStyle::Ascii => lines.replace('ƒ', "f"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_a_line_with_id_and_state() {
        let lines = |texts: &[&str]| {
            let reason = |text: &&str| Reason { kind: "x".to_owned(), text: (*text).to_owned() };
            let reasons = texts.iter().map(reason).collect();
            lines("f1", &Reasons { state: "SCHED".to_owned(), reasons }, IdStyle::Ascii)
        };
        assert_eq!(lines(&["it is held", "x"]), "f1: SCHED: it is held\nf1: SCHED: x\n");
        assert_eq!(lines(&["held by ƒ2"]), "f1: SCHED: held by f2\n");
    }
}
