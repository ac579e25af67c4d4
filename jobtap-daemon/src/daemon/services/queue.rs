//! `job-manager.queue-*`, and other services about pending jobs as a whole.

use jobtap_core::engine::Request;

use super::handle::{Context, Handle, PendingResponse};
use crate::rpc::RpcError;
use crate::rpc::services::queue::{
    AllocQuery, Drain, Enable, GetOverview, GetStatus, Idle, List, Start,
};

impl Handle for Enable {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let target = self.target();
        let Self { enable, reason, .. } = self;
        Ok(PendingResponse::FromEngine(Request::QueueEnable { target, enable, reason }))
    }
}

impl Handle for Start {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let target = self.target();
        let Self { start, reason, nocheckpoint, .. } = self;
        Ok(PendingResponse::FromEngine(Request::QueueStart { target, start, reason, nocheckpoint }))
    }
}

impl Handle for List {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.read(|engine, _| Ok(engine.queue_names()))
    }
}

impl Handle for GetStatus {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.read(move |engine, _| engine.queue_status(self.name.as_deref()))
    }
}

impl Handle for GetOverview {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.read(|engine, _| Ok(engine.queue_overview()))
    }
}

impl Handle for AllocQuery {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.read(|engine, _| Ok(engine.alloc_query()))
    }
}

impl Handle for Drain {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.wait(Request::Drain)
    }
}

impl Handle for Idle {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.wait(Request::Idle)
    }
}
