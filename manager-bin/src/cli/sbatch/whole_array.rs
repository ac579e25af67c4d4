//! Dependencies on job arrays. In Slurm the number of an array stands for all of its jobs. Here it is the id of the
//! first job, so a dependency on it is extended by one on each of the other jobs.

use jobtap_core::job::JobId;
use jobtap_core::jobspec::path;
use serde_json::{Value, json};

use crate::client::Client;
use crate::rpc::services::job_info::Lookup;
use crate::rpc::services::job_list::{Constraint, List};

/// The schemes of dependencies on a job that Slurm has words for.
const SCHEMES: [&str; 4] = ["afterstart", "afterany", "afterok", "afternotok"];

/// The number of other jobs, submitted between those of an array, that are searched.
const BETWEEN: usize = 1000;

/// The dependencies on the other jobs of the arrays that these dependencies name.
pub(super) async fn others(client: &Client, dependencies: &[Value]) -> Vec<Value> {
    let mut all = Vec::new();
    for dependency in dependencies {
        let text = |key: &str| dependency.get(key).and_then(Value::as_str).unwrap_or_default();
        let scheme = text("scheme");
        let (id, delay) = match text("value").split_once('+') {
            Some((id, delay)) => (id, format!("+{delay}")),
            None => (text("value"), String::new()),
        };
        let Some(first) = id.parse().ok().filter(|_| SCHEMES.contains(&scheme)) else { continue };
        for job in after_first(client, first).await {
            all.push(additional(scheme, &format!("{}{delay}", job.as_u64())));
        }
    }
    all
}

/// A dependency that follows from the array, and that the user has not requested. The additional key marks it: plugins
/// of Slurm don't see it.
pub(super) fn additional(scheme: &str, value: &str) -> Value {
    json!({"scheme": scheme, "value": value, "array": true})
}

/// The other jobs of the array whose first job is `first`; empty if it isn't the first job of an array.
async fn after_first(client: &Client, first: JobId) -> Vec<JobId> {
    let slurm = noted(client, first).await;
    let is_first = slurm.get("array_task_id").is_some() && slurm.get("array_job_id").is_none();
    let count = slurm.get("array_task_cnt").and_then(Value::as_u64).unwrap_or(0);
    let others = usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(1);
    if !is_first || others == 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    for job in later(client, first).await.into_iter().take(others.saturating_add(BETWEEN)) {
        let array = noted(client, job).await.get("array_job_id").and_then(Value::as_u64);
        if array == Some(first.as_u64()) {
            found.push(job);
        }
        if found.len() == others {
            break;
        }
    }
    found
}

/// The jobs of the user that were submitted after this one, in their order.
async fn later(client: &Client, first: JobId) -> Vec<JobId> {
    let user = Constraint::Userid(vec![rustix::process::getuid().as_raw()]);
    let list = List { max_entries: Some(0), constraint: Some(user.into()), ..List::default() };
    let jobs = client.call(list).await.map(|response| response.jobs).unwrap_or_default();
    let ids = jobs.iter().filter_map(|job| job.get("id")?.as_u64()).map(JobId::new);
    let mut ids: Vec<JobId> = ids.filter(|id| *id > first).collect();
    ids.sort_unstable();
    ids
}

/// What `sbatch` has recorded in the jobspec of a job; null for a job that the user may not read.
async fn noted(client: &Client, id: JobId) -> Value {
    let Ok(values) = client.call(Lookup::key(id, "jobspec")).await else { return Value::Null };
    let jobspec: Value = serde_json::from_str(values.get("jobspec")).unwrap_or_default();
    path::get(&jobspec, "attributes.system.slurm").cloned().unwrap_or_default()
}
