//! `log.*`: the manager's log. The log itself is in [`log`](crate::daemon::log).

use super::handle::{Context, Handle, PendingResponse};
use crate::rpc::RpcError;
use crate::rpc::services::Done;
use crate::rpc::services::log::{Append, Clear, Dmesg, Shown};

impl Handle for Dmesg {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let log = &context.parts.log;
        if context.streaming {
            return Ok(PendingResponse::Feed(log.follow(!self.nobacklog)));
        }
        let lines = log.lines();
        PendingResponse::now::<Self>(&Shown::All {
            lines: lines.iter().map(|line| line.shown()).collect(),
        })
    }
}

impl Handle for Append {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.parts.log.append(&self);
        PendingResponse::now::<Self>(&Done {})
    }
}

impl Handle for Clear {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.parts.log.clear();
        PendingResponse::now::<Self>(&Done {})
    }
}
