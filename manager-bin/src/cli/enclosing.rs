//! The job that a manager is, when it was started as one: it has that job's resources and no others, for
//! as long as the job has them, and the job tells where the manager is found.

use std::time::Duration;

use jobtap_core::job::JobId;
use jobtap_core::resource::ResourceSet;
use serde_json::{Value, json};

use crate::client::Client;

/// How long the manager of that job may take to answer. Without it everything works all the same.
const PATIENCE: Duration = Duration::from_secs(2);

/// Flag of `job-info.lookup`: with what later updates changed.
const CURRENT: u32 = 2;

/// What a task learns of its job from its environment, and who is no task of it must not.
const OF_TASKS: [&str; 6] =
    ["JOB_ID", "JOB_SIZE", "JOB_NNODES", "JOB_TMPDIR", "TASK_RANK", "TASK_LOCAL_ID"];

/// The names of [`OF_TASKS`] in the environment.
pub(super) fn variables() -> impl Iterator<Item = String> {
    ["JOBTAP", "FLUX"].iter().flat_map(|prefix| OF_TASKS.map(|name| format!("{prefix}_{name}")))
}

/// The job that this process is the task of.
pub(super) struct Enclosing {
    manager: Client,
    id: JobId,
}

impl Enclosing {
    /// The job that the environment names, if its manager answers.
    pub(super) async fn find() -> Option<Self> {
        let id = variable("JOB_ID")?.parse().ok()?;
        let manager = tokio::time::timeout(PATIENCE, Client::connect()).await.ok()?.ok()?;
        Some(Self { manager, id })
    }

    /// The job's resources. None where several tasks share them.
    pub(super) async fn resources(&self) -> Option<ResourceSet> {
        if variable("JOB_SIZE").as_deref() != Some("1") {
            return None;
        }
        let payload = json!({ "id": self.id, "keys": ["R"], "flags": CURRENT });
        let answer = self.ask("job-info.lookup", payload).await?;
        answer.get("R")?.as_str()?.parse().ok()
    }

    /// Notes the address of this manager on the job, for those who look for its jobs.
    pub(super) async fn announce(&self, uri: &str) {
        let payload = json!({ "id": self.id, "memo": { "uri": uri } });
        self.ask("job-manager.memo", payload).await;
    }

    async fn ask(&self, topic: &str, payload: Value) -> Option<Value> {
        tokio::time::timeout(PATIENCE, self.manager.rpc(topic, payload)).await.ok()?.ok()
    }
}

fn variable(name: &str) -> Option<String> {
    ["JOBTAP", "FLUX"].iter().find_map(|prefix| std::env::var(format!("{prefix}_{name}")).ok())
}
