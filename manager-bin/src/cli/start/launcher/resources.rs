//! What the launcher has given this node: its name, its cores and GPUs, and the end of the allocation.

use std::ffi::OsStr;
use std::process::Stdio;
use std::time::Duration;

use jobtap_core::engine::Level;
use jobtap_core::resource::{Idset, ResourceError as SetError, ResourceSet};
use tokio::process::Command;
use tokio::time::timeout;

use crate::cli::instance::version;
use crate::daemon::resources::{ResourceError, available_cores, hostname};
use crate::exec::nodes::NodeInfo;
use crate::stderr;

/// How long Flux may take to say when a job ends.
const FLUX: Duration = Duration::from_secs(20);

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// This node, as the task with this rank.
pub(in crate::cli::start) fn own_node(rank: u32) -> Result<NodeInfo, ResourceError> {
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

/// When the job of Slurm ends in which this runs (UNIX seconds), if Slurm says so.
pub(in crate::cli::start) fn end_of_slurm_job() -> Option<f64> {
    variable("SLURM_JOB_END_TIME").and_then(|text| text.parse().ok())
}

/// When the allocation ends (UNIX seconds); 0 if the launcher names no end. A Flux that doesn't name it is told of.
pub(in crate::cli::start) async fn end_of_allocation() -> f64 {
    if let Some(end) = end_of_slurm_job() {
        return end;
    }
    let (Some(id), Some(_)) = (variable("FLUX_JOB_ID"), variable("FLUX_URI")) else { return 0.0 };
    match end_of_flux_job("flux", &id, FLUX).await {
        Ok(end) => end.unwrap_or(0.0),
        Err(error) => {
            let text = format!(
                "jobtap: the end of the allocation isn't known: `flux job info {id} R` {error}"
            );
            stderr::line_of(Level::Warning, &text);
            0.0
        }
    }
}

/// Why the end of a job of Flux isn't known: what its command does instead of printing it.
#[derive(Debug, thiserror::Error)]
enum FluxError {
    #[error("has not answered within {} s", .0.as_secs())]
    Silent(Duration),
    #[error("can't be run: {0}")]
    Start(#[from] std::io::Error),
    #[error("has failed: {0}")]
    Failed(String),
    #[error("prints no resources: {0}")]
    Unreadable(#[from] SetError),
}

/// The end of the job of Flux that this process is a task of, which only Flux's own command knows.
async fn end_of_flux_job(
    flux: impl AsRef<OsStr>,
    id: &str,
    limit: Duration,
) -> Result<Option<f64>, FluxError> {
    let mut asking = Command::new(flux);
    asking.args(["job", "info", id, "R"]).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(limit, asking.output()).await.map_err(|_| FluxError::Silent(limit))??;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(FluxError::Failed(said.trim().to_owned()));
    }
    let resources: ResourceSet = String::from_utf8_lossy(&output.stdout).parse()?;
    Ok(resources.expiration())
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::os::unix::fs::PermissionsExt;

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

    /// Asks a Flux that is this script for the end of its job.
    async fn ask(script: &str, limit: Duration) -> Result<Option<f64>, FluxError> {
        let directory = tempfile::tempdir().unwrap();
        let flux = directory.path().join("flux");
        std::fs::write(&flux, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&flux, std::fs::Permissions::from_mode(0o755)).unwrap();
        loop {
            match end_of_flux_job(&flux, "f1", limit).await {
                // A process that another test starts at this moment has the script open.
                Err(FluxError::Start(error)) if error.kind() == ErrorKind::ExecutableFileBusy => {}
                answered => return answered,
            }
        }
    }

    #[tokio::test]
    async fn a_flux_that_does_not_name_the_end_is_an_error_in_words() {
        let long = Duration::from_secs(60);
        let set = r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],
            "nodelist":["n1"],"starttime":0,"expiration":90}}"#;
        assert_eq!(ask(&format!("cat <<END\n{set}\nEND"), long).await.unwrap(), Some(90.0));
        let slow = ask("exec sleep 60", Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(slow.to_string(), "has not answered within 0 s");
        let failed = ask("echo no such job >&2; exit 1", long).await.unwrap_err();
        assert_eq!(failed.to_string(), "has failed: no such job");
        let other = ask("echo hello", long).await.unwrap_err().to_string();
        assert!(other.starts_with("prints no resources: "), "{other}");
        let none = end_of_flux_job("/no/such/flux", "f1", long).await.unwrap_err().to_string();
        assert!(none.starts_with("can't be run: No such file"), "{none}");
    }

    #[test]
    fn gpus_are_those_that_the_launcher_lists() {
        assert_eq!(visible("3,5").to_string(), "3,5");
        assert_eq!(visible("GPU-a81b,GPU-77").to_string(), "0-1");
        assert!(["", "-1", "NoDevFiles"].iter().all(|list| visible(list).is_empty()));
    }
}
