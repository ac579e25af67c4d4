//! `config.*`: the configuration of the instance, which [`current`](crate::daemon::config::current) has.

use std::sync::Arc;

use super::{Context, Handle, Response};
use crate::daemon::config::current::ConfigCall;
use crate::rpc::RpcError;
use crate::rpc::services::config::{Get, Load, Reload};

fn configuration(context: &Context<'_>, what: ConfigCall) -> Result<Response, RpcError> {
    Response::one(Arc::clone(&context.parts.configuration).call(context.cred, what))
}

impl Handle for Get {
    fn handle(self, context: &Context<'_>) -> Result<Response, RpcError> {
        configuration(context, ConfigCall::Get)
    }
}

impl Handle for Load {
    fn handle(self, context: &Context<'_>) -> Result<Response, RpcError> {
        configuration(context, ConfigCall::Load(self.0))
    }
}

impl Handle for Reload {
    fn handle(self, context: &Context<'_>) -> Result<Response, RpcError> {
        configuration(context, ConfigCall::Reload)
    }
}
