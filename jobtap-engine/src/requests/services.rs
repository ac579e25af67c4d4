//! Requests for plugin services: `job-manager.PLUGIN.METHOD`.

use std::sync::Arc;

use serde_json::Value;

use super::owner_only;
use crate::agenda::SERVICE;
use crate::api::{Cred, Level, ReplyTo, RequestError};
use crate::core::Core;
use crate::dispatch::call::{Called, call_one};
use crate::dispatch::faulted;
use crate::dispatch::shadow;
use crate::host::errno::{EIO, ENOSYS};
use crate::host::{BoundHandler, Detail, Failure, Fault, Role, ServiceRequest};
use crate::plugin::ServiceError;
use crate::plugins::Plugins;
use crate::suggest::nearest;
use crate::topic::TopicId;
use crate::turn::Turn;

/// Calls a service, and responds to the request unless the plugin does so later.
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
        Err(error) => return core.turn.effects.reply(reply, Err(error)),
    };
    let taken = false.into();
    let request = ServiceRequest { cred, payload, to: reply, streaming, taken };
    let answered = shadow::services::show(core, &bound, &request);
    let called = call_one(core, &bound, TopicId::Unlisted, Detail::Request(&request));
    let (shadows, now) = (&mut core.plugins.shadows, core.turn.clock.now);
    shadow::services::finish(now, &core.jobs, shadows, answered, &bound, &called);
    let Called { result, commands } = called;
    match result {
        Ok(outcome) => match outcome.decisions().reply {
            Some(response) => core.turn.effects.reply(reply, Ok(response)),
            None => core.plugins.expect_response(reply, bound.plugin()),
        },
        Err(fault) => {
            let error = refusal(&mut core.turn, &mut core.plugins, &bound, fault);
            core.turn.effects.reply(reply, Err(error));
        }
    }
    core.turn.agenda.push_commands(SERVICE, commands);
}

/// The handler behind a service name, if the client may use it.
fn find(plugins: &Plugins, topic: &str, cred: Cred) -> Result<BoundHandler, RequestError> {
    let unknown = || {
        let hint = suggestion(plugins, topic, cred);
        RequestError::new(ENOSYS, format!("Unknown service method '{topic}'{hint}"))
    };
    let wanted = topic.strip_prefix("job-manager.").ok_or_else(unknown)?;
    // Neither names of plugins nor of methods contain a dot.
    let (plugin, method) = wanted.split_once('.').unwrap_or((wanted, ""));
    let named = |bound: &&BoundHandler| {
        let name = bound.instance().name();
        let name = name.strip_prefix('.').unwrap_or(name);
        bound.entry().topic == "service" && plugin == name && method == bound.entry().key
    };
    let handlers = plugins.stack.handlers(TopicId::Unlisted);
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

/// A hint for an unknown service topic: `; did you mean 'limits.set'?`, or the services that its plugin has. Services
/// that the client may not use are left out.
fn suggestion(plugins: &Plugins, topic: &str, cred: Cred) -> String {
    let Some(wanted) = topic.strip_prefix("job-manager.") else { return String::new() };
    let (plugin, method) = wanted.split_once('.').unwrap_or((wanted, ""));
    let handlers = plugins.stack.handlers(TopicId::Unlisted);
    let services = || {
        let all = handlers.into_iter().flat_map(|list| list.iter());
        let open = all.filter(|bound| {
            bound.entry().topic == "service" && (cred.owner || bound.entry().role != Role::Owner)
        });
        open.map(|bound| {
            let name: &str = bound.instance().name();
            (name.strip_prefix('.').unwrap_or(name), bound.entry().key)
        })
    };
    let shown = |plugin: &str, method: &str| match method {
        "" => format!("'{plugin}'"),
        method => format!("'{plugin}.{method}'"),
    };
    let of = |plugin: &str| {
        services().filter(|(of, _)| *of == plugin).map(|(_, method)| method).collect::<Vec<_>>()
    };
    let meant = match of(plugin).is_empty() {
        true => nearest(plugin, services().map(|(name, _)| name)).unwrap_or(plugin),
        false => plugin,
    };
    let methods = of(meant);
    match nearest(method, methods.iter().copied()) {
        Some(method) => format!("; did you mean {}?", shown(meant, method)),
        None if methods.is_empty() => String::new(),
        None => {
            const SHOWN: usize = 8;
            let mut all: Vec<String> =
                methods.iter().take(SHOWN).map(|method| shown(meant, method)).collect();
            let more = methods.len().saturating_sub(SHOWN);
            if more > 0 {
                all.push(format!("{more} more"));
            }
            format!("; {meant} has {}", all.join(", "))
        }
    }
}

/// The response when a service has failed.
fn refusal(
    turn: &mut Turn,
    plugins: &mut Plugins,
    bound: &BoundHandler,
    fault: Fault,
) -> RequestError {
    let name = Arc::clone(bound.instance().name());
    let text = match fault {
        Fault::Failure(Failure::Refused(ServiceError { errno, text })) => {
            return RequestError::new(errno, text);
        }
        Fault::Failure(failure) => failure.text().to_owned(),
        Fault::Panic(text) => {
            turn.effects.log(Level::Error, format!("{name}: service: panicked: {text}"));
            faulted::note_panic(turn, plugins, bound.plugin());
            format!("plugin {name} failed; please report it")
        }
        Fault::Busy => "called while it is being called".to_owned(),
    };
    RequestError::new(EIO, text)
}
