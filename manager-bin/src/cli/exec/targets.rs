//! The nodes for which a command is run: those of the manager or of a job, selected by their ranks.

use std::ffi::OsString;

use jobtap_core::job::State;
use jobtap_core::resource::{Idset, ResourceSet};
use serde_json::Value;

use super::process::Node;
use crate::cli::common::hosts::are_hosts;
use crate::cli::common::ids::Target;
use crate::cli::common::message::CliError;
use crate::client::{Client, RpcError};
use crate::rpc::errno::EPERM;
use crate::rpc::services::exec::Announce;
use crate::rpc::services::job_list::ListId;
use crate::rpc::services::resource::GetStatus;

/// The maximum number of bytes of a command that are recorded.
const LONGEST: usize = 1024;

/// The options that choose nodes.
#[derive(Debug, clap::Args)]
pub(super) struct TargetArgs {
    /// Run the command for these ranks only
    #[arg(short = 'r', long, value_name = "IDSET", default_value = "all")]
    rank: String,
    /// Leave these ranks out
    #[arg(short = 'x', long, value_name = "IDSET")]
    exclude: Option<String>,
    /// Run on the nodes of this job; --rank and --exclude then count its nodes from 0
    #[arg(short = 'j', long, value_name = "JOBID")]
    jobid: Option<String>,
}

/// The nodes, and the right by which the user may run a command for them.
pub(super) struct Targets {
    nodes: Vec<Node>,
    right: Right,
    are_hosts: bool,
}

/// Why a user may run a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    /// The user is the instance owner, which the manager checks.
    OfOwner,
    /// The job is the user's own.
    OfJob,
}

/// Whether the command may be run.
pub(super) enum Permission {
    Granted,
    Refused(RpcError),
}

impl TargetArgs {
    /// The nodes that the options select.
    pub(super) async fn find(&self, client: &Client) -> Result<Targets, CliError> {
        let r = client.call(GetStatus {}).await?.r;
        let resources = ResourceSet::from_value(&r).map_err(CliError::failure)?;
        let (all, right) = match &self.jobid {
            Some(id) => (of_job(client, id).await?, Right::OfJob),
            None => (resources.ranks(), Right::OfOwner),
        };
        let ranks = self.choose(&all, right)?;
        let node = |rank| Node { rank, host: resources.host(rank) };
        let are_hosts = are_hosts(client).await?;
        Ok(Targets { nodes: ranks.iter().map(node).collect(), right, are_hosts })
    }

    /// The ranks of `all` that the options select. The options count the nodes of a job from 0.
    fn choose(&self, all: &Idset, right: Right) -> Result<Idset, CliError> {
        let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let known = match right {
            Right::OfOwner => all.clone(),
            Right::OfJob => (0..count).collect(),
        };
        let mut chosen = match self.rank.as_str() {
            "all" => known.clone(),
            text => text.parse().map_err(|_| {
                CliError::failure(format!("failed to decode idset '{text}': Invalid argument"))
            })?,
        };
        if self.rank.is_empty() || !chosen.is_subset(&known) {
            let text = format!("One or more invalid --ranks specified: {}", self.rank);
            return Err(CliError::failure(text));
        }
        if let Some(text) = &self.exclude {
            let excluded: Idset = text.parse().map_err(|_| {
                CliError::failure("error decoding --exclude idset: Invalid argument")
            })?;
            chosen = chosen.difference(&excluded);
        }
        if chosen.is_empty() {
            return Err(CliError::failure("No targets specified"));
        }
        Ok(match right {
            Right::OfOwner => chosen,
            Right::OfJob => {
                let counted = (0..).zip(all.iter());
                counted.filter(|(index, _)| chosen.contains(*index)).map(|(_, rank)| rank).collect()
            }
        })
    }
}

/// The ranks of a running job of this user.
async fn of_job(client: &Client, typed: &str) -> Result<Idset, CliError> {
    let id = Target::parse(typed)?.id;
    let job = client.call(ListId { id, attrs: &["state", "ranks", "userid"] }).await;
    let job = job.map_err(|_| CliError::failure(format!("job {typed} not found")))?.job;
    if job.get("state").and_then(Value::as_u64) != Some(State::Run.value().into()) {
        return Err(CliError::failure(format!("job {typed} is not running")));
    }
    let own = rustix::process::geteuid().as_raw();
    if job.get("userid").and_then(Value::as_u64) != Some(own.into()) {
        return Err(CliError::failure(format!("job {typed} belongs to another user")));
    }
    let ranks = job.get("ranks").and_then(Value::as_str).and_then(|ranks| ranks.parse().ok());
    ranks.ok_or_else(|| CliError::failure(format!("job {typed} has no nodes")))
}

impl Targets {
    /// The ranks of the nodes.
    pub(super) fn ranks(&self) -> Idset {
        self.nodes.iter().map(|node| node.rank).collect()
    }

    /// Whether each node is a host of its own.
    pub(super) fn are_hosts(&self) -> bool {
        self.are_hosts
    }

    /// The nodes.
    pub(super) fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }

    /// Asks the manager whether the user may run a command for these nodes.
    pub(super) async fn permission(
        &self,
        client: &Client,
        words: &[OsString],
    ) -> Result<Permission, CliError> {
        // On other hosts, the command is run by the manager and not by this process.
        if self.right == Right::OfJob && !self.are_hosts {
            return Ok(Permission::Granted);
        }
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let mut command = words.join(" ");
        command.truncate(command.floor_char_boundary(LONGEST));
        match client.call(Announce { ranks: self.ranks().to_string(), command }).await {
            Ok(_) => Ok(Permission::Granted),
            Err(refused) if refused.errno == EPERM => Ok(Permission::Refused(refused)),
            Err(other) => Err(other.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(rank: &str, exclude: Option<&str>, right: Right) -> Result<String, CliError> {
        let args =
            TargetArgs { rank: rank.to_owned(), exclude: exclude.map(str::to_owned), jobid: None };
        let all: Idset = if right == Right::OfJob { "4,7" } else { "0-3" }.parse().unwrap();
        args.choose(&all, right).map(|ranks| ranks.to_string())
    }

    #[test]
    fn ranks_are_those_of_the_manager() {
        let of = |rank, exclude| chosen(rank, exclude, Right::OfOwner);
        assert_eq!(of("all", None).unwrap(), "0-3");
        assert_eq!(of("1-2", Some("2,9")).unwrap(), "1");
        for (rank, exclude, text) in [
            ("1,9", None, "One or more invalid --ranks specified: 1,9"),
            ("", None, "One or more invalid --ranks specified: "),
            ("3-1", None, "failed to decode idset '3-1': Invalid argument"),
            ("0", Some("x"), "error decoding --exclude idset: Invalid argument"),
            ("all", Some("0-3"), "No targets specified"),
        ] {
            assert_eq!(of(rank, exclude).unwrap_err().text, text);
        }
    }

    #[test]
    fn ranks_of_a_job_are_counted() {
        let of = |rank, exclude| chosen(rank, exclude, Right::OfJob);
        assert_eq!(of("all", None).unwrap(), "4,7");
        assert_eq!(of("1", None).unwrap(), "7");
        assert_eq!(of("all", Some("0")).unwrap(), "7");
        assert!(of("4", None).unwrap_err().text.starts_with("One or more invalid"));
    }
}
