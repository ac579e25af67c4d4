//! `job timeleft`: prints the time until a running job expires.

use std::time::SystemTime;

use jobtap_core::job::Fsd;
use serde_json::Value;

use crate::cli::ids::Target;
use crate::cli::message::CliError;
use crate::cli::session;
use crate::client::Client;
use crate::rpc::services::job_list::ListId;

/// The number that stands for a job without time limit, as in Flux.
const UNLIMITED: u32 = u32::MAX;

/// Options and arguments of `job timeleft`.
#[derive(Debug, clap::Args)]
pub(super) struct TimeleftArgs {
    /// Print the time with a unit (FSD)
    #[arg(short = 'H', long)]
    human: bool,
    /// Job id; by default the job that this command is part of
    #[arg(value_name = "JOBID")]
    id: Option<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &TimeleftArgs) -> Result<u8, CliError> {
    // Jobs of Flux itself have only the second variable.
    let own = || std::env::var("JOBTAP_JOB_ID").or_else(|_| std::env::var("FLUX_JOB_ID")).ok();
    let left = match args.id.clone().or_else(own) {
        Some(id) => of_job(client, &Target::parse(&id)?).await?,
        None => None,
    };
    let text = match (left, args.human) {
        (None, true) => "infinity".to_owned(),
        (None, false) => UNLIMITED.to_string(),
        (Some(left), true) => Fsd::from_secs(left).unwrap_or(Fsd::ZERO).to_string(),
        // Rounds down, but to 0 only if no time is left.
        (Some(left), false) => left.floor().max(f64::from(u8::from(left > 0.0))).to_string(),
    };
    session::print(&format!("{text}\n"))?;
    Ok(0)
}

/// The time left in seconds; `None` without time limit.
async fn of_job(client: &Client, target: &Target) -> Result<Option<f64>, CliError> {
    let request = ListId { id: target.id, attrs: &["state", "expiration"] };
    let response = client.call(request).await;
    let response =
        response.map_err(|error| CliError::failure(format!("{}: {error}", target.typed)))?;
    let number = |key| response.job.get(key).and_then(Value::as_f64);
    if number("state") != Some(f64::from(jobtap_core::job::State::Run.value())) {
        return Err(CliError::failure(format!("{}: job is not running", target.typed)));
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let expiration = number("expiration").filter(|expiration| *expiration > 0.0);
    Ok(expiration.map(|expiration| (expiration - now.as_secs_f64()).max(0.0)))
}
