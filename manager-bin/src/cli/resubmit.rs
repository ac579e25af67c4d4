//! `resubmit`: submits jobs again, with the request that has submitted them. Of a job array, all elements or those that have
//! not completed, as an array with the same indexes.

use std::process::ExitCode;

use jobtap_core::array::Elements;
use jobtap_core::job::{JobId, JobResult, Urgency};
use jobtap_core::jobspec::path;
use jobtap_core::resource::Idset;
use serde_json::Value;

use super::common::arrays::Named;
use super::common::ids::show_id;
use super::common::message::{CliError, plural};
use super::common::session;
use super::common::usage::Family;
use super::submit::values::time_limit;
use crate::client::Client;
use crate::rpc::errno::ENOENT;
use crate::rpc::services::ingest::{Submit, SubmitArray, Submitted};
use crate::rpc::services::job_info::Lookup;
use crate::rpc::services::job_list::{Array, GetArray, ListId};
use crate::store::request;

const COMMAND: &str = "resubmit";

/// Options and arguments of `resubmit`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The new job has the command, the environment and the options of the old one, and no dependencies, since the jobs that\n\
they name may be gone.")]
pub(crate) struct ResubmitArgs {
    /// Only jobs, and elements of arrays, that have failed or have reached their time limit
    #[arg(long)]
    failed: bool,
    /// With --failed: those that were canceled, too
    #[arg(long, requires = "failed")]
    canceled: bool,
    /// The new time limit: minutes, or a number with s, m, h or d; 0 for none
    #[arg(short = 't', long, value_name = "MIN|FSD", allow_negative_numbers = true)]
    time_limit: Option<String>,
    /// Only print what would be submitted
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Job ids. The id of a job array means all of its elements, ID[3] and ID[1-4,7] some of them
    #[arg(value_name = "JOBID", required = true)]
    ids: Vec<Named>,
}

/// Runs the command.
pub(crate) fn run(args: ResubmitArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        let client = Client::connect().await?;
        let limit = args.time_limit.as_deref().map(time_limit).transpose()?;
        let mut code = 0;
        for named in &args.ids {
            if let Err(error) = resubmit(&client, &args, named, limit).await {
                let text = format!("{named}: {}", error.text);
                session::print_error(COMMAND, Family::Script, &text);
                code = 1;
            }
        }
        Ok(code)
    })
}

/// Submits again what a word names.
async fn resubmit(
    client: &Client,
    args: &ResubmitArgs,
    named: &Named,
    limit: Option<f64>,
) -> Result<(), CliError> {
    let submitted = match client.call(GetArray { id: named.id }).await {
        Ok(array) => {
            let indexes = chosen(args, named, &array);
            if indexes.is_empty() {
                return nothing(named);
            }
            let request = of_array(client, &array, &indexes, limit).await?;
            let count = plural(request.elements.len() as u64, "element");
            if args.dry_run {
                return session::print(&format!("{named}: {count}: {indexes}\n"));
            }
            client.call(request).await?
        }
        Err(error) if error.errno == ENOENT => {
            let job =
                client.call(ListId { id: named.id, attrs: &["result", "urgency"] }).await?.job;
            if !is_chosen(args, result(&job)) {
                return nothing(named);
            }
            let request = of_job(client, named, &job, limit).await?;
            if args.dry_run {
                return session::print(&format!("{named}\n"));
            }
            client.call(request).await?
        }
        Err(error) => return Err(error.into()),
    };
    let Submitted { id, messages } = submitted;
    session::print_plugin_messages(COMMAND, &messages);
    session::print(&format!("{}\n", show_id(id)))
}

fn nothing(named: &Named) -> Result<(), CliError> {
    session::print_message(&format!("{COMMAND}: {named}: nothing has failed"));
    Ok(())
}

/// The elements that are submitted again.
fn chosen(args: &ResubmitArgs, named: &Named, array: &Array) -> Idset {
    let mut all = array.indexes.clone();
    if args.failed {
        all = array.failed.union(&array.timeout);
    }
    if args.canceled {
        all = all.union(&array.canceled);
    }
    named.indexes().map_or(all.clone(), |indexes| all.intersection(indexes))
}

fn result(job: &Value) -> Option<JobResult> {
    serde_json::from_value(job.get("result")?.clone()).ok()
}

fn is_chosen(args: &ResubmitArgs, result: Option<JobResult>) -> bool {
    match result {
        _ if !args.failed => true,
        Some(JobResult::Failed | JobResult::Timeout) => true,
        Some(JobResult::Canceled) => args.canceled,
        Some(JobResult::Completed) | None => false,
    }
}

async fn of_array(
    client: &Client,
    array: &Array,
    indexes: &Idset,
    limit: Option<f64>,
) -> Result<SubmitArray, CliError> {
    let values = client.call(Lookup::key(array.id, "elements")).await?;
    let all: Elements = serde_json::from_str(values.get("elements")).map_err(CliError::failure)?;
    let urgency = Some(array.urgency).filter(|urgency| *urgency > 0);
    let submit = submit(signed(client, array.id).await?, urgency, limit)?;
    Ok(SubmitArray { submit, elements: all.only(indexes) })
}

async fn of_job(
    client: &Client,
    named: &Named,
    job: &Value,
    limit: Option<f64>,
) -> Result<Submit, CliError> {
    let urgency = job.get("urgency").and_then(Value::as_i64).filter(|urgency| *urgency > 0);
    // What an element has in the place of the array's texts is in its own jobspec, which has no environment.
    let values = client.call(Lookup::key(named.id, "jobspec")).await?;
    let mut jobspec: Value =
        serde_json::from_str(values.get("jobspec")).map_err(CliError::failure)?;
    let signed = signed(client, named.id).await?;
    if let Some(environment) = path::get(&signed, ENVIRONMENT) {
        path::set(&mut jobspec, ENVIRONMENT, environment.clone()).map_err(CliError::failure)?;
    }
    for key in ["array_job_id", "array_task_id"] {
        path::remove(&mut jobspec, &format!("attributes.system.slurm.{key}"));
    }
    submit(jobspec, urgency, limit)
}

const ENVIRONMENT: &str = "attributes.system.environment";

/// The jobspec as it was submitted.
async fn signed(client: &Client, id: JobId) -> Result<Value, CliError> {
    let values = client.call(Lookup::key(id, "J")).await?;
    let text = request::jobspec_of(values.get("J"));
    let text = text.ok_or_else(|| CliError::failure("its request can't be read"))?;
    serde_json::from_str(&text).map_err(CliError::failure)
}

/// The request, with another time limit if there is one. What was held isn't held again.
fn submit(
    mut jobspec: Value,
    urgency: Option<i64>,
    limit: Option<f64>,
) -> Result<Submit, CliError> {
    path::remove(&mut jobspec, "attributes.system.dependencies");
    if let Some(limit) = limit {
        path::set(&mut jobspec, "attributes.system.duration", limit.into())
            .map_err(CliError::failure)?;
    }
    let urgency = urgency.unwrap_or_else(|| Urgency::DEFAULT.value().into());
    Ok(Submit { jobspec: Some(jobspec.into()), urgency: Some(urgency), ..Submit::default() })
}
