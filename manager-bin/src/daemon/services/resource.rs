//! `resource.*` and `sched.*`: nodes and what is allocated of them.

use jobtap_core::engine::{DrainMode, NodeRequest, Request};
use jobtap_core::resource::ResourceSet;

use super::{Call, Handle, Reply};
use crate::rpc::RpcError;
use crate::rpc::errno::EINVAL;
use crate::rpc::services::resource::{
    AddMaintenance, Drain, GetSchedStatus, GetStatus, Journal, Offline, Online, Reload,
    RemoveMaintenance, Undrain,
};

fn nodes(call: &Call<'_>, request: NodeRequest) -> Result<Reply, RpcError> {
    call.request(Request::Nodes(request))
}

impl Handle for GetStatus {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        call.read(|engine, _| Ok(engine.resource_status()))
    }
}

impl Handle for GetSchedStatus {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        call.read(|engine, _| Ok(engine.sched_resource_status()))
    }
}

impl Handle for Journal {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        let request = Request::Nodes(NodeRequest::Journal);
        Ok(Reply::Engine(call.engine.stream(call.cred, request)))
    }
}

impl Handle for Drain {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        let mode = match self.mode.as_deref() {
            None => DrainMode::New,
            Some(Self::UPDATE) => DrainMode::Update,
            Some(Self::OVERWRITE) => DrainMode::Overwrite,
            Some(Self::FORCE_OVERWRITE) => DrainMode::Restamp,
            Some(_) => return Err(RpcError::new(EINVAL, "invalid mode specified")),
        };
        let Self { targets, reason, .. } = self;
        nodes(call, NodeRequest::Drain { targets, reason, mode })
    }
}

impl Handle for Undrain {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        let force = self.mode.as_deref() == Some(Self::FORCE);
        let Self { targets, reason, .. } = self;
        nodes(call, NodeRequest::Undrain { targets, reason, force })
    }
}

impl Handle for Offline {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        let Self { targets, reason } = self;
        nodes(call, NodeRequest::Offline { targets, reason })
    }
}

impl Handle for Online {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        nodes(call, NodeRequest::Online { targets: self.targets })
    }
}

impl Handle for Reload {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        let malformed = |error| RpcError::new(EINVAL, format!("R: {error}"));
        let resources: ResourceSet = self.r.to_string().parse().map_err(malformed)?;
        let resources = Box::new(resources);
        nodes(call, NodeRequest::Reload { resources, force: self.force })
    }
}

impl Handle for AddMaintenance {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        let Self { targets, from, to, reason } = self;
        let reason = reason.unwrap_or_default();
        nodes(call, NodeRequest::Maintain { targets, from, to, reason })
    }
}

impl Handle for RemoveMaintenance {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        nodes(call, NodeRequest::EndMaintenance { id: self.id })
    }
}
