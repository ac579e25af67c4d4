//! The tags for Slurm variables that MPI launchers and scripts read, and whose values follow only from R and the
//! distribution of the tasks. The values are in Slurm's notation.

use jobtap_core::resource::Idset;
use serde_json::Value;

use super::ids::{ids, ids_of_node};
use crate::exec::StartJob;

/// The prefix of the tags in this file.
const PREFIX: &str = "slurm.";

/// The tag, if the template is one of these and nothing else. A variable whose tag has no value is not set.
pub(super) fn only_tag(template: &str) -> Option<&str> {
    let tag = template.strip_prefix("{{")?.strip_suffix("}}")?.trim();
    tag.starts_with(PREFIX).then_some(tag)
}

/// The value of a tag; `None` for one that isn't Slurm's, or has no value in this job.
pub(super) fn value(tag: &str, job: &StartJob, rank: Option<u32>) -> Option<String> {
    Some(match tag.strip_prefix(PREFIX)? {
        "tasks-per-node" => per_node(job.nodes.iter().map(|node| u64::from(node.ntasks))),
        "cpus-per-node" => {
            let cores = |node| ids_of_node(job, node, "core").map(|ids| ids.len() as u64);
            let counts: Option<Vec<u64>> = job.nodes.iter().map(|node| cores(node.rank)).collect();
            per_node(counts?)
        }
        "gpus" => commas(&gpus(job, rank?)?),
        "gpus-on-node" => gpus(job, rank?)?.len().to_string(),
        "start-time" => seconds(job, "starttime")?,
        "end-time" => seconds(job, "expiration")?,
        "partition" => job.queue.clone()?,
        "array-digit" => (job.element?.index % 10).to_string(),
        _ => return None,
    })
}

/// A number for each node, with equal numbers of successive nodes combined: `2(x3),1`.
fn per_node(counts: impl IntoIterator<Item = u64>) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for count in counts {
        match runs.last_mut() {
            Some((last, nodes)) if *last == count => *nodes += 1,
            _ => runs.push((count, 1)),
        }
    }
    let text = |(count, nodes): &(u64, u64)| match nodes {
        1 => count.to_string(),
        _ => format!("{count}(x{nodes})"),
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

/// The GPUs on the node of a task, if it has any.
fn gpus(job: &StartJob, rank: u32) -> Option<Idset> {
    ids(job, rank, "gpu").filter(|gpus| !gpus.is_empty())
}

fn commas(ids: &Idset) -> String {
    ids.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(",")
}

/// A time in R, in whole seconds since 1970, if R has it.
fn seconds(job: &StartJob, name: &str) -> Option<String> {
    let time = job.resources.get("execution")?.get(name).and_then(Value::as_f64)?;
    (time >= 1.0).then(|| format!("{time:.0}"))
}

#[cfg(test)]
mod tests {
    use jobtap_core::job::{JobId, TaskMap};
    use serde_json::json;

    use super::*;
    use crate::exec::NodeTasks;

    #[test]
    fn variables_of_slurm_are_in_its_notations() {
        let nodes: Vec<NodeTasks> =
            [(3, 2), (4, 2), (7, 1)].map(|(rank, ntasks)| NodeTasks { rank, ntasks }).into();
        let resources = json!({"version": 1, "execution": {
            "R_lite": [
                {"rank": "3-4", "children": {"core": "0-3", "gpu": "0-1,3"}},
                {"rank": "7", "children": {"core": "5"}},
            ],
            "nodelist": ["a[3-4]", "b"], "starttime": 1700000000.4, "expiration": 0.0,
        }});
        let taskmap = TaskMap::block(&[2, 2, 1]);
        let job = StartJob { ntasks: 5, nodes, taskmap, resources, ..StartJob::new(JobId::new(1)) };
        let of = |tag: &str, rank| value(&format!("slurm.{tag}"), &job, Some(rank));
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(of("tasks-per-node", 0), text("2(x2),1"));
        assert_eq!(of("cpus-per-node", 0), text("4(x2),1"));
        assert_eq!((of("gpus", 0), of("gpus-on-node", 0)), (text("0,1,3"), text("3")));
        assert_eq!((of("gpus", 4), of("gpus-on-node", 4)), (None, None));
        assert_eq!((of("start-time", 0), of("end-time", 0)), (text("1700000000"), None));
        assert_eq!((of("partition", 0), of("x", 0)), (None, None));
        let job = StartJob { queue: Some("batch".to_owned()), ..StartJob::new(JobId::new(1)) };
        assert_eq!(value("slurm.partition", &job, None), text("batch"));
        assert_eq!(only_tag("{{ slurm.gpus }}"), Some("slurm.gpus"));
        assert_eq!((only_tag("{{id}}"), only_tag("x{{slurm.gpus}}")), (None, None));
    }
}
