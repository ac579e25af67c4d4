//! The cores and GPUs of a job on one node, as tags show them.

use jobtap_core::resource::Idset;
use serde_json::Value;

use super::super::placement::place;
use crate::exec::StartJob;

/// The cores or GPUs that the job has on the node on which a task runs. They are looked up in the JSON of R: a job can
/// have thousands of these tags, and the shepherd, which serves all jobs, would have to parse the whole R for each.
pub(super) fn ids(job: &StartJob, rank: u32, kind: &str) -> Option<Idset> {
    ids_of_node(job, job.nodes.get(place(&job.taskmap, rank).node)?.rank, kind)
}

/// The cores or GPUs that the job has on the node with this rank.
pub(super) fn ids_of_node(job: &StartJob, node: u32, kind: &str) -> Option<Idset> {
    let is_of_node = |entry: &&Value| {
        let ranks = entry.get("rank").and_then(Value::as_str).map(str::parse::<Idset>);
        ranks.is_some_and(|ranks| ranks.is_ok_and(|ranks| ranks.contains(node)))
    };
    let entries = job.resources.pointer("/execution/R_lite")?.as_array()?;
    match entries.iter().find(is_of_node)?.get("children")?.get(kind) {
        Some(ids) => ids.as_str()?.parse().ok(),
        None => Some(Idset::new()),
    }
}
