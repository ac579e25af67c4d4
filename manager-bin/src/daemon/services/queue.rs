//! `job-manager.queue-*` and what else is about all jobs that wait.

use jobtap_core::engine::Request;

use super::{Call, Handle, Reply};
use crate::rpc::RpcError;
use crate::rpc::services::queue::{
    AllocQuery, Drain, Enable, GetOverview, GetStatus, Idle, List, Start,
};

impl Handle for Enable {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        let target = self.target();
        let Self { enable, reason, .. } = self;
        call.request(Request::QueueEnable { target, enable, reason })
    }
}

impl Handle for Start {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        let target = self.target();
        let Self { start, reason, nocheckpoint, .. } = self;
        call.request(Request::QueueStart { target, start, reason, nocheckpoint })
    }
}

impl Handle for List {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        call.read(|engine, _| Ok(engine.queue_names()))
    }
}

impl Handle for GetStatus {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        call.read(move |engine, _| engine.queue_status(self.name.as_deref()))
    }
}

impl Handle for GetOverview {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        call.read(|engine, _| Ok(engine.queue_overview()))
    }
}

impl Handle for AllocQuery {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        call.read(|engine, _| Ok(engine.alloc_query()))
    }
}

impl Handle for Drain {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        call.wait(Request::Drain)
    }
}

impl Handle for Idle {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        call.wait(Request::Idle)
    }
}
