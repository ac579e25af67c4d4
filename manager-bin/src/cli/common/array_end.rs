//! Waits until all elements of a job array have ended.

use std::time::Duration;

use jobtap_core::job::JobId;

use super::ids::show_id;
use super::message::{CliError, plural};
use super::session;
use super::work::Work;
use crate::client::{Client, RpcError};
use crate::rpc::services::job_list::{Array, GetArray};
use crate::rpc::services::job_manager::WaitArray;

/// The interval at which the progress is asked for.
const POLL: Duration = Duration::from_millis(500);

/// Waits for an array. The exit code is 0 if all elements have completed, else 1; those that have not are named on
/// standard error.
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
    let mut code = 0;
    for (what, indexes) in [("failed", failed), ("canceled", canceled), ("timed out", timeout)] {
        if !indexes.is_empty() {
            let elements = plural(indexes.len() as u64, "element");
            session::print_message(&format!("{}: {elements} {what}: {indexes}", show_id(id)));
            code = 1;
        }
    }
    Ok(code)
}

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
