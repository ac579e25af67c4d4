//! `job taskmap`: prints which node runs which task of a job.

use jobtap_core::job::{JobId, TaskMap};
use jobtap_core::resource::ResourceSet;

use super::event_stream::EventStream;
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
    #[arg(long, value_name = "NODE")]
    taskids: Option<usize>,
    /// Print the number of tasks on this node
    #[arg(long, value_name = "NODE")]
    ntasks: Option<usize>,
    /// Print the node of this task; nodes are numbered within the job
    #[arg(long, value_name = "TASK")]
    nodeid: Option<u64>,
    /// Print the host of this task
    #[arg(long, value_name = "TASK")]
    hostname: Option<u64>,
    /// Print the map as raw or pmi, a line per task with the number of its node (multiline), or a line per
    /// host with its tasks (hosts)
    #[arg(long, value_name = "raw|pmi|multiline|hosts")]
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
    // Without an option that selects a part, --to determines how the whole map is printed.
    let whole = args.taskids.is_none() && args.ntasks.is_none() && args.nodeid.is_none();
    let hosts = match &target {
        _ if !whole => None,
        Some(target) if args.hostname.is_some() || args.to.as_deref() == Some("hosts") => {
            Some(Hosts::of_job(client, target.id).await?)
        }
        _ => None,
    };
    let text = select(&map, args, hosts.as_ref())?;
    session::print(&format!("{text}\n"))?;
    Ok(0)
}

/// The part of the map that the options select. `hosts` are those of the job, if the options need them and name a job.
fn select(map: &TaskMap, args: &TaskmapArgs, hosts: Option<&Hosts>) -> Result<String, CliError> {
    let tasks_on = |node: usize, what: &str| {
        let tasks = map.tasks().get(node).cloned();
        tasks.ok_or_else(|| not_found(&format!("{what} {node}")))
    };
    if let Some(node) = args.taskids {
        return Ok(tasks_on(node, "No taskids for node")?.to_string());
    }
    if let Some(node) = args.ntasks {
        let tasks = tasks_on(node, "failed to get task count for node")?;
        return Ok(tasks.len().to_string());
    }
    if let Some(task) = args.nodeid {
        return Ok(node_of(map, task)?.to_string());
    }
    let of_job = |option: &str| {
        hosts.ok_or_else(|| {
            CliError::failure(format!("taskmap: can't use {option} without a jobid"))
        })
    };
    if let Some(task) = args.hostname {
        let node = node_of(map, task)?;
        return of_job("--hostname")?.name(node);
    }
    Ok(match args.to.as_deref() {
        Some("raw") => map.to_raw(),
        Some("pmi") => map.to_pmi(),
        Some("multiline") => lines(map)?,
        Some("hosts") => tasks_of_hosts(map, of_job("--to=hosts")?)?,
        Some(other) => return Err(CliError::failure(format!("invalid value --to={other}"))),
        None => map.to_string(),
    })
}

/// A line for each task: its rank, and the number of its node.
fn lines(map: &TaskMap) -> Result<String, CliError> {
    let tasks = map.tasks().iter().map(|tasks| tasks.len() as u64).sum();
    let line = |task| Ok(format!("{task}: {}", node_of(map, task)?));
    let lines: Result<Vec<String>, CliError> = (0..tasks).map(line).collect();
    Ok(lines?.join("\n"))
}

/// A line for each host: its name and its tasks.
fn tasks_of_hosts(map: &TaskMap, hosts: &Hosts) -> Result<String, CliError> {
    let line = |(node, tasks)| Ok(format!("{}: {tasks}", hosts.name(node)?));
    let lines: Result<Vec<String>, CliError> = (0..).zip(map.tasks()).map(line).collect();
    Ok(lines?.join("\n"))
}

fn not_found(what: &str) -> CliError {
    CliError::failure(format!("{what}: No such file or directory"))
}

pub(super) fn node_of(map: &TaskMap, task: u64) -> Result<u64, CliError> {
    let node = map.node_of(task);
    node.ok_or_else(|| not_found(&format!("failed to get nodeid for task {task}")))
}

/// The task map of a job, which the event `shell.start` in its exec eventlog contains. Waits until the job has started.
pub(super) async fn of_job(client: &Client, id: JobId) -> Result<TaskMap, CliError> {
    // The jobspec always exists: an error means that the job is unknown or belongs to another user.
    lookup(client, id, "jobspec").await.map_err(|error| {
        let why = if error.errno == EPERM { error.to_string() } else { "no such job".to_owned() };
        CliError::failure(format!("Unable to get job taskmap: {why}"))
    })?;
    let none = || CliError::failure("No taskmap found for job");
    // A job that ends before it has started has no such log, or one without the event.
    let log = EventStream::open(client, id, "guest.exec.eventlog", true).await;
    let mut log = log.map_err(|_| none())?;
    while let Some(Ok(entry)) = log.next().await {
        if entry.name == "shell.start" {
            let map = entry.context.as_ref().and_then(|context| context.get("taskmap"));
            let map = TaskMap::from_value(map.ok_or_else(none)?);
            return map
                .map_err(|error| CliError::failure(format!("error decoding taskmap: {error}")));
        }
    }
    Err(none())
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
        assert_eq!(lines(&map).unwrap(), "0: 0\n1: 1\n2: 0\n3: 1");
    }

    #[test]
    fn hosts_are_printed_with_their_tasks() {
        let r = r#"{"version":1,"execution":{"R_lite":[{"rank":"3-4","children":{"core":"0"}}],
            "nodelist":["a[3-4]"]}}"#;
        let hosts = Hosts(r.parse().unwrap());
        let map: TaskMap = "[[0,2,1,2]]".parse().unwrap();
        assert_eq!(tasks_of_hosts(&map, &hosts).unwrap(), "a3: 0,2\na4: 1,3");
    }
}
