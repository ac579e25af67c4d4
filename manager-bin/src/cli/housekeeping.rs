//! `housekeeping`: lists and signals the housekeeping of jobs, which runs on their nodes before other jobs get these
//! nodes.

use std::borrow::Cow;
use std::process::ExitCode;

use jobtap_core::job::JobId;
use jobtap_core::resource::{Hostlist, Idset, ResourceSet};

use super::common::format::named::NamedFormats;
use super::common::format::{FieldValue, Row};
use super::common::ids::show_id;
use super::common::message::CliError;
use super::common::resources::resources;
use super::common::session;
use super::common::usage::Family;
use super::common::when::now;
use super::resource::{ListingArgs, included};
use crate::client::{Client, RpcError};
use crate::rpc::errno::ENOSYS;
use crate::rpc::services::plugin::{HousekeepingKill, HousekeepingList, Run};
use crate::rpc::services::resource::GetStatus;

const COMMAND: &str = "housekeeping";

/// The builtin formats: name, description, format.
const FORMATS: &[(&str, &str, &str)] = &[(
    "default",
    "Jobs whose housekeeping is running",
    "{id.f58:>12} {nnodes:>6} {pending.nnodes:>7} {runtime!F:>8} {nodelist}",
)];

const HEADINGS: &[(&str, &str)] = &[
    ("id", "JOBID"),
    ("id.f58", "JOBID"),
    ("id.dec", "JOBID"),
    ("t_start", "T_START"),
    ("runtime", "RUNTIME"),
    ("nnodes", "NNODES"),
    ("ranks", "RANKS"),
    ("nodelist", "NODELIST"),
    ("allocated.nnodes", "NNODES"),
    ("allocated.ranks", "RANKS"),
    ("allocated.nodelist", "NODELIST"),
    ("pending.nnodes", "#ACTIVE"),
    ("pending.ranks", "ACTIVE_RANKS"),
    ("pending.nodelist", "ACTIVE_NODES"),
];

/// Arguments of `housekeeping`.
#[derive(Debug, clap::Args)]
pub(crate) struct HousekeepingArgs {
    #[command(subcommand)]
    command: HousekeepingCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum HousekeepingCommand {
    /// List jobs whose housekeeping is running
    List(ListArgs),
    /// Send a signal to running housekeeping
    Kill(KillArgs),
}

/// Options of `housekeeping list`.
#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    listing: ListingArgs,
    /// List only jobs on these hosts or ranks
    #[arg(short = 'i', long, value_name = "HOSTS|RANKS")]
    include: Option<String>,
}

/// Options of `housekeeping kill`.
#[derive(Debug, clap::Args)]
struct KillArgs {
    /// Signal housekeeping on these hosts or ranks
    #[arg(short = 't', long, value_name = "HOSTS|RANKS")]
    targets: Option<String>,
    /// Signal the housekeeping of this job
    #[arg(short = 'j', long, value_name = "JOBID")]
    jobid: Option<JobId>,
    /// Signal all housekeeping
    #[arg(long)]
    all: bool,
    /// Number of the signal
    #[arg(short = 's', long, value_name = "N", default_value_t = 15)]
    signal: i32,
}

/// Runs the command.
pub(crate) fn run(args: HousekeepingArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Script, async |client| match args.command {
        HousekeepingCommand::List(args) => list(&client, &args).await,
        HousekeepingCommand::Kill(args) => kill(&client, &args).await,
    })
}

/// Turns the error that the plugin isn't loaded into an empty response: without a configuration, no housekeeping is
/// running.
fn if_configured<T: Default>(response: Result<T, RpcError>) -> Result<T, CliError> {
    match response {
        Err(error) if error.errno == ENOSYS => Ok(T::default()),
        response => response.map_err(|error| CliError::failure(error.to_string())),
    }
}

/// The resources of the instance.
async fn nodes(client: &Client) -> Result<ResourceSet, CliError> {
    let status = client.call(GetStatus {}).await;
    resources("R", &status.map_err(|error| CliError::failure(error.to_string()))?.r)
}

async fn list(client: &Client, args: &ListArgs) -> Result<u8, CliError> {
    let formats = NamedFormats::builtin(COMMAND, FORMATS);
    let Some(listing) = args.listing.listing::<Housekeeping>(formats)? else {
        return Ok(0);
    };
    let response = if_configured(client.call(HousekeepingList {}).await)?;
    let all = nodes(client).await?;
    let selected = args.include.as_deref().map(|text| included(text, &all)).transpose()?;
    // Only the selected nodes of each job are shown.
    let shown = match &selected {
        Some(ranks) => all.with_ranks(ranks),
        None => all,
    };
    let runs = response.running.iter();
    let mut rows: Vec<Housekeeping> = runs
        .filter_map(|(id, run)| Housekeeping::from_run(id.parse().ok()?, run, &shown))
        .collect();
    rows.retain(|row| !row.allocated.is_empty());
    listing.print(rows)?;
    Ok(0)
}

async fn kill(client: &Client, args: &KillArgs) -> Result<u8, CliError> {
    if !args.all && args.jobid.is_none() && args.targets.is_none() {
        return Err(CliError::failure("specify at least one of --targets, --jobid, or --all"));
    }
    if args.all && args.jobid.is_some() {
        return Err(CliError::failure("do not specify --jobid with --all"));
    }
    let job = args.jobid;
    let ranks = match &args.targets {
        Some(targets) => Some(target_ranks(targets, &nodes(client).await?)?.to_string()),
        None => None,
    };
    let request = HousekeepingKill { signum: args.signal, jobid: job, ranks };
    if_configured(client.call(request).await)?;
    Ok(0)
}

/// Parses a text as ranks or, if it isn't an idset, as hosts. All hosts must exist.
fn target_ranks(text: &str, all: &ResourceSet) -> Result<Idset, CliError> {
    if let Ok(ranks) = text.parse::<Idset>() {
        return Ok(ranks);
    }
    let hosts: Hostlist = text
        .parse()
        .map_err(|_| CliError::failure("--targets must be a valid Idset or Hostlist"))?;
    let known = all.nodelist();
    match hosts.iter().find(|host| !known.iter().any(|known| known == *host)) {
        Some(host) => Err(CliError::failure(format!("didn't find {host} in instance hostlist"))),
        None => Ok(all.ranks_on(&hosts)),
    }
}

/// A line of `housekeeping list`: a job whose housekeeping is running.
struct Housekeeping {
    id: JobId,
    started: f64,
    /// The resources that the job had.
    allocated: ResourceSet,
    /// The resources on which housekeeping hasn't finished.
    pending: ResourceSet,
}

impl Housekeeping {
    fn from_run(id: JobId, run: &Run, all: &ResourceSet) -> Option<Self> {
        let part = |ranks: &str| Some(all.with_ranks(&ranks.parse().ok()?));
        let (allocated, pending) = (part(&run.allocated)?, part(&run.pending)?);
        Some(Self { id, started: run.t_start, allocated, pending })
    }
}

impl Row for Housekeeping {
    fn heading(name: &str) -> Option<Cow<'static, str>> {
        let heading = HEADINGS.iter().find(|(field, _)| *field == name);
        heading.map(|(_, heading)| Cow::Borrowed(*heading))
    }

    fn field(&self, name: &str) -> Option<FieldValue> {
        let (part, what) = match name.split_once('.') {
            Some(("pending", what)) => (&self.pending, what),
            Some(("allocated", what)) => (&self.allocated, what),
            _ => (&self.allocated, name),
        };
        match what {
            "id" | "id.f58" => Some(FieldValue::Text(show_id(self.id))),
            "id.dec" => Some(FieldValue::Int(self.id.as_u64().into())),
            "t_start" => Some(FieldValue::Float(self.started)),
            "runtime" => Some(FieldValue::Float((now() - self.started).max(0.0))),
            "nnodes" => Some(FieldValue::Int(part.nnodes() as i128)),
            "ranks" => Some(FieldValue::Text(part.ranks().to_string())),
            "nodelist" => Some(FieldValue::Text(part.nodelist().to_string())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> ResourceSet {
        let text = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-3","children":{"core":"0"}}],
            "starttime":0,"expiration":0,"nodelist":["n[0-3]"]}}"#;
        text.parse().unwrap()
    }

    #[test]
    fn targets_are_ranks_or_existing_hosts() {
        assert_eq!(target_ranks("1-2", &all()).unwrap().to_string(), "1-2");
        assert_eq!(target_ranks("n[0,3]", &all()).unwrap().to_string(), "0,3");
        assert_eq!(
            target_ranks("n9", &all()).unwrap_err().text,
            "didn't find n9 in instance hostlist"
        );
        assert_eq!(
            target_ranks("n[", &all()).unwrap_err().text,
            "--targets must be a valid Idset or Hostlist"
        );
    }

    #[test]
    fn a_line_shows_the_nodes_that_have_not_finished() {
        let run = Run { t_start: 1.0, pending: "2-3".to_owned(), allocated: "1-3".to_owned() };
        let row = Housekeeping::from_run(JobId::new(5), &run, &all()).unwrap();
        let text = |name: &str| match row.field(name) {
            Some(FieldValue::Text(text)) => text,
            Some(FieldValue::Int(number)) => number.to_string(),
            _ => String::new(),
        };
        assert_eq!((text("nnodes"), text("pending.nnodes")), ("3".to_owned(), "2".to_owned()));
        assert_eq!(text("nodelist"), "n[1-3]");
        assert_eq!(text("id.dec"), "5");
    }
}
