//! `resource.*` and `sched.*`: nodes, and which of their resources are allocated.

use jobtap_core::engine::{DrainMode, NodeRequest, Request};
use jobtap_core::resource::ResourceSet;

use super::handle::{Context, Handle, PendingResponse};
use crate::rpc::RpcError;
use crate::rpc::errno::EINVAL;
use crate::rpc::services::resource::{
    AddMaintenance, Drain, GetSchedStatus, GetStatus, Journal, Offline, Online, Reload,
    RemoveMaintenance, Undrain,
};

fn nodes(request: NodeRequest) -> Result<PendingResponse, RpcError> {
    Ok(PendingResponse::FromEngine(Request::Nodes(request)))
}

impl Handle for GetStatus {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.read(|engine, _| Ok(engine.resource_status()))
    }
}

impl Handle for GetSchedStatus {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.read(|engine, _| Ok(engine.sched_resource_status()))
    }
}

impl Handle for Journal {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let request = Request::Nodes(NodeRequest::Journal);
        Ok(PendingResponse::EngineStream(context.engine.stream(context.cred, request)))
    }
}

impl Handle for Drain {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { targets, reason, mode } = self;
        let mode = drain_mode(mode.as_deref())?;
        nodes(NodeRequest::Drain { targets, reason, mode })
    }
}

impl Handle for Undrain {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { targets, reason, mode } = self;
        let mode = drain_mode(mode.as_deref())?;
        nodes(NodeRequest::Undrain { targets, reason, mode })
    }
}

fn drain_mode(mode: Option<&str>) -> Result<DrainMode, RpcError> {
    match mode {
        None => Ok(DrainMode::New),
        Some(Drain::UPDATE) => Ok(DrainMode::Update),
        Some(Drain::OVERWRITE) => Ok(DrainMode::Overwrite),
        Some(Drain::FORCE_OVERWRITE) => Ok(DrainMode::Restamp),
        Some(_) => Err(RpcError::new(EINVAL, "invalid mode specified")),
    }
}

impl Handle for Offline {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { targets, reason } = self;
        nodes(NodeRequest::Offline { targets, reason })
    }
}

impl Handle for Online {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        nodes(NodeRequest::Online { targets: self.targets })
    }
}

impl Handle for Reload {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let malformed = |error| RpcError::new(EINVAL, format!("R: {error}"));
        let resources: ResourceSet = self.r.to_string().parse().map_err(malformed)?;
        let resources = Box::new(resources);
        nodes(NodeRequest::Reload { resources, force: self.force })
    }
}

impl Handle for AddMaintenance {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { targets, from, to, reason } = self;
        let reason = reason.unwrap_or_default();
        nodes(NodeRequest::AddMaintenance { targets, from, to, reason })
    }
}

impl Handle for RemoveMaintenance {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        nodes(NodeRequest::RemoveMaintenance { id: self.id })
    }
}
