//! `job timeleft`: prints the time until a job expires, or until the instance does.

use jobtap_core::job::{Fsd, State};
use serde_json::Value;

use crate::cli::common::ids::Target;
use crate::cli::common::message::CliError;
use crate::cli::common::resources::resources;
use crate::cli::common::session;
use crate::cli::common::when::now;
use crate::client::Client;
use crate::rpc::errno::ENOENT;
use crate::rpc::services::job_list::ListId;
use crate::rpc::services::resource::GetSchedStatus;

/// The number that stands for a job without time limit, as in Flux.
const UNLIMITED: u32 = u32::MAX;

/// Options and arguments of `job timeleft`.
#[derive(Debug, clap::Args)]
pub(super) struct TimeleftArgs {
    /// Print the time with a unit (FSD)
    #[arg(short = 'H', long)]
    human: bool,
    /// Job id; by default the job that this command is part of, or else the instance
    #[arg(value_name = "JOBID")]
    id: Option<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &TimeleftArgs) -> Result<u8, CliError> {
    // Jobs of Flux itself have only the second variable.
    let own = || std::env::var("JOBTAP_JOB_ID").or_else(|_| std::env::var("FLUX_JOB_ID")).ok();
    let left = match args.id.clone().or_else(own) {
        Some(id) => {
            let invalid = |_| CliError::failure(format!("failed to parse jobid {id}"));
            of_job(client, &Target::parse(&id).map_err(invalid)?).await?
        }
        None => of_instance(client).await?,
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
    let response = response.map_err(|error| {
        let why =
            if error.errno == ENOENT { "no such jobid".to_owned() } else { error.to_string() };
        CliError::failure(format!("{}: {why}", target.typed))
    })?;
    let number = |key| response.job.get(key).and_then(Value::as_f64);
    let is_in = |state: State| number("state") == Some(f64::from(state.value()));
    if is_in(State::Cleanup) || is_in(State::Inactive) {
        return Ok(Some(0.0));
    }
    if !is_in(State::Run) {
        return Err(CliError::failure(format!("job {} has not started", target.typed)));
    }
    match number("expiration").filter(|expiration| *expiration > 0.0) {
        Some(expiration) => Ok(Some(until(expiration))),
        // A job without its own time limit ends with the instance.
        None => of_instance(client).await,
    }
}

/// The time until the resources of the instance expire. An instance that runs as a job expires with that job.
async fn of_instance(client: &Client) -> Result<Option<f64>, CliError> {
    let status = client.call(GetSchedStatus {}).await?;
    Ok(resources("all", &status.all)?.expiration().map(until))
}

/// The time until a point in time, in seconds. 0 if it has passed.
fn until(time: f64) -> f64 {
    (time - now()).max(0.0)
}
