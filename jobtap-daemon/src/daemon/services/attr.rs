//! `attr.*` and `shutdown.start`. The attributes themselves are in [`attributes`](crate::daemon::attributes).

use super::handle::{Context, Handle, PendingResponse};
use crate::rpc::RpcError;
use crate::rpc::errno::{EINVAL, ENOENT, EPERM};
use crate::rpc::services::Done;
use crate::rpc::services::attr::{Ending, Found, Get, List, Names, Set, Shutdown};

impl Handle for Get {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let value = context.parts.attributes.get(&self.name);
        let value = value.ok_or_else(|| RpcError::new(ENOENT, ""))?;
        PendingResponse::now::<Self>(&Found { value })
    }
}

impl Handle for List {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        PendingResponse::now::<Self>(&Names { names: context.parts.attributes.names() })
    }
}

impl Handle for Set {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { name, value } = self;
        let set = context.parts.attributes.set(&name, &value, &context.parts.log);
        set.map_err(|error| match error.is_read_only() {
            true => RpcError::new(EPERM, error.to_string()),
            false => RpcError::new(EINVAL, error.to_string()),
        })?;
        PendingResponse::now::<Self>(&Done {})
    }
}

impl Handle for Shutdown {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        if self.dump.as_ref().is_some_and(|file| !file.is_absolute()) {
            let text = "shutdown.start: 'dump' is not an absolute path";
            return Err(RpcError::new(EINVAL, text));
        }
        context.parts.shutdown.ask(self.dump);
        PendingResponse::now::<Self>(&Ending { pid: i32::try_from(std::process::id()).ok() })
    }
}
