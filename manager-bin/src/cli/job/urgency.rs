//! `job urgency`: changes a job's urgency.

use jobtap_core::job::Urgency;
use serde_json::{Value, json};

use super::target::Target;
use crate::cli::message::CliError;
use crate::cli::session;
use crate::client::Client;

/// Options and arguments of `job urgency`.
#[derive(Debug, clap::Args)]
pub(super) struct UrgencyArgs {
    /// Print the urgency before
    #[arg(short = 'v', long)]
    verbose: bool,
    /// The job
    #[arg(value_name = "JOBID")]
    id: String,
    /// 0 to 31, hold, default or expedite
    #[arg(value_name = "URGENCY", allow_negative_numbers = true)]
    urgency: String,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &UrgencyArgs) -> Result<u8, CliError> {
    let target = Target::parse(&args.id)?;
    let urgency = parse(&args.urgency)?;
    let payload = json!({ "id": target.id, "urgency": urgency });
    let answer = client
        .rpc("job-manager.urgency", payload)
        .await
        .map_err(|error| CliError::failure(format!("{}: {error}", target.typed)))?;
    if args.verbose
        && let Some(old) = answer.get("old_urgency").and_then(Value::as_i64)
    {
        session::note(&format!("old urgency: {}", describe(old)));
    }
    Ok(0)
}

fn parse(text: &str) -> Result<i64, CliError> {
    let known = match text.to_ascii_lowercase().as_str() {
        "hold" => Urgency::HOLD,
        "default" => Urgency::DEFAULT,
        "expedite" => Urgency::EXPEDITE,
        // Its range is the manager's to check.
        _ => {
            let bad = |_| CliError::failure(format!("error parsing urgency: \"{text}\""));
            return text.parse().map_err(bad);
        }
    };
    Ok(known.value().into())
}

fn describe(urgency: i64) -> String {
    if urgency == i64::from(Urgency::HOLD.value()) {
        "job held".into()
    } else if urgency == i64::from(Urgency::EXPEDITE.value()) {
        "job expedited".into()
    } else {
        urgency.to_string()
    }
}
