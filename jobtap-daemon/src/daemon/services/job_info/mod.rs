//! `job-info.*`: what the store has about a job.

mod lookup;

use super::handle::{Context, Handle, PendingResponse, written};
use crate::rpc::RpcError;
use crate::rpc::errno::EINVAL;
use crate::rpc::service::Service;
use crate::rpc::services::job_info::{Lookup, Watch};

impl Handle for Lookup {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let (records, cred) = (context.parts.records.clone(), context.cred);
        PendingResponse::one(
            async move { written::<Self>(&lookup::values(&records, cred, &self)?) },
        )
    }
}

impl Handle for Watch {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        if !context.streaming {
            let text = format!("{} requires streaming RPC flag", Self::TOPIC);
            return Err(RpcError::proto(text));
        }
        if self.only.len() > Self::MOST_NAMES {
            let text = format!("only: at most {} names of events", Self::MOST_NAMES);
            return Err(RpcError::new(EINVAL, text));
        }
        Ok(PendingResponse::Eventlog(self.into()))
    }
}
