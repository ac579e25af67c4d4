//! Requests to plugins.

use jobtap_core::host::{BoundHandler, Detail, Failure, Fault, PluginKey, ReplyTo, ServiceRequest};
use jobtap_core::plugin::{Cred, Level, ServiceError};
use jobtap_core::topic::TopicId;
use serde_json::Value;

use super::frame::{Called, Subject};
use super::{Adapter, Request};
use crate::flux::{Errno, Flux};

impl<F: Flux> Adapter<F> {
    /// Handles a request to `job-manager.PLUGIN.METHOD`. Flux has checked that the sender may use the service.
    pub fn request(&self, to: ReplyTo, topic: &str, cred: Cred, payload: Value, streaming: bool) {
        let nested = self.nested();
        self.serve(topic, ServiceRequest { cred, payload, to, streaming, taken: false.into() });
        drop(nested);
        self.settle();
    }

    fn serve(&self, topic: &str, request: ServiceRequest) {
        let (to, streaming) = (request.to, request.streaming);
        let Some(bound) = self.find_service(topic) else {
            let text = format!("Unknown service method '{topic}'");
            return self.flux.respond_error(to, Errno::ENOSYS.0, &text);
        };
        let name = bound.instance().name();
        if bound.instance().is_faulted() {
            let text = format!(
                "plugin {name} has failed repeatedly: it answers when an administrator has reloaded it"
            );
            return self.flux.respond_error(to, Errno::EIO.0, &text);
        }
        // Register the request before the call, since one of the commands may be the response.
        let open = Request { plugin: bound.plugin(), streaming };
        self.open.borrow_mut().requests.insert(to, open);
        let detail = Detail::Request(&request);
        let Called { result, commands, .. } =
            self.call_one(&bound, TopicId::Unlisted, Subject::None, detail);
        match result {
            Ok(outcome) => {
                if let Some(response) = outcome.decisions().reply {
                    self.answer(bound.plugin(), to, Ok(response));
                }
            }
            Err(fault) => {
                let error = self.refusal(&bound, fault);
                self.answer(bound.plugin(), to, Err(error));
            }
        }
        self.carry_out("service", commands);
    }

    fn find_service(&self, topic: &str) -> Option<BoundHandler> {
        let wanted = topic.strip_prefix("job-manager.")?;
        // Names of plugins and methods can't contain a dot.
        let (plugin, method) = wanted.split_once('.').unwrap_or((wanted, ""));
        let services = self.stack.borrow().own("service");
        let mut found = services
            .iter()
            .filter(|bound| **bound.instance().name() == *plugin && bound.entry().key == method);
        found.next().cloned()
    }

    /// Returns the error response for a service that has failed.
    fn refusal(&self, bound: &BoundHandler, fault: Fault) -> ServiceError {
        let name = bound.instance().name();
        let text = match fault {
            Fault::Failure(Failure::Refused(error)) => return error,
            Fault::Failure(failure) => failure.text().to_owned(),
            Fault::Panic(text) => {
                self.log(Level::Error, &format!("{name}: service: panicked: {text}"));
                self.note_panic(bound.plugin());
                format!("plugin {name} failed; please report it")
            }
            Fault::Busy => "called while it is being called".to_owned(),
        };
        ServiceError::new(Errno::EIO.0, text)
    }

    /// Sends one response of a stream, if the request belongs to this plugin and is still open.
    pub(super) fn respond(&self, plugin: PluginKey, to: ReplyTo, payload: &Value) {
        let is_open = self.open.borrow().requests.get(&to).is_some_and(|r| r.plugin == plugin);
        if is_open {
            self.flux.respond(to, payload, false);
        }
    }

    /// Sends the last response to a request, if it belongs to this plugin and is still open.
    pub(super) fn answer(
        &self,
        plugin: PluginKey,
        to: ReplyTo,
        result: Result<Value, ServiceError>,
    ) {
        let request = {
            let mut open = self.open.borrow_mut();
            match open.requests.get(&to) {
                Some(request) if request.plugin == plugin => open.requests.remove(&to),
                _ => None,
            }
        };
        let Some(request) = request else { return };
        match result {
            Err(error) => self.flux.respond_error(to, error.errno, &error.text),
            Ok(payload) => {
                self.flux.respond(to, &payload, !request.streaming);
                if request.streaming {
                    const ENODATA: i32 = 61;
                    self.flux.respond_error(to, ENODATA, "");
                }
            }
        }
    }

    /// Refuses the requests that a plugin hasn't answered.
    pub(super) fn refuse_requests(&self, plugin: PluginKey, text: &str) {
        let unanswered: Vec<ReplyTo> = {
            let mut open = self.open.borrow_mut();
            open.requests
                .extract_if(|_, request| request.plugin == plugin)
                .map(|(to, _)| to)
                .collect()
        };
        for to in unanswered {
            self.flux.respond_error(to, Errno::ENOSYS.0, text);
        }
    }
}
