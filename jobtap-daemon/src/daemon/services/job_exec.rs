//! `job-exec.*`: the tasks of a job.

use std::time::Duration;

use jobtap_core::engine::Request;

use super::handle::{Context, Handle, PendingResponse, written};
use crate::exec::JobCommand;
use crate::rpc::RpcError;
use crate::rpc::errno::ETIMEDOUT;
use crate::rpc::services::Done;
use crate::rpc::services::job_exec::{Override, Proctable, Resize, Stdin, Tasks};

/// How long to wait for the executor's report. An executor that ends meanwhile sends none.
const PATIENCE: Duration = Duration::from_secs(10);

impl Handle for Proctable {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.parts.records.main_log_for(self.id, context.cred)?;
        let tasks = tokio::time::timeout(PATIENCE, context.parts.execution.tasks(self.id));
        PendingResponse::one(async move {
            let silent = |_| RpcError::new(ETIMEDOUT, "the shepherd doesn't answer");
            let tasks = tasks.await.map_err(silent)?.unwrap_or_default();
            written::<Self>(&Tasks { tasks })
        })
    }
}

impl Handle for Override {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { jobid, event, status } = self;
        Ok(PendingResponse::FromEngine(Request::Override { id: jobid, event, status }))
    }
}

impl Handle for Resize {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { id, rows, columns } = self;
        context.parts.records.main_log_for(id, context.cred)?;
        context.parts.execution.pass(JobCommand::Resize { id, rows, columns });
        PendingResponse::now::<Self>(&Done {})
    }
}

impl Handle for Stdin {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { id, data, eof, rank } = self;
        context.parts.records.main_log_for(id, context.cred)?;
        context.parts.execution.pass(JobCommand::Stdin { id, rank, data, eof });
        PendingResponse::now::<Self>(&Done {})
    }
}
