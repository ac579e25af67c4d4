//! Slurm's prologs and epilogs (PrEp), as a host calls them.

use crate::job::JobId;
use crate::topic::TopicId;

/// A node of a job, at the topics `slurm.prolog` and `slurm.epilog`, which are called for each node.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # #[derive(Default)]
/// # struct Scratch;
/// #[jobtap_plugin(name = "scratch")]
/// impl Scratch {
///     #[on("slurm.prolog", timeout = "1m")]
///     async fn make(job: JobInfo, node: Node, remote: Remote<Self>) -> Result<(), PrologFailed> {
///         let make = Process::new("ssh").args([&*node.host, "make-scratch"]).arg(job.id.to_string());
///         let end = remote.run_process(make).await?;
///         Ok(end.success()?)
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its rank.
    pub rank: u32,
    /// The name of its host.
    pub host: String,
}

/// The failure of a Slurm prolog or epilog.
#[derive(Debug)]
pub struct PrepFailure {
    /// The topic.
    pub topic: TopicId,
    /// The job.
    pub job: JobId,
    /// The description of the prolog or epilog that is open for it; `None` for a handler that is
    /// not asynchronous.
    pub description: Option<String>,
    /// The node, at the topics that are called for each node.
    pub node: Option<Node>,
    /// What has failed, for the log and the user.
    pub note: String,
}
