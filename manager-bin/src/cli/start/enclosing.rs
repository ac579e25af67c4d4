//! The enclosing job: the job that a manager runs as, if any. The manager uses the resources of that job until the job
//! expires, and sets its own address as a memo of the job.

use std::ffi::OsString;
use std::fmt::Display;
use std::future::pending;
use std::path::PathBuf;
use std::time::Duration;

use jobtap_core::engine::end_of_started;
use jobtap_core::job::JobId;
use jobtap_core::resource::ResourceSet;
use serde_json::Map;
use tokio::sync::watch;

use crate::cli::common::hosts::are_hosts;
use crate::cli::common::ids::show_id;
use crate::cli::common::message::CliError;
use crate::cli::job::EventStream;
use crate::client::{Client, ClientError, RpcError};
use crate::daemon::attributes::JOBID_PATH;
use crate::rpc::services::attr::Get as Attribute;
use crate::rpc::services::config::Get;
use crate::rpc::services::job_info::Lookup;
use crate::rpc::services::job_manager::Memo;
use crate::rpc::uri;

/// How long the manager of the enclosing job may take to respond with the job's resources. Without a response
/// this manager doesn't start, since it would use resources that are allocated to other jobs.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long it may take to set the memo with the address, which only `jobs --recursive` needs, and to learn the
/// level in the hierarchy, which only `uptime` and `getattr` show.
const MEMO_TIMEOUT: Duration = Duration::from_secs(2);

/// The event from which the time limit of a job counts.
const START: &str = "start";

/// The event in the exec eventlog for the first exit of a task.
const TASK_EXIT: &str = "shell.task-exit";

/// The event that changes the expiration of a job.
const UPDATE: &str = "resource-update";

/// The variables that describe a job to its tasks. They are removed from the environment of this manager's
/// jobs, which aren't tasks of the enclosing job.
const TASK_VARIABLES: [&str; 9] = [
    "JOB_ID",
    "JOB_ID_PATH",
    "JOB_SIZE",
    "JOB_NNODES",
    "JOB_TMPDIR",
    "KVS_NAMESPACE",
    "RANK",
    "TASK_RANK",
    "TASK_LOCAL_ID",
];

/// The prefixes of the variables by which MPI programs find each other, and of those of other job managers. If this
/// manager runs as a job of such a manager, its programs would take themselves for processes of that job. They are
/// removed too, as in Flux.
const LAUNCHERS: [&str; 4] = ["PMI_", "PMIX_", "PALS_", "SLURM_"];
const LIBRARIES: [&str; 2] = ["FLUX_PMI_LIBRARY_PATH", "I_MPI_PMI_LIBRARY"];

/// The names of the variables that are removed from the environment of this manager's programs.
pub(super) fn variables() -> impl Iterator<Item = OsString> {
    let own = ["JOBTAP", "FLUX"]
        .iter()
        .flat_map(|prefix| TASK_VARIABLES.map(|name| format!("{prefix}_{name}").into()));
    let of_launcher = |name: &OsString| {
        let name = name.as_encoded_bytes();
        LAUNCHERS.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
    };
    let set = std::env::vars_os().map(|(name, _)| name).filter(of_launcher);
    own.chain(LIBRARIES.map(OsString::from)).chain(set)
}

/// The job that this process is a task of.
pub(super) struct Enclosing {
    id: JobId,
    /// The rank of this process among the tasks of the job.
    rank: u32,
    /// The ids of the jobs that enclose this process, from the outermost.
    path: String,
    manager: Result<PathBuf, ClientError>,
}

impl Enclosing {
    /// The job that the environment names. Jobs of Flux don't have these variables, and Flux doesn't have
    /// this protocol.
    pub(super) fn from_environment() -> Option<Self> {
        let variable = |name| std::env::var(name).ok();
        let id = variable("JOBTAP_JOB_ID")?.parse().ok()?;
        let rank = variable("JOBTAP_TASK_RANK").map_or(Some(0), |rank| rank.parse().ok())?;
        let path = variable("JOBTAP_JOB_ID_PATH").unwrap_or_else(|| format!("/{}", show_id(id)));
        match Client::socket() {
            Err(ClientError::NoUri) => None,
            manager => Some(Self { id, rank, path, manager }),
        }
    }

    /// The job's id.
    pub(super) const fn id(&self) -> JobId {
        self.id
    }

    /// Returns true if this process is the first task of the job. On one host it runs the instance, with all resources of
    /// the job, and the other tasks only wait for its end.
    pub(super) const fn is_first_task(&self) -> bool {
        self.rank == 0
    }

    /// Whether the nodes of the job are hosts of their own, which its tasks then serve.
    pub(super) async fn has_hosts(&self, resources: &ResourceSet) -> Result<bool, CliError> {
        if resources.nnodes() <= 1 {
            return Ok(false);
        }
        self.ask(TIMEOUT, RETRY, async || Ok(are_hosts(&self.connect().await?).await?)).await
    }

    /// Waits until the first task of the job exits.
    pub(super) async fn first_task_exits(&self) {
        // The connection is lost when the manager of the job restarts.
        while self.watch_tasks().await.is_err() {
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Returns when the first task has exited, or when the job is inactive.
    async fn watch_tasks(&self) -> Result<(), CliError> {
        let manager = self.connect().await?;
        let mut events = EventStream::open(&manager, self.id, "guest.exec.eventlog", true).await?;
        while let Some(event) = events.next().await {
            let event = event?;
            // Only the first exit is logged, and the first failure. The other tasks wait, so that the first
            // exit is that of the first task, unless one of them was killed: then the job ends.
            if event.name == TASK_EXIT {
                break;
            }
        }
        Ok(())
    }

    /// The attributes of this manager that describe its place in the hierarchy of managers. If the manager of the job
    /// doesn't respond, the level is 1.
    pub(super) async fn attributes(&self) -> Vec<(&'static str, String)> {
        let level = async {
            let name = "instance-level".to_owned();
            self.connect()
                .await
                .ok()?
                .call(Attribute { name })
                .await
                .ok()?
                .value
                .parse::<u32>()
                .ok()
        };
        let level = tokio::time::timeout(MEMO_TIMEOUT, level).await.ok().flatten();
        let level = level.unwrap_or(0).saturating_add(1).to_string();
        let mut attributes = vec![
            ("instance-level", level),
            ("jobid", show_id(self.id)),
            (JOBID_PATH, self.path.clone()),
            ("parent-kvs-namespace", format!("job-{}", self.id.as_u64())),
        ];
        attributes
            .extend(self.manager.as_ref().ok().map(|path| ("parent-uri", uri::of_path(path))));
        attributes
    }

    /// The resources of the job.
    ///
    /// # Errors
    /// The manager of the job doesn't respond, or the job isn't running.
    pub(super) async fn resources(&self) -> Result<ResourceSet, CliError> {
        self.resources_within(TIMEOUT).await
    }

    async fn resources_within(&self, timeout: Duration) -> Result<ResourceSet, CliError> {
        let unknown = |CliError { text: reason, .. }| {
            CliError::failure(format!(
                "job {}: its resources can't be learned: {reason}; try again, set the resources with \
                 --test-size or [resource] config, or unset JOBTAP_JOB_ID to use the whole host",
                self.id
            ))
        };
        self.ask(timeout, RETRY, async || self.request_resources().await).await.map_err(unknown)
    }

    /// Asks the manager of the job. The first task gets an error at once. The others ask again for as long as `limit` says:
    /// the manager may be restarting, and the first task runs.
    async fn ask<T>(
        &self,
        limit: Duration,
        pause: Duration,
        question: impl AsyncFn() -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let mut last = format!("its manager doesn't respond within {} s", limit.as_secs());
        let asking = async {
            loop {
                match question().await {
                    Err(error) if !self.is_first_task() => last = error.text,
                    answer => return answer,
                }
                tokio::time::sleep(pause).await;
            }
        };
        let answered = tokio::time::timeout(limit, asking).await;
        answered.unwrap_or_else(|_| Err(CliError::failure(last)))
    }

    async fn request_resources(&self) -> Result<ResourceSet, CliError> {
        let manager = self.connect().await?;
        let mut events = self.events(&manager).await?;
        while let Some(event) = events.next().await {
            let event = event?;
            if event.name == START {
                return self.allocated(&manager, event.timestamp.as_secs()).await;
            }
        }
        Err(CliError::failure("it isn't running"))
    }

    async fn events(&self, manager: &Client) -> Result<EventStream, RpcError> {
        EventStream::open(manager, self.id, "eventlog", false).await
    }

    /// The resources of the job, which started at the time `started` in seconds since the epoch. Their expiration is
    /// computed as the job's manager computes it, since R contains only the planned one.
    async fn allocated(&self, manager: &Client, started: f64) -> Result<ResourceSet, CliError> {
        let values = manager.call(Lookup::key(self.id, "R").current()).await?;
        let wrong = |error: &dyn Display| CliError::failure(format!("R: {error}"));
        let mut resources: ResourceSet = values.get("R").parse().map_err(|error| wrong(&error))?;
        let config = manager.call(Get {}).await?;
        let end = end_of_started(&resources, started, &config).map_err(CliError::failure)?;
        resources.set_expiration(end.unwrap_or(0.0)).map_err(|error| wrong(&error))?;
        Ok(resources)
    }

    /// Sends each new expiration of the job until the job is inactive, in seconds since the epoch, 0 for
    /// none.
    ///
    /// # Errors
    /// The connection is lost, or the manager of the job refuses the request.
    async fn watch_expiration(&self, sender: &watch::Sender<f64>) -> Result<(), CliError> {
        let manager = self.connect().await?;
        let mut events = self.events(&manager).await?;
        let mut started = None;
        while let Some(event) = events.next().await {
            let event = event?;
            if event.name == START {
                started = Some(event.timestamp.as_secs());
            }
            let Some(started) = started.filter(|_| [START, UPDATE].contains(&&*event.name)) else {
                continue;
            };
            let end = self.allocated(&manager, started).await?.expiration().unwrap_or(0.0);
            sender.send_if_modified(|last| std::mem::replace(last, end).total_cmp(&end).is_ne());
        }
        Ok(())
    }

    /// Sets the address of this manager as the memo `uri` of the job, for `jobs --recursive`.
    pub(super) async fn announce(&self, uri: &str) {
        let memo = Map::from_iter([("uri".to_owned(), uri.into())]);
        let request = Memo { id: self.id, volatile: false, memo };
        let sent = async {
            let manager = self.connect().await?;
            manager.call(request).await.map_err(CliError::from)
        };
        // An error is ignored: the manager works without the memo.
        let _ = tokio::time::timeout(MEMO_TIMEOUT, sent).await;
    }

    async fn connect(&self) -> Result<Client, CliError> {
        let socket = self.manager.as_ref().map_err(CliError::failure)?;
        Ok(Client::connect_to(socket).await?)
    }
}

/// The time after which to reconnect to the enclosing manager when the connection is lost: the manager may be
/// restarting.
const RETRY: Duration = Duration::from_secs(5);

/// The expiration of a manager's resources.
pub(super) struct Expiration(Option<watch::Receiver<f64>>);

impl Expiration {
    /// An expiration that never changes.
    pub(super) const fn fixed() -> Self {
        Self(None)
    }

    /// The expiration of a job: `known` is the present one, in seconds since the epoch, 0 for none.
    pub(super) fn watch_job(job: Enclosing, known: f64) -> Self {
        let (sender, receiver) = watch::channel(known);
        tokio::spawn(async move {
            while job.watch_expiration(&sender).await.is_err() {
                tokio::time::sleep(RETRY).await;
            }
        });
        Self(Some(receiver))
    }

    /// Calls `note` with each new one from now on.
    pub(super) fn note_each(&self, note: impl Fn(f64) + Send + 'static) {
        let Some(mut receiver) = self.0.clone() else { return };
        tokio::spawn(async move {
            while receiver.changed().await.is_ok() {
                note(*receiver.borrow_and_update());
            }
        });
    }

    /// Waits until it changes, and returns the new one. A change between two calls isn't lost.
    pub(super) async fn changed(&mut self) -> f64 {
        if let Some(receiver) = &mut self.0
            && receiver.changed().await.is_ok()
        {
            return *receiver.borrow_and_update();
        }
        // The job is inactive: its expiration doesn't change any more.
        pending().await
    }

    /// The last known expiration.
    pub(super) fn last(&self) -> Option<f64> {
        self.0.as_ref().map(|receiver| *receiver.borrow())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn all_tasks_but_the_first_wait_for_a_manager_that_restarts() {
        let asked = Cell::new(0);
        let question = async || match asked.replace(asked.get() + 1) {
            2 => Ok("answer"),
            _ => Err(CliError::failure("no manager")),
        };
        let of_rank = |rank| Enclosing {
            id: "f3".parse().unwrap(),
            rank,
            path: "/f3".to_owned(),
            manager: Ok(PathBuf::new()),
        };
        let (long, pause) = (Duration::from_secs(60), Duration::from_millis(1));
        let first = of_rank(0).ask(long, pause, question).await;
        assert_eq!((first.unwrap_err().text.as_str(), asked.get()), ("no manager", 1));
        let second = of_rank(1).ask(long, pause, question).await;
        assert_eq!((second.unwrap(), asked.get()), ("answer", 3));
        let later = of_rank(1).ask(pause * 20, pause, question).await;
        assert_eq!(later.unwrap_err().text, "no manager");
        assert!(asked.get() > 3);
    }

    #[test]
    fn unavailable_resources_are_an_error_with_advice() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let refusal = |name: &str| {
            let manager = Ok(directory.path().join(name));
            let id = "f3".parse().unwrap();
            let job = Enclosing { id, rank: 0, path: "/f3".to_owned(), manager };
            runtime.block_on(job.resources_within(Duration::from_millis(1))).unwrap_err().text
        };
        let dead = refusal("dead");
        assert!(dead.starts_with("job ƒ3: its resources can't be learned: no manager"), "{dead}");
        assert!(dead.contains("--test-size") && dead.contains("unset JOBTAP_JOB_ID"), "{dead}");
        // A socket on which no manager responds.
        let _slow =
            runtime.block_on(async { UnixListener::bind(directory.path().join("slow")) }).unwrap();
        let slow = refusal("slow");
        assert!(slow.contains("its manager doesn't respond within"), "{slow}");
    }
}
