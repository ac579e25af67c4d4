//! The job as which a manager runs, if it does. The manager has the resources of that job, as long as the
//! job has them, and writes its address into the memo of the job.

use std::fmt::Display;
use std::future::pending;
use std::path::PathBuf;
use std::time::Duration;

use jobtap_core::engine::end_of_started;
use jobtap_core::job::JobId;
use jobtap_core::resource::ResourceSet;
use serde_json::Map;
use tokio::sync::watch;

use crate::cli::job::EventStream;
use crate::cli::message::CliError;
use crate::client::{Client, ClientError, RpcError};
use crate::rpc::services::config::Get;
use crate::rpc::services::job_info::Lookup;
use crate::rpc::services::job_manager::Memo;

/// How long the manager of that job may take to tell its resources. To go on without them would be to
/// take what other jobs have.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it may take to note an address, without which everything works all the same.
const SHORT_PATIENCE: Duration = Duration::from_secs(2);

/// The event from which a job's time limit counts.
const START: &str = "start";

/// The event that moves the end of a job's time.
const UPDATE: &str = "resource-update";

/// The variables that describe a job to its tasks. They are removed from the environment of jobs of this
/// manager, which are not tasks of the enclosing job.
const OF_TASKS: [&str; 6] =
    ["JOB_ID", "JOB_SIZE", "JOB_NNODES", "JOB_TMPDIR", "TASK_RANK", "TASK_LOCAL_ID"];

/// The names of [`OF_TASKS`] in the environment.
pub(super) fn variables() -> impl Iterator<Item = String> {
    ["JOBTAP", "FLUX"].iter().flat_map(|prefix| OF_TASKS.map(|name| format!("{prefix}_{name}")))
}

/// The job that this process is the task of.
pub(super) struct Enclosing {
    id: JobId,
    tasks: u32,
    manager: Result<PathBuf, ClientError>,
}

impl Enclosing {
    /// The job that the environment names. Jobs of Flux itself do not have these variables, and their
    /// manager does not have this protocol.
    pub(super) fn named() -> Option<Self> {
        let variable = |name| std::env::var(name).ok();
        let id = variable("JOBTAP_JOB_ID")?.parse().ok()?;
        let tasks = variable("JOBTAP_JOB_SIZE")?.parse().ok()?;
        match Client::socket() {
            Err(ClientError::NoUri) => None,
            manager => Some(Self { id, tasks, manager }),
        }
    }

    /// Whether this process is the only task of the job, and so has all of its resources.
    pub(super) const fn is_mine(&self) -> bool {
        self.tasks == 1
    }

    /// The job's resources.
    ///
    /// # Errors
    /// Its manager doesn't tell them.
    pub(super) async fn resources(&self) -> Result<ResourceSet, CliError> {
        self.resources_within(PATIENCE).await
    }

    async fn resources_within(&self, patience: Duration) -> Result<ResourceSet, CliError> {
        let reason = match tokio::time::timeout(patience, self.learn()).await {
            Ok(Ok(resources)) => return Ok(resources),
            Ok(Err(error)) => error.text,
            Err(_) => format!("its manager doesn't answer within {} s", patience.as_secs()),
        };
        Err(CliError::failure(format!(
            "job {}: its resources can't be learned: {reason}; try again, say what to use with \
             --test-size or [resource] config, or unset JOBTAP_JOB_ID to use the whole host",
            self.id
        )))
    }

    async fn learn(&self) -> Result<ResourceSet, CliError> {
        let manager = self.connect().await?;
        let mut events = self.events(&manager).await?;
        while let Some(event) = events.next().await {
            let event = event?;
            if event.name == START {
                return self.allocated(&manager, event.timestamp.as_secs()).await;
            }
        }
        Err(CliError::failure("it doesn't run"))
    }

    async fn events(&self, manager: &Client) -> Result<EventStream, RpcError> {
        EventStream::open(manager, self.id, "eventlog", false).await
    }

    /// The resources of the job, which `started` then (UNIX seconds), with the end that its manager
    /// goes by: R says what was planned.
    async fn allocated(&self, manager: &Client, started: f64) -> Result<ResourceSet, CliError> {
        let values = manager.call(Lookup::key(self.id, "R").current()).await?;
        let wrong = |error: &dyn Display| CliError::failure(format!("R: {error}"));
        let mut resources: ResourceSet = values.get("R").parse().map_err(|error| wrong(&error))?;
        let config = manager.call(Get {}).await?;
        let end = end_of_started(&resources, started, &config).map_err(CliError::failure)?;
        resources.set_expiration(end.unwrap_or(0.0)).map_err(|error| wrong(&error))?;
        Ok(resources)
    }

    /// Sends each new end of the job's time (UNIX seconds, 0 for none) until the job is inactive.
    ///
    /// # Errors
    /// The connection is lost, or the job's manager refuses.
    pub(super) async fn tell_ends(&self, told: &watch::Sender<f64>) -> Result<(), CliError> {
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
            told.send_if_modified(|last| std::mem::replace(last, end).total_cmp(&end).is_ne());
        }
        Ok(())
    }

    /// Writes the address of this manager into the memo of the job, for `jobs --recursive`.
    pub(super) async fn announce(&self, uri: &str) {
        let memo = Map::from_iter([("uri".to_owned(), uri.into())]);
        let request = Memo { id: self.id, volatile: false, memo };
        let noted = async {
            let manager = self.connect().await?;
            manager.call(request).await.map_err(CliError::from)
        };
        let _ = tokio::time::timeout(SHORT_PATIENCE, noted).await;
    }

    async fn connect(&self) -> Result<Client, CliError> {
        let socket = self.manager.as_ref().map_err(CliError::failure)?;
        Ok(Client::connect_to(socket).await?)
    }
}

/// After this time a connection to the enclosing manager is tried again, since it may restart.
const PAUSE: Duration = Duration::from_secs(5);

/// The end of a manager's resources.
pub(super) struct End(Option<watch::Receiver<f64>>);

impl End {
    /// An end that does not move.
    pub(super) const fn fixed() -> Self {
        Self(None)
    }

    /// The end of a job (UNIX seconds, 0 for none), of which `known` is the last one.
    pub(super) fn of(job: Enclosing, known: f64) -> Self {
        let (told, ends) = watch::channel(known);
        tokio::spawn(async move {
            while job.tell_ends(&told).await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self(Some(ends))
    }

    /// Waits until it has moved, and returns the new one. A move in between two waits is not lost.
    pub(super) async fn moved(&mut self) -> f64 {
        if let Some(ends) = &mut self.0
            && ends.changed().await.is_ok()
        {
            return *ends.borrow_and_update();
        }
        pending().await
    }

    /// The last one that is known.
    pub(super) fn last(&self) -> Option<f64> {
        self.0.as_ref().map(|ends| *ends.borrow())
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    #[test]
    fn resources_that_cannot_be_learned_are_told_with_the_way_out() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let refusal = |name: &str| {
            let manager = Ok(directory.path().join(name));
            let job = Enclosing { id: "f3".parse().unwrap(), tasks: 1, manager };
            runtime.block_on(job.resources_within(Duration::from_millis(1))).unwrap_err().text
        };
        let dead = refusal("dead");
        assert!(dead.starts_with("job ƒ3: its resources can't be learned: no manager"), "{dead}");
        assert!(dead.contains("--test-size") && dead.contains("unset JOBTAP_JOB_ID"), "{dead}");
        // A socket on which no manager responds.
        let _slow =
            runtime.block_on(async { UnixListener::bind(directory.path().join("slow")) }).unwrap();
        let slow = refusal("slow");
        assert!(slow.contains("its manager doesn't answer within"), "{slow}");
    }
}
