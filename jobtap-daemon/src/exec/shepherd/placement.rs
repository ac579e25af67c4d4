//! Which node of its job a task runs on: in blocks, or as the shell option `taskmap` says.

use std::io::{self, Read};
use std::path::Path;

use jobtap_core::job::{self, TaskMap};
use jobtap_core::resource::{Hostlist, HostlistError, ResourceSet};
use serde_json::Value;

use super::files::user_file::{Purpose, UserFile, open};
use super::system_error::plain;
use crate::exec::StartJob;

/// The place of a task within its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The index of the node among those of the job.
    pub(super) node: usize,
    /// The index of the task among those of the node.
    pub(super) local: u32,
}

/// Returns the place of a task. A task that the map doesn't contain is on the first node.
pub(super) fn place(map: &TaskMap, rank: u32) -> Place {
    let found = map.place_of(rank.into());
    let found = found.and_then(|(node, local)| {
        Some(Place { node: usize::try_from(node).ok()?, local: u32::try_from(local).ok()? })
    });
    found.unwrap_or(Place { node: 0, local: rank })
}

/// The first task with this rank or a higher one that this shepherd starts.
pub(super) fn task_from(job: &StartJob, rank: u32) -> Option<u32> {
    let mut ranks = rank..job.ntasks;
    match job.part {
        None => ranks.next(),
        Some(part) => ranks.find(|rank| place(&job.taskmap, *rank).node == part),
    }
}

/// The number of tasks that this shepherd starts.
pub(super) fn own_tasks(job: &StartJob) -> u32 {
    match job.part {
        None => job.ntasks,
        Some(part) => {
            let own = (0..job.ntasks).filter(|rank| place(&job.taskmap, *rank).node == part);
            u32::try_from(own.count()).unwrap_or(u32::MAX)
        }
    }
}

/// The shell option `taskmap` can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum TaskMapError {
    /// The option has another form.
    #[error("taskmap: expected an object with the texts scheme and value")]
    Form,
    /// No scheme has this name.
    #[error("invalid taskmap scheme '{0}': use block, cyclic, manual or hostfile")]
    Scheme(String),
    /// Not a number of tasks.
    #[error("invalid cyclic stride: {0}")]
    Stride(String),
    /// The map, or the hostfile, doesn't fit the job.
    #[error("failed to map tasks with {scheme}:{value}: {fault}")]
    Unfit { scheme: String, value: String, fault: Box<MapFault> },
}

/// Why a map or a hostfile doesn't fit a job.
#[derive(Debug, thiserror::Error)]
pub(super) enum MapFault {
    /// It is no map.
    #[error(transparent)]
    Map(#[from] job::TaskMapError),
    /// It has another number of tasks than the job.
    #[error("got {found} total tasks, expected {expected}")]
    Tasks { found: u64, expected: u32 },
    /// It has another number of nodes than the job.
    #[error("got {found} nodes, expected {expected}")]
    Nodes { found: u64, expected: usize },
    /// The hostfile can't be read.
    #[error("{}", plain(.0))]
    File(#[from] io::Error),
    /// The hostfile isn't a regular file, or is too long.
    #[error("not a file of at most {HOSTFILE} bytes")]
    Length,
    /// The job's resources can't be read.
    #[error("R is damaged: {0}")]
    Resources(serde_json::Error),
    /// A line isn't a list of hosts.
    #[error("{line}: {error}")]
    Line { line: String, error: HostlistError },
    /// The job has no such host.
    #[error("host {0} not found in job nodelist")]
    Host(String),
    /// There is nothing in the hostfile.
    #[error("the file names no host")]
    NoHost,
}

/// Returns the task map of a job.
pub(super) fn task_map(job: &StartJob) -> Result<TaskMap, TaskMapError> {
    let counts: Vec<u32> = job.nodes.iter().map(|node| node.ntasks).collect();
    let Some(option) = job.shell_options.get("taskmap") else {
        return Ok(TaskMap::block(&counts));
    };
    let (scheme, value) = scheme(option)?;
    let unfit = |fault| TaskMapError::Unfit {
        scheme: scheme.to_owned(),
        value: value.to_owned(),
        fault: Box::new(fault),
    };
    match scheme {
        "block" => Ok(TaskMap::block(&counts)),
        "cyclic" => {
            let stride = if value.is_empty() { Some(1) } else { value.parse().ok() };
            match stride {
                Some(stride) if stride > 0 => Ok(TaskMap::cyclic(&counts, stride)),
                _ => Err(TaskMapError::Stride(value.to_owned())),
            }
        }
        "manual" => {
            let map: TaskMap = value.parse().map_err(|error| unfit(MapFault::Map(error)))?;
            check(&map, job).map_err(unfit)?;
            Ok(map)
        }
        "hostfile" => {
            let text = read_short(&job.cwd.join(Path::new(value)));
            text.and_then(|text| from_hosts(&text, job)).map_err(unfit)
        }
        _ => Err(TaskMapError::Scheme(scheme.to_owned())),
    }
}

/// The longest hostfile that is read, in bytes.
const HOSTFILE: u64 = 1 << 20;

/// Reads a file that a user has named. The shepherd serves all users with one thread, so it waits for no FIFO, and
/// reads no endless device.
fn read_short(path: &Path) -> Result<String, MapFault> {
    let UserFile::Open(file) = open(path, Purpose::Read)? else { return Err(MapFault::Length) };
    let found = file.metadata()?;
    if !found.is_file() || found.len() > HOSTFILE {
        return Err(MapFault::Length);
    }
    let mut text = String::new();
    file.take(HOSTFILE).read_to_string(&mut text)?;
    Ok(text)
}

/// Reads the option: a scheme, or an object with a scheme and its value.
fn scheme(option: &Value) -> Result<(&str, &str), TaskMapError> {
    let text = |key| option.get(key).map_or(Some(""), Value::as_str);
    let parts = match option.as_str() {
        Some(text) => text.split_once(':').or(Some((text, ""))),
        None => option.get("scheme").and_then(Value::as_str).zip(text("value")),
    };
    parts.ok_or(TaskMapError::Form)
}

/// Checks that a map has all tasks and nodes of the job.
fn check(map: &TaskMap, job: &StartJob) -> Result<(), MapFault> {
    if map.ntasks() != u64::from(job.ntasks) {
        return Err(MapFault::Tasks { found: map.ntasks(), expected: job.ntasks });
    }
    let nodes = job.nodes.len();
    if map.nnodes() != nodes as u64 {
        return Err(MapFault::Nodes { found: map.nnodes(), expected: nodes });
    }
    Ok(())
}

/// Maps the tasks to the hosts of a file in their order, starting again with the first host after the last.
fn from_hosts(text: &str, job: &StartJob) -> Result<TaskMap, MapFault> {
    let resources: ResourceSet =
        serde_json::from_value(job.resources.clone()).map_err(MapFault::Resources)?;
    let ranks: Vec<u32> = job.nodes.iter().map(|node| node.rank).collect();
    let mut nodes = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let hosts: Hostlist =
            line.parse().map_err(|error| MapFault::Line { line: line.to_owned(), error })?;
        for host in hosts.iter() {
            let is_host = |rank: &u32| resources.host(*rank).as_ref() == Some(&host);
            let node = ranks.iter().position(is_host);
            nodes.push(node.ok_or_else(|| MapFault::Host(host.to_string()))? as u64);
        }
    }
    if nodes.is_empty() {
        return Err(MapFault::NoHost);
    }
    Ok(TaskMap::of_nodes(nodes.into_iter().cycle().take(job.ntasks as usize)))
}

#[cfg(test)]
mod tests {
    use jobtap_core::job::JobId;
    use serde_json::json;

    use super::*;
    use crate::exec::NodeTasks;

    /// A job on two hosts with the ranks 3 and 5, and two tasks on each.
    fn job(option: &Value) -> StartJob {
        let nodes = [3, 5].map(|rank| NodeTasks { rank, ntasks: 2 });
        let children = json!({"core": "0-1"});
        let execution = json!({
            "R_lite": [{"rank": "3,5", "children": children}],
            "nodelist": ["a,b"],
            "starttime": 0,
            "expiration": 0,
        });
        StartJob {
            ntasks: 4,
            nodes: nodes.into(),
            shell_options: json!({ "taskmap": option }),
            resources: json!({"version": 1, "execution": execution}),
            ..StartJob::new(JobId::new(1))
        }
    }

    fn raw(scheme: &str, value: &str) -> Result<String, TaskMapError> {
        let option = json!({"scheme": scheme, "value": value});
        task_map(&job(&option)).map(|map| map.to_raw())
    }

    #[test]
    fn tasks_are_ranked_node_by_node_without_the_option() {
        let nodes = [(3, 2), (5, 0), (9, 1)].map(|(rank, ntasks)| NodeTasks { rank, ntasks });
        let job = StartJob { ntasks: 3, nodes: nodes.into(), ..StartJob::new(JobId::new(1)) };
        let map = task_map(&job).unwrap();
        let places = [0, 1, 2].map(|rank| place(&map, rank));
        assert_eq!(places.map(|place| (place.node, place.local)), [(0, 0), (0, 1), (2, 0)]);
        assert_eq!(place(&TaskMap::default(), 4), Place { node: 0, local: 4 });
    }

    #[test]
    fn every_scheme_places_all_tasks() {
        assert_eq!(raw("block", "").unwrap(), "0-1;2-3");
        assert_eq!(raw("cyclic", "").unwrap(), "0,2;1,3");
        assert_eq!(raw("cyclic", "2").unwrap(), "0-1;2-3");
        assert_eq!(raw("manual", "[[1,1,3,1],[0,1,1,1]]").unwrap(), "3;0-2");
        assert_eq!(raw("manual", "0-2;3").unwrap(), "0-2;3");
        assert_eq!(task_map(&job(&json!("cyclic:1"))).unwrap().to_raw(), "0,2;1,3");
    }

    #[test]
    fn a_shepherd_starts_the_tasks_of_its_part() {
        let mapped = |part| {
            let job = StartJob { part, ..job(&json!("cyclic:1")) };
            StartJob { taskmap: task_map(&job).unwrap(), ..job }
        };
        for (part, own) in [(None, vec![0, 1, 2, 3]), (Some(0), vec![0, 2]), (Some(1), vec![1, 3])]
        {
            let job = mapped(part);
            let next = |rank: &u32| task_from(&job, rank + 1);
            let found: Vec<u32> = std::iter::successors(task_from(&job, 0), next).collect();
            assert_eq!(found, own);
            assert_eq!(own_tasks(&job) as usize, own.len());
        }
    }

    #[test]
    fn a_hostfile_names_the_hosts_of_the_tasks() {
        let file = |text: &str| from_hosts(text, &job(&Value::Null)).map(|map| map.to_raw());
        assert_eq!(file("b\n\na\n").unwrap(), "1,3;0,2");
        assert_eq!(file("a,a,b,b").unwrap(), "0-1;2-3");
        assert_eq!(file("a\nc").unwrap_err().to_string(), "host c not found in job nodelist");
        assert_eq!(file("\n").unwrap_err().to_string(), "the file names no host");
        let missing = raw("hostfile", "/no/such").unwrap_err().to_string();
        let text = "failed to map tasks with hostfile:/no/such: No such file or directory";
        assert_eq!(missing, text);
    }

    #[test]
    fn an_invalid_map_is_refused_with_its_reason() {
        for (scheme, value, wanted) in [
            ("cyclic", "0", "invalid cyclic stride: 0"),
            ("cyclic", "x", "invalid cyclic stride: x"),
            ("manual", "0-2", "failed to map tasks with manual:0-2: got 3 total tasks, expected 4"),
            ("manual", "0-3", "failed to map tasks with manual:0-3: got 1 nodes, expected 2"),
            (
                "manual",
                "[1]",
                "failed to map tasks with manual:[1]: entry 0 in taskmap is not an array",
            ),
            (
                "spiral",
                "",
                "invalid taskmap scheme 'spiral': use block, cyclic, manual or hostfile",
            ),
        ] {
            assert_eq!(raw(scheme, value).unwrap_err().to_string(), wanted);
        }
        let error = task_map(&job(&json!({"scheme": 1}))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "taskmap: expected an object with the texts scheme and value"
        );
    }
}
