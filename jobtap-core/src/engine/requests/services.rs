//! Requests for plugin services: `job-manager.PLUGIN.METHOD`.

use std::sync::Arc;

use serde_json::Value;

use super::owner_only;
use crate::engine::api::{Cred, Level, ReplyTo, RequestError};
use crate::engine::core::Core;
use crate::engine::dispatch::call::{Called, call_one};
use crate::engine::dispatch::faulted;
use crate::engine::dispatch::plugins::Plugins;
use crate::engine::shadow;
use crate::host::errno::{EIO, ENOSYS};
use crate::host::{BoundHandler, Detail, Failure, Fault, Role, ServiceError, ServiceRequest};
use crate::topic::TopicId;

/// Calls a service, and answers the request unless the plugin does so later.
pub(super) fn request(
    core: &mut Core,
    reply: ReplyTo,
    cred: Cred,
    topic: &str,
    payload: Value,
    streaming: bool,
) {
    let bound = match find(&core.plugins, topic, cred) {
        Ok(bound) => bound,
        Err(error) => return core.reply(reply, Err(error)),
    };
    let taken = false.into();
    let request = ServiceRequest { cred, payload, to: reply, streaming, taken };
    let answered = shadow::services::show(core, &bound, &request);
    let Called { result, commands } =
        call_one(core, &bound, TopicId::Own, Detail::Request(&request));
    shadow::services::finish(core, answered, &bound, (&result, &commands));
    match result {
        Ok(outcome) => match outcome.decisions().reply {
            Some(response) => core.reply(reply, Ok(response)),
            None => core.plugins.expect_response(reply, bound.plugin()),
        },
        Err(fault) => {
            let error = refusal(core, &bound, fault);
            core.reply(reply, Err(error));
        }
    }
    core.agenda.push_commands("service", commands);
}

/// The handler behind a service name, if the client may use it.
fn find(plugins: &Plugins, topic: &str, cred: Cred) -> Result<BoundHandler, RequestError> {
    let unknown = || RequestError::new(ENOSYS, format!("Unknown service method '{topic}'"));
    let wanted = topic.strip_prefix("job-manager.").ok_or_else(unknown)?;
    // Neither names of plugins nor of methods contain a dot.
    let (plugin, method) = wanted.split_once('.').unwrap_or((wanted, ""));
    let named = |bound: &&BoundHandler| {
        let name = bound.instance().name();
        let name = name.strip_prefix('.').unwrap_or(name);
        bound.entry().topic == "service" && plugin == name && method == bound.entry().key
    };
    let handlers = plugins.stack.handlers(TopicId::Own);
    let bound = handlers.and_then(|list| list.iter().find(named)).ok_or_else(unknown)?;
    if bound.entry().role == Role::Owner {
        owner_only(cred)?;
    }
    if bound.instance().is_faulted() {
        let text = "has failed repeatedly: it answers when an administrator has reloaded it";
        let text = format!("plugin {} {text}", bound.instance().name());
        return Err(RequestError::new(EIO, text));
    }
    Ok(bound.clone())
}

/// The response when a service has failed.
fn refusal(core: &mut Core, bound: &BoundHandler, fault: Fault) -> RequestError {
    let name = Arc::clone(bound.instance().name());
    let text = match fault {
        Fault::Failure(Failure::Refused(ServiceError { errno, text })) => {
            return RequestError::new(errno, text);
        }
        Fault::Failure(failure) => failure.text().to_owned(),
        Fault::Panic(text) => {
            core.log(Level::Error, format!("{name}: service: panicked: {text}"));
            faulted::note_panic(core, bound.plugin());
            format!("plugin {name} failed; please report it")
        }
        Fault::Busy => "called while it is being called".to_owned(),
    };
    RequestError::new(EIO, text)
}
