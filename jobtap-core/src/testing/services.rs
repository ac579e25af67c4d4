//! The services that plugins of a test send requests to. They are functions of the test, or answer when the test
//! tells them to.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::manager::TestManager;
use crate::host::errno::{ENOENT, ENOSYS};
use crate::host::{PluginKey, RpcAnswer, RpcCommand, RpcKey, RpcRequest};
use crate::plugin::ServiceError;

/// A request that a plugin has sent to a service.
#[derive(Debug, Clone, PartialEq)]
pub struct SentRequest {
    /// The topic.
    pub topic: String,
    /// The payload.
    pub payload: Value,
}

/// A service of a test.
enum Service {
    /// Answers at once. It is taken out while it is called, since it may use the services itself.
    Function(Option<Function>),
    /// Answers when the test does.
    Held,
}

type Function = Box<dyn FnMut(&Value) -> Result<Value, ServiceError> + Send>;

/// The services of a host of the test kit; clones share them. Without any, requests fail with
/// [`RpcError::NoService`](crate::plugin::RpcError::NoService).
///
/// ```
/// # use jobtap_core::prelude::*;
/// # use jobtap_core::testing::{TestHosts, TestJob, TestManager};
/// # #[derive(Default)]
/// # struct Licences;
/// # #[jobtap_plugin(name = "licences")]
/// # impl Licences {
/// #     #[on("job.state.run")]
/// #     async fn take(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
/// #         Ok(remote.rpc("licences.take", &json!({"id": job.id})).await?)
/// #     }
/// # }
/// TestHosts::new().plugin::<Licences>().host::<TestManager>().each(|host| {
///     host.services().serve("licences.take", |_| Err(ServiceError::new(11, "none is free")));
///     let id = host.submit(TestJob::new()).unwrap();
///     assert_eq!(host.run(id).unwrap_err(), "licences.take: none is free");
///     assert_eq!(host.services().sent().len(), 1);
/// });
/// ```
#[derive(Clone, Default)]
pub struct TestServices(Arc<Mutex<Services>>);

#[derive(Default)]
struct Services {
    services: BTreeMap<String, Service>,
    sent: Vec<SentRequest>,
    held: BTreeMap<RpcKey, Held>,
}

/// A request that waits for its response.
struct Held {
    plugin: PluginKey,
    topic: String,
    answer: RpcAnswer,
}

/// What is to be done about a request.
type Answered = (RpcAnswer, Result<Value, ServiceError>);

impl fmt::Debug for TestServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServices").field("sent", &self.lock().sent).finish_non_exhaustive()
    }
}

impl TestServices {
    /// Answers requests to a topic with what the function returns.
    pub fn serve(
        &self,
        topic: impl Into<String>,
        service: impl FnMut(&Value) -> Result<Value, ServiceError> + Send + 'static,
    ) {
        self.lock().services.insert(topic.into(), Service::Function(Some(Box::new(service))));
    }

    /// Lets requests to a topic wait for [`answer`](Self::answer).
    pub fn hold(&self, topic: impl Into<String>) {
        self.lock().services.insert(topic.into(), Service::Held);
    }

    /// Answers the oldest request to a topic that waits. Returns whether there was one.
    pub fn answer(&self, topic: &str, response: Result<Value, ServiceError>) -> bool {
        let oldest = {
            let mut services = self.lock();
            let key = services.held.iter().find(|(_, held)| held.topic == topic);
            let key = key.map(|(key, _)| *key);
            key.and_then(|key| services.held.remove(&key))
        };
        match oldest {
            Some(held) => {
                held.answer.send(response);
                true
            }
            None => false,
        }
    }

    /// The requests that plugins have sent, also those that no service has answered.
    pub fn sent(&self) -> Vec<SentRequest> {
        self.lock().sent.clone()
    }

    /// How many requests wait for their responses.
    pub fn waiting(&self) -> usize {
        self.lock().held.len()
    }

    /// Carries out a command of a plugin. `kvs` reads a key of the host's KVS.
    pub fn follow(
        &self,
        plugin: PluginKey,
        command: RpcCommand,
        kvs: impl FnOnce(&str) -> Option<String>,
    ) {
        // What is answered or dropped here may run code of the plugin, so it leaves the lock first.
        match command {
            RpcCommand::Request { key, request, answer } => {
                let answered = self.begin(plugin, key, request, answer, kvs);
                if let Some((answer, response)) = answered {
                    answer.send(response);
                }
            }
            RpcCommand::Cancel { key } => {
                let dropped = self.lock().held.remove(&key);
                drop(dropped);
            }
            RpcCommand::CancelAll => {
                let is_own = |_: &RpcKey, held: &mut Held| held.plugin == plugin;
                let dropped: Vec<_> = self.lock().held.extract_if(.., is_own).collect();
                drop(dropped);
            }
        }
    }

    fn begin(
        &self,
        plugin: PluginKey,
        key: RpcKey,
        request: RpcRequest,
        answer: Option<RpcAnswer>,
        kvs: impl FnOnce(&str) -> Option<String>,
    ) -> Option<Answered> {
        let (topic, payload) = match request {
            RpcRequest::Service { topic, payload } => (topic, payload),
            RpcRequest::Kvs { key } => {
                let missing = || ServiceError::new(ENOENT, "No such file or directory");
                return Some((answer?, kvs(&key).map(Value::String).ok_or_else(missing)));
            }
        };
        let function = {
            let mut services = self.lock();
            services.sent.push(SentRequest { topic: topic.clone(), payload: payload.clone() });
            match services.services.get_mut(&topic) {
                None => None,
                Some(Service::Function(function)) => function.take(),
                Some(Service::Held) => {
                    if let Some(answer) = answer {
                        services.held.insert(key, Held { plugin, topic, answer });
                    }
                    return None;
                }
            }
        };
        let Some(mut function) = function else {
            let text = format!("Unknown service method '{topic}'");
            return Some((answer?, Err(ServiceError::new(ENOSYS, text))));
        };
        let response = function(&payload);
        if let Some(Service::Function(place @ None)) = self.lock().services.get_mut(&topic) {
            *place = Some(function);
        }
        Some((answer?, response))
    }

    /// Drops all requests, since the manager that waited for them has crashed.
    pub(super) fn forget(&self) {
        let dropped = std::mem::take(&mut self.lock().held);
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, Services> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TestManager {
    /// Answers requests of plugins to a topic with what the function returns.
    /// [`Remote::rpc`](crate::plugin::Remote::rpc) has an example.
    pub fn serve(
        &mut self,
        topic: impl Into<String>,
        service: impl FnMut(&Value) -> Result<Value, ServiceError> + Send + 'static,
    ) {
        self.services.serve(topic, service);
    }

    /// Lets requests of plugins to a topic wait until [`answer_request`](Self::answer_request).
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # use jobtap_core::testing::{TestJob, TestManager};
    /// # #[derive(Default)]
    /// # struct Licences;
    /// # #[jobtap_plugin(name = "licences")]
    /// # impl Licences {
    /// #     #[on("job.state.run")]
    /// #     async fn take(remote: Remote<Self>) -> Result<(), PrologFailed> {
    /// #         Ok(remote.rpc("licences.take", &json!({})).await?)
    /// #     }
    /// #     #[on("job.state.priority")]
    /// #     fn priority(&self) -> Priority {
    /// #         Priority::new(1)
    /// #     }
    /// # }
    /// let mut m = TestManager::new().plugin::<Licences>().start();
    /// m.hold_requests("licences.take");
    /// let id = m.submit(TestJob::new()).unwrap();
    /// assert!(!m.job(id).event_posted("start"));
    /// m.answer_request("licences.take", Ok(json!(null)));
    /// assert!(m.job(id).event_posted("start"));
    /// ```
    pub fn hold_requests(&mut self, topic: impl Into<String>) {
        self.services.hold(topic);
    }

    /// Answers the oldest request to a topic that waits.
    ///
    /// # Panics
    /// If no request to this topic waits.
    #[track_caller]
    pub fn answer_request(&mut self, topic: &str, response: Result<Value, ServiceError>) {
        assert!(self.services.answer(topic, response), "no request to {topic} waits");
        self.settle_all();
    }

    /// The requests that plugins have sent to services.
    pub fn sent_requests(&self) -> Vec<SentRequest> {
        self.services.sent()
    }
}
