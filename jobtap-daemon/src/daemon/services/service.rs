//! `service.*`, and the requests to the services that programs have added.

use std::sync::Arc;

use serde_json::Value;

use super::Row;
use super::handle::{Context, Decoded, Handle, PendingResponse};
use crate::daemon::added_services::exists;
use crate::daemon::audit::Change;
use crate::rpc::errno::EEXIST;
use crate::rpc::services::Done;
use crate::rpc::services::service::{Add, Respond};
use crate::rpc::{RpcError, RpcResult};

impl Handle for Add {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        if !context.streaming {
            return Err(RpcError::proto("service.add requires streaming RPC flag"));
        }
        if Row::is_of_manager(&self.service) {
            return Err(RpcError::new(EEXIST, exists(&self.service)));
        }
        Ok(PendingResponse::Feed(context.parts.added.add(&self.service)?))
    }
}

impl Handle for Respond {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { to, payload, errnum, errstr } = self;
        let response: RpcResult = match errnum {
            0 => Ok(payload),
            errnum => Err(RpcError::new(errnum, errstr)),
        };
        context.parts.added.respond(to, response);
        PendingResponse::now::<Self>(&Done {})
    }
}

/// A request to a service that a program has added.
pub(super) struct ToProgram {
    pub(super) topic: String,
    pub(super) payload: Value,
}

impl Decoded for ToProgram {
    fn job(&self) -> Option<jobtap_core::job::JobId> {
        None
    }

    fn change(&self) -> Option<Change> {
        None
    }

    fn handle(self: Box<Self>, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let added = Arc::clone(&context.parts.added);
        let Self { topic, payload } = *self;
        PendingResponse::one(added.request(topic, payload))
    }
}
