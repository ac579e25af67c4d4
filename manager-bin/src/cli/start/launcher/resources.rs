//! What the launcher has given this node: its name, its cores and GPUs, and the end of the allocation.

use std::process::{Command, Stdio};

use jobtap_core::resource::{Idset, ResourceSet};

use crate::cli::instance::version;
use crate::daemon::resources::{ResourceError, available_cores, hostname};
use crate::exec::nodes::NodeInfo;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// This node, as the task with this rank.
pub(super) fn own_node(rank: u32) -> Result<NodeInfo, ResourceError> {
    let cores = available_cores(false)?;
    let most = variable("SLURM_CPUS_ON_NODE").and_then(|text| text.parse().ok());
    Ok(NodeInfo {
        rank,
        // Slurm's name of the node, which isn't always the host's.
        host: variable("SLURMD_NODENAME").unwrap_or_else(hostname),
        cores: first_of(&cores, most),
        gpus: gpus(),
        program: version::short().to_owned(),
        uri: None,
    })
}

/// This node, as the job of another manager has it: that with this number among its nodes. `None` if there is none.
pub(super) fn given_node(given: &ResourceSet, number: u32) -> Option<NodeInfo> {
    let node = given.iter().nth(usize::try_from(number).ok()?)?;
    let ids = |kind: &str| node.children().get(kind).cloned().unwrap_or_default();
    Some(NodeInfo {
        rank: number,
        host: node.host().unwrap_or_else(hostname),
        cores: ids("core"),
        gpus: ids("gpu"),
        program: version::short().to_owned(),
        uri: None,
    })
}

/// The cores that a step may use. Without a plugin that binds its tasks, Slurm only counts them.
fn first_of(cores: &Idset, most: Option<usize>) -> Idset {
    cores.iter().take(most.unwrap_or(usize::MAX).max(1)).collect()
}

/// The GPUs that a step may use.
fn gpus() -> Idset {
    visible(&variable("CUDA_VISIBLE_DEVICES").unwrap_or_default())
}

/// The numbers that are listed. GPUs that are listed by name are numbered from 0, as CUDA numbers those that it sees.
fn visible(list: &str) -> Idset {
    // What Flux and Slurm write if there are none.
    if ["", "-1", "NoDevFiles"].contains(&list.trim()) {
        return Idset::new();
    }
    let listed = || list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let numbers: Option<Idset> = listed().map(|name| name.parse::<u32>().ok()).collect();
    numbers.unwrap_or_else(|| (0..).zip(listed()).map(|(number, _)| number).collect())
}

/// When the allocation ends (UNIX seconds); 0 if the launcher names no end.
pub(in crate::cli::start) fn end_of_allocation() -> f64 {
    let end = variable("SLURM_JOB_END_TIME").and_then(|text| text.parse().ok());
    end.or_else(end_of_flux_job).unwrap_or(0.0)
}

/// The end of the job of Flux that this process is a task of, which only Flux's own command knows.
fn end_of_flux_job() -> Option<f64> {
    let (id, _) = (variable("FLUX_JOB_ID")?, variable("FLUX_URI")?);
    let mut command = Command::new("flux");
    command.args(["job", "info", &id, "R"]).stdin(Stdio::null()).stderr(Stdio::null());
    let printed = command.output().ok()?.stdout;
    let resources: ResourceSet = String::from_utf8(printed).ok()?.parse().ok()?;
    resources.expiration()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_no_more_cores_than_slurm_says() {
        let cores: Idset = "2-5,8".parse().unwrap();
        assert_eq!(first_of(&cores, Some(2)).to_string(), "2-3");
        assert_eq!(first_of(&cores, Some(64)).to_string(), "2-5,8");
        assert_eq!(first_of(&cores, None).to_string(), "2-5,8");
    }

    #[test]
    fn a_node_of_a_job_has_what_the_job_has_there() {
        let text = r#"{"version":1,"execution":{"R_lite":[
            {"rank":"3","children":{"core":"2-5"}},{"rank":"7","children":{"core":"0","gpu":"1"}}
        ],"nodelist":["n[4,8]"],"starttime":0,"expiration":0}}"#;
        let given: ResourceSet = text.parse().unwrap();
        let node = given_node(&given, 1).unwrap();
        assert_eq!((node.rank, node.host.as_str()), (1, "n8"));
        assert_eq!((node.cores.to_string(), node.gpus.to_string()), ("0".into(), "1".into()));
        assert!(given_node(&given, 2).is_none());
    }

    #[test]
    fn gpus_are_those_that_the_launcher_lists() {
        assert_eq!(visible("3,5").to_string(), "3,5");
        assert_eq!(visible("GPU-a81b,GPU-77").to_string(), "0-1");
        assert!(["", "-1", "NoDevFiles"].iter().all(|list| visible(list).is_empty()));
    }
}
