//! `config.*`: the configuration of the instance, which is in [`current`](crate::daemon::config::current).

use std::sync::Arc;

use serde_json::Value;

use super::handle::{Context, Handle, PendingResponse};
use crate::daemon::config::current::ConfigCall;
use crate::rpc::RpcError;
use crate::rpc::services::config::{Get, Load, Reload};

fn configuration(context: &Context<'_>, what: ConfigCall) -> Result<PendingResponse, RpcError> {
    PendingResponse::one(Arc::clone(&context.parts.configuration).call(context.cred, what))
}

impl Handle for Get {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let whole = Arc::clone(&context.parts.configuration).call(context.cred, ConfigCall::Get);
        let guest = !context.cred.owner;
        PendingResponse::one(async move {
            let config = whole.await?;
            Ok(if guest { for_guests(config) } else { config })
        })
    }
}

/// The tables that guests see: nested managers and listings need them. The configuration of plugins and scripts may
/// contain secrets.
const FOR_GUESTS: [&str; 4] = ["exec", "policy", "queues", "resource"];

fn for_guests(mut config: Value) -> Value {
    if let Some(tables) = config.as_object_mut() {
        tables.retain(|name, _| FOR_GUESTS.contains(&name.as_str()));
    }
    config
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn guests_see_nothing_of_the_configuration_of_plugins() {
        let config = json!({
            "queues": {"batch": {}},
            "exec": {"kill-timeout": "1s"},
            "plugins": {"x": {"token": "secret"}},
            "job-manager": {"plugins": [{"load": "x", "conf": {"token": "secret"}}]},
            "access": {"private-mode": true},
        });
        let seen = json!({"queues": {"batch": {}}, "exec": {"kill-timeout": "1s"}});
        assert_eq!(for_guests(config), seen);
    }
}
