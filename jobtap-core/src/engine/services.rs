//! What clients ask of plugins: `job-manager.PLUGIN.METHOD`.

use std::sync::Arc;

use serde_json::Value;

use super::callback::{Callback, Subject};
use super::requests::{owner_only, refused};
use super::{Cred, Effect, Engine, Level, ReplyTo, RequestError};
use crate::host::{Bound, Detail, Failure, Fault, PluginKey, Role, ServiceError, ServiceRequest};
use crate::topic::TopicId;

const EIO: i32 = 5;
const ENOSYS: i32 = 38;

impl Engine {
    /// Calls the service, and answers unless it will do so itself.
    pub(super) fn service_request(
        &mut self,
        reply: ReplyTo,
        cred: Cred,
        topic: &str,
        payload: Value,
        streaming: bool,
    ) {
        let bound = match self.service(topic, cred) {
            Ok(bound) => bound,
            Err(error) => return self.reply(reply, Err(error)),
        };
        let taken = false.into();
        let request = ServiceRequest { cred, payload, to: reply, streaming, taken };
        let detail = Detail::Request(&request);
        let subject = Subject { topic: TopicId::Own, job: None, detail };
        let Callback { result, commands, panicked, milliseconds } = self.callback(&bound, subject);
        if milliseconds > self.plugins.budget {
            self.over_budget(&bound, None, milliseconds);
        }
        self.note_panics(panicked);
        match result {
            Ok(outcome) => match outcome.decisions().reply {
                Some(answer) => self.reply(reply, Ok(answer)),
                None => {
                    self.services.insert(reply, bound.plugin());
                }
            },
            Err(fault) => {
                let error = self.service_fault(&bound, fault);
                self.reply(reply, Err(error));
            }
        }
        self.stack_commands("service", commands);
    }

    /// The function behind a name, if the caller may use it.
    fn service(&self, topic: &str, cred: Cred) -> Result<Bound, RequestError> {
        let unknown = || refused(ENOSYS, format!("Unknown service method '{topic}'"));
        let wanted = topic.strip_prefix("job-manager.").ok_or_else(unknown)?;
        let named = |bound: &&Bound| {
            let name = bound.instance().name();
            let plugin = name.strip_prefix('.').unwrap_or(name);
            // Neither names of plugins nor of services have a dot inside.
            let (asked, method) = wanted.split_once('.').unwrap_or((wanted, ""));
            bound.entry().topic == "service" && asked == plugin && method == bound.entry().key
        };
        let handlers = self.plugins.stack.handlers(TopicId::Own);
        let bound = handlers.and_then(|list| list.iter().find(named)).ok_or_else(unknown)?;
        if bound.entry().role == Role::Owner {
            owner_only(cred)?;
        }
        if bound.instance().is_faulted() {
            let text = "has failed repeatedly: it answers when an administrator has reloaded it";
            return Err(refused(EIO, format!("plugin {} {text}", bound.instance().name())));
        }
        Ok(bound.clone())
    }

    fn service_fault(&mut self, bound: &Bound, fault: Fault) -> RequestError {
        let name = Arc::clone(bound.instance().name());
        let text = match fault {
            Fault::Failure(Failure::Refused(ServiceError { errno, text })) => {
                return refused(errno, text);
            }
            Fault::Failure(failure) => failure.text().to_owned(),
            Fault::Panic(text) => {
                self.log(Level::Error, format!("{name}: service: panicked: {text}"));
                self.note_panic(bound.plugin());
                format!("plugin {name} failed; please report it")
            }
            Fault::Busy => "called while it is being called".to_owned(),
        };
        refused(EIO, text)
    }

    /// One answer of a stream.
    pub(super) fn respond(&mut self, plugin: PluginKey, to: ReplyTo, payload: Value) {
        if self.services.get(&to) == Some(&plugin) {
            self.effects.after.push(Effect::Respond { to, payload });
        }
    }

    /// The last answer to a request.
    pub(super) fn answer(
        &mut self,
        plugin: PluginKey,
        to: ReplyTo,
        result: Result<Value, ServiceError>,
    ) {
        if self.services.get(&to) == Some(&plugin) {
            self.services.remove(&to);
            self.reply(to, result.map_err(|error| refused(error.errno, error.text)));
        }
    }

    /// Requests that plugins which are gone have not answered.
    pub(super) fn refuse_services(&mut self, gone: &[(PluginKey, Arc<str>)]) {
        for (key, name) in gone {
            let open = self.services.extract_if(|_, plugin| plugin == key);
            let open: Vec<ReplyTo> = open.map(|(to, _)| to).collect();
            for to in open {
                let text = format!("plugin {name} was removed before it answered");
                self.reply(to, Err(refused(ENOSYS, text)));
            }
        }
    }
}
