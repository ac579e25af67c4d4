//! `allocation.*`: the allocations that an elastic instance has ordered from another job manager.

use std::num::NonZeroU64;

use jobtap_core::engine::{AllocationId, Request};

use super::handle::{Context, Handle, PendingResponse};
use crate::rpc::RpcError;
use crate::rpc::errno::ENOENT;
use crate::rpc::services::allocation::{List, Release};

impl Handle for List {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.read(|engine, _| Ok(engine.allocations()))
    }
}

impl Handle for Release {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let id = NonZeroU64::new(self.id).map(AllocationId);
        let id = id.ok_or_else(|| RpcError::new(ENOENT, "allocations count from 1"))?;
        Ok(PendingResponse::FromEngine(Request::ReleaseAllocation { id }))
    }
}
