//! `config.*`: the configuration of the instance. What is done with it is in
//! [`reload`](crate::daemon::config::current).

use std::sync::Arc;

use super::{Call, Handle, Reply};
use crate::daemon::config::current::ConfigCall;
use crate::rpc::RpcError;
use crate::rpc::services::config::{Get, Load, Reload};

fn configuration(call: &Call<'_>, what: ConfigCall) -> Result<Reply, RpcError> {
    Reply::one(Arc::clone(&call.parts.configuration).call(call.cred, what))
}

impl Handle for Get {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        configuration(call, ConfigCall::Get)
    }
}

impl Handle for Load {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        configuration(call, ConfigCall::Load(self.0))
    }
}

impl Handle for Reload {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        configuration(call, ConfigCall::Reload)
    }
}
