//! `job-exec.*`: the tasks of a job.

use std::time::Duration;

use jobtap_core::engine::Request;

use super::{Call, Handle, Reply, to_value};
use crate::rpc::RpcError;
use crate::rpc::errno::ETIMEDOUT;
use crate::rpc::services::Done;
use crate::rpc::services::job_exec::{Override, Proctable, Stdin, Tasks};

/// How long an executor has to say which processes it runs: one that dies meanwhile says nothing.
const PATIENCE: Duration = Duration::from_secs(10);

impl Handle for Proctable {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        call.parts.records.main_log(self.id, call.cred)?;
        let tasks = tokio::time::timeout(PATIENCE, call.parts.execution.tasks(self.id));
        Reply::one(async move {
            let silent = |_| RpcError::new(ETIMEDOUT, "the shepherd doesn't answer");
            let tasks = tasks.await.map_err(silent)?.unwrap_or_default();
            to_value(&Tasks { tasks })
        })
    }
}

impl Handle for Override {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        let Self { jobid, event, status } = self;
        call.request(Request::Override { id: jobid, event, status })
    }
}

impl Handle for Stdin {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        let Self { id, data, eof, rank } = self;
        call.parts.records.main_log(id, call.cred)?;
        call.parts.execution.stdin(id, rank, data, eof);
        Reply::now(&Done {})
    }
}
