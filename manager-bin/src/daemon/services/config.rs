//! `config.*`: the configuration of the instance, which [`current`](crate::daemon::config::current) has.

use std::sync::Arc;

use super::{Context, Handle, PendingResponse};
use crate::daemon::config::current::ConfigCall;
use crate::rpc::RpcError;
use crate::rpc::services::config::{Get, Load, Reload};

fn configuration(context: &Context<'_>, what: ConfigCall) -> Result<PendingResponse, RpcError> {
    PendingResponse::one(Arc::clone(&context.parts.configuration).call(context.cred, what))
}

impl Handle for Get {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        configuration(context, ConfigCall::Get)
    }
}

impl Handle for Load {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        configuration(context, ConfigCall::Load(self.0))
    }
}

impl Handle for Reload {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        configuration(context, ConfigCall::Reload)
    }
}
