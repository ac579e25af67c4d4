//! `job urgency`: changes a job's urgency.

use jobtap_core::job::Urgency;

use super::several::COMMAND;
use crate::cli::common::arrays;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::Client;
use crate::rpc::services::job_manager::SetUrgency;

/// Options and arguments of `job urgency`.
#[derive(Debug, clap::Args)]
pub(super) struct UrgencyArgs {
    /// Print the previous urgency
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Job id
    #[arg(value_name = "JOBID")]
    id: String,
    /// New urgency: 0 to 31, hold, default or expedite
    #[arg(value_name = "URGENCY", allow_negative_numbers = true)]
    urgency: String,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &UrgencyArgs) -> Result<u8, CliError> {
    let target = arrays::target(&args.id, client).await?;
    let urgency = parse(&args.urgency)?;
    let response = client.call(SetUrgency { id: target.id, urgency }).await;
    let response = session::print_refusal_messages(COMMAND, response)
        .map_err(|error| CliError::failure(format!("{}: {error}", target.typed)))?;
    session::print_plugin_messages(COMMAND, &response.messages);
    if args.verbose
        && let Some(old) = response.old_urgency
    {
        session::print_message(&format!("old urgency: {}", describe(old)));
    }
    Ok(0)
}

fn parse(text: &str) -> Result<i64, CliError> {
    let known = match text.to_ascii_lowercase().as_str() {
        "hold" => Urgency::HOLD,
        "default" => Urgency::DEFAULT,
        "expedite" => Urgency::EXPEDITE,
        // The manager checks the range.
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
