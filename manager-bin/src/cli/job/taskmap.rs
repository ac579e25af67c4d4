//! `job taskmap`: prints which node runs which task of a job.

use jobtap_core::eventlog::decode_log;
use jobtap_core::job::{JobId, TaskMap};
use jobtap_core::resource::ResourceSet;

use crate::cli::common::ids::Target;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::{Client, RpcError};
use crate::rpc::errno::EPERM;
use crate::rpc::services::job_info::Lookup;

/// Options and arguments of `job taskmap`.
#[derive(Debug, clap::Args)]
pub(super) struct TaskmapArgs {
    /// Print the task ranks on this node
    #[arg(long, value_name = "NODE", group = "question")]
    taskids: Option<usize>,
    /// Print the number of tasks on this node
    #[arg(long, value_name = "NODE", group = "question")]
    ntasks: Option<usize>,
    /// Print the node of this task; nodes are numbered within the job
    #[arg(long, value_name = "TASK", group = "question")]
    nodeid: Option<u64>,
    /// Print the host of this task
    #[arg(long, value_name = "TASK", group = "question")]
    hostname: Option<u64>,
    /// Print the map as raw or pmi, or a line per task with the number (multiline) or the name (hosts) of
    /// its node
    #[arg(
        long,
        value_name = "raw|pmi|multiline|hosts",
        group = "question",
        value_parser = ["raw", "pmi", "multiline", "hosts"]
    )]
    to: Option<String>,
    /// Job id, or a task map
    #[arg(value_name = "JOBID|MAP")]
    subject: String,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &TaskmapArgs) -> Result<u8, CliError> {
    let target = Target::parse(&args.subject).ok();
    let map = match &target {
        Some(target) => of_job(client, target.id).await?,
        None => args
            .subject
            .parse()
            .map_err(|error| CliError::failure(format!("error decoding taskmap: {error}")))?,
    };
    let text = match (&args.hostname, args.to.as_deref(), &target) {
        (Some(task), _, Some(target)) => {
            Hosts::of_job(client, target.id).await?.name(node_of(&map, *task)?)?
        }
        (Some(_), _, None) => {
            return Err(CliError::failure("--hostname needs a job id, not a map"));
        }
        (None, Some("hosts"), Some(target)) => {
            let hosts = Hosts::of_job(client, target.id).await?;
            lines(&map, |node| hosts.name(node))?
        }
        (None, Some("hosts"), None) => {
            return Err(CliError::failure("--to=hosts needs a job id, not a map"));
        }
        (None, ..) => select(&map, args)?,
    };
    session::print(&format!("{text}\n"))?;
    Ok(0)
}

/// The part of the map that the options select.
fn select(map: &TaskMap, args: &TaskmapArgs) -> Result<String, CliError> {
    if let Some(node) = args.taskids.or(args.ntasks) {
        let tasks = map.tasks();
        let tasks = tasks
            .get(node)
            .ok_or_else(|| CliError::failure(format!("No such node in the map: {node}")))?;
        return Ok(match args.taskids {
            Some(_) => tasks.to_string(),
            None => tasks.len().to_string(),
        });
    }
    if let Some(task) = args.nodeid {
        return Ok(node_of(map, task)?.to_string());
    }
    Ok(match args.to.as_deref() {
        Some("raw") => map.to_raw(),
        Some("multiline") => lines(map, |node| Ok(node.to_string()))?,
        Some(_) => map.to_pmi(),
        None => map.to_string(),
    })
}

/// A line for each task: its rank, and its node as `show` displays it.
fn lines(
    map: &TaskMap,
    show: impl Fn(u64) -> Result<String, CliError>,
) -> Result<String, CliError> {
    let tasks = map.tasks().iter().map(|tasks| tasks.len() as u64).sum();
    let line = |task| Ok(format!("{task}: {}", show(node_of(map, task)?)?));
    let lines: Result<Vec<String>, CliError> = (0..tasks).map(line).collect();
    Ok(lines?.join("\n"))
}

pub(super) fn node_of(map: &TaskMap, task: u64) -> Result<u64, CliError> {
    let node = map.node_of(task);
    node.ok_or_else(|| CliError::failure(format!("No such task in the map: {task}")))
}

/// The task map of a job, which the event `shell.start` in its exec eventlog contains.
pub(super) async fn of_job(client: &Client, id: JobId) -> Result<TaskMap, CliError> {
    // The jobspec always exists: an error tells that the job is unknown or belongs to another user.
    lookup(client, id, "jobspec").await.map_err(|error| {
        let why = if error.errno == EPERM { error.to_string() } else { "no such job".to_owned() };
        CliError::failure(format!("Unable to get job taskmap: {why}"))
    })?;
    let none = || CliError::failure("No taskmap found for job");
    // A job that has never been started has no such eventlog.
    let log = lookup(client, id, "guest.exec.eventlog").await.map_err(|_| none())?;
    let entries = decode_log(&log).map_err(|error| CliError::failure(error.to_string()))?;
    let start = entries.iter().find(|entry| entry.name == "shell.start").ok_or_else(none)?;
    let map = start.context.as_ref().and_then(|context| context.get("taskmap"));
    TaskMap::from_value(map.ok_or_else(none)?)
        .map_err(|error| CliError::failure(format!("error decoding taskmap: {error}")))
}

/// The hosts of a job. Its nodes are numbered in the order of their ranks in R.
pub(super) struct Hosts(ResourceSet);

impl Hosts {
    pub(super) async fn of_job(client: &Client, id: JobId) -> Result<Self, CliError> {
        let resources = lookup(client, id, "R").await?.parse();
        let damaged = |error| CliError::failure(format!("the stored R is damaged: {error}"));
        Ok(Self(resources.map_err(damaged)?))
    }

    pub(super) fn name(&self, node: u64) -> Result<String, CliError> {
        let rank = usize::try_from(node).ok().and_then(|node| self.0.ranks().iter().nth(node));
        let host = rank.and_then(|rank| self.0.host(rank).map(|host| host.to_string()));
        host.ok_or_else(|| CliError::failure(format!("R has no node {node}")))
    }
}

async fn lookup(client: &Client, id: JobId, key: &str) -> Result<String, RpcError> {
    Ok(client.call(Lookup::key(id, key)).await?.get(key).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiline_prints_a_line_for_each_task() {
        let map: TaskMap = "[[0,2,1,2]]".parse().unwrap();
        let text = lines(&map, |node| Ok(format!("n{node}"))).unwrap();
        assert_eq!(text, "0: n0\n1: n1\n2: n0\n3: n1");
    }
}
