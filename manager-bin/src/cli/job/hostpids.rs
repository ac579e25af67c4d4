//! `job hostpids`: prints the hosts and process ids of a running job's tasks, for debuggers and other tools
//! that attach to the tasks.

use jobtap_core::job::State;
use jobtap_core::resource::Idset;
use serde_json::Value;

use super::event_stream::EventStream;
use super::taskmap::{self, Hosts};
use super::wait_event::{next, parse_timeout};
use crate::cli::common::arrays;
use crate::cli::common::escapes::unescaped;
use crate::cli::common::ids::Target;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::{Client, RpcError};
use crate::exec::TaskProcess;
use crate::rpc::errno::EPERM;
use crate::rpc::services::job_exec::Proctable;
use crate::rpc::services::job_list::ListId;

/// Options and arguments of `job hostpids`.
#[derive(Debug, clap::Args)]
pub(super) struct HostpidsArgs {
    /// Separator between the entries; \n, \t and \r are read as escapes
    #[arg(short = 'd', long, value_name = "STRING", default_value = ",")]
    delimiter: String,
    /// Print these task ranks only
    #[arg(short = 'r', long, value_name = "RANKS")]
    ranks: Option<String>,
    /// Wait at most this long for the start of the tasks
    #[arg(short = 't', long, value_name = "FSD")]
    timeout: Option<String>,
    /// Job id
    #[arg(value_name = "JOBID")]
    id: String,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &HostpidsArgs) -> Result<u8, CliError> {
    let target = arrays::target(&args.id, client).await?;
    let ranks = args.ranks.as_deref().map(str::parse::<Idset>).transpose();
    let ranks = ranks.map_err(|error| {
        let typed = args.ranks.as_deref().unwrap_or_default();
        CliError::failure(format!("--ranks={typed}: {error}: Invalid argument"))
    })?;
    wait_for_start(client, &target, args).await?;
    let tasks = client.call(Proctable { id: target.id }).await.map_err(refused)?.tasks;
    let map = taskmap::of_job(client, target.id).await?;
    let hosts = Hosts::of_job(client, target.id).await?;
    let mut pairs = Vec::new();
    for TaskProcess { rank, pid } in tasks {
        if ranks.as_ref().is_none_or(|ranks| ranks.contains(rank)) {
            let host = hosts.name(taskmap::node_of(&map, rank.into())?)?;
            pairs.push(format!("{host}:{pid}"));
        }
    }
    session::print(&format!("{}\n", pairs.join(&unescaped(&args.delimiter))))?;
    Ok(0)
}

/// Waits until the job's tasks have been started.
async fn wait_for_start(
    client: &Client,
    target: &Target,
    args: &HostpidsArgs,
) -> Result<(), CliError> {
    let limit = |text| parse_timeout("hostpids", text);
    let timeout = args.timeout.as_deref().map(limit).transpose()?.flatten();
    let job = client.call(ListId { id: target.id, attrs: &["state"] }).await;
    let job = job.map_err(|_| CliError::failure(format!("{}: No such job", target.typed)))?;
    let state = job.job.get("state").and_then(Value::as_u64);
    let inactive = || CliError::failure(format!("hostpids: job {} is inactive", target.typed));
    if state == Some(State::Inactive.value().into()) {
        return Err(inactive());
    }
    // The exec eventlog is created when the job starts, which may not have happened yet.
    let mut log = EventStream::open(client, target.id, "guest.exec.eventlog", true).await?;
    loop {
        match next(&mut log, timeout).await {
            None => {
                let text = "hostpids: timeout waiting for shell.start event";
                return Err(CliError::failure(text));
            }
            // The end of the log: the job became inactive before a task was started.
            Some(None) => return Err(inactive()),
            Some(Some(event)) if event.as_ref().is_ok_and(|event| event.name == "shell.start") => {
                return Ok(());
            }
            Some(Some(event)) => drop(event.map_err(refused)?),
        }
    }
}

fn refused(error: RpcError) -> CliError {
    CliError::failure(match error.errno {
        EPERM => "hostpids: Permission denied".to_owned(),
        _ => format!("hostpids: {error}"),
    })
}
