//! Waits until all elements of a job array have ended.

use std::time::Duration;

use jobtap_core::job::{JobId, WaitStatus};
use jobtap_core::resource::Idset;

use super::ids::show_id;
use super::message::{CliError, plural};
use super::session;
use super::work::Work;
use crate::client::{Client, RpcError};
use crate::rpc::services::job_list::{Array, GetArray, ListElements, ListId};
use crate::rpc::services::job_manager::WaitArray;

/// The interval at which the progress is asked for.
const POLL: Duration = Duration::from_millis(500);

/// Waits for an array. The exit code is the highest of its elements; those that have not completed are named on standard
/// error.
pub(in crate::cli) async fn wait_for_array(
    client: &Client,
    id: JobId,
    count: u64,
) -> Result<u8, CliError> {
    let work = Work::on("waiting for", count, "jobs");
    let end = client.call(WaitArray { id });
    let array = match work.is_watched() {
        true => tokio::select! {
            end = end => end,
            error = show(client, id, &work) => Err(error),
        },
        false => end.await,
    }?;
    drop(work);
    let Array { failed, canceled, timeout, .. } = &array;
    let mut bad = Idset::new();
    for (what, indexes) in [("failed", failed), ("canceled", canceled), ("timed out", timeout)] {
        if !indexes.is_empty() {
            let elements = plural(indexes.len() as u64, "element");
            session::print_message(&format!("{}: {elements} {what}: {indexes}", show_id(id)));
            bad = bad.union(indexes);
        }
    }
    if bad.is_empty() { Ok(0) } else { highest_code(client, id, bad).await }
}

/// The highest exit code of these elements, which is not 0: that of a job that was never started, or is purged, is 1.
async fn highest_code(client: &Client, id: JobId, bad: Idset) -> Result<u8, CliError> {
    let elements = ListElements { id, indexes: Some(bad), active: false };
    let ids: Vec<JobId> = client.call(elements).await?.jobs.into_values().collect();
    let mut highest = 1;
    for ids in ids.chunks(AT_ONCE) {
        let requests = ids.iter().map(|id| ListId { id: *id, attrs: &["waitstatus"] });
        for found in client.call_all(requests).await {
            let status = found.ok().and_then(|found| found.job.get("waitstatus")?.as_i64());
            let status = status.and_then(|status| i32::try_from(status).ok());
            let code = status.and_then(|status| WaitStatus(status).exit_code());
            highest = highest.max(code.unwrap_or(1));
        }
    }
    Ok(highest)
}

/// The number of jobs that are asked for at once.
const AT_ONCE: usize = 256;

/// Shows the progress; returns only if it can't be asked for.
async fn show(client: &Client, id: JobId, work: &Work) -> RpcError {
    loop {
        match client.call(GetArray { id }).await {
            Ok(Array { completed, failed, canceled, timeout, .. }) => {
                let ended = [completed, failed, canceled, timeout];
                work.at(ended.iter().map(|indexes| indexes.len() as u64).sum());
            }
            Err(error) => return error,
        }
        tokio::time::sleep(POLL).await;
    }
}
