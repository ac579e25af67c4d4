//! The services that programs add to the manager, and the requests that wait for their responses.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rustc_hash::FxHashMap;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use crate::rpc::errno::{EEXIST, EINVAL, ENOSYS};
use crate::rpc::services::service::ServiceRequest;
use crate::rpc::{RpcError, RpcResult};

/// How many requests a program may leave unread. Further ones wait in their senders.
const UNREAD: usize = 1024;
/// The longest name of a service, in bytes.
const MAX_NAME: usize = 64;

/// The services.
#[derive(Debug, Default)]
pub(super) struct AddedServices(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The way to the program of each service, which is closed when the program has left.
    programs: FxHashMap<String, Sender<RpcResult>>,
    waiting: FxHashMap<u64, oneshot::Sender<RpcResult>>,
    /// The number of the next request. The first is the time of the start in nanoseconds, so that a response to a request
    /// of an earlier run answers none of this one.
    next: u64,
}

impl Default for State {
    fn default() -> Self {
        let start = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let next = u64::try_from(start.as_nanos()).unwrap_or_default();
        Self { programs: FxHashMap::default(), waiting: FxHashMap::default(), next }
    }
}

/// The number of a request to which no response is expected.
const NO_RESPONSE: u64 = 0;

/// A request that waits for its response. It is forgotten when this is dropped.
struct Waiting {
    services: Arc<AddedServices>,
    to: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.services.lock().waiting.remove(&self.to);
    }
}

impl AddedServices {
    /// Adds a service. The program gets the requests from the result, and the service ends when that is dropped.
    ///
    /// # Errors
    /// EINVAL for a name that no topic can begin with, EEXIST for a service that another program serves.
    pub(super) fn add(&self, name: &str) -> Result<Receiver<RpcResult>, RpcError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_plain) {
            let text = format!(
                "service.add: {name:?} is no name of a service: it has 1 to {MAX_NAME} letters, digits, '-' or '_'"
            );
            return Err(RpcError::new(EINVAL, text));
        }
        let mut state = self.lock();
        if state.programs.get(name).is_some_and(|program| !program.is_closed()) {
            return Err(RpcError::new(EEXIST, exists(name)));
        }
        state.programs.retain(|_, program| !program.is_closed());
        let (sender, receiver) = channel(UNREAD);
        state.programs.insert(name.to_owned(), sender);
        Ok(receiver)
    }

    /// Whether a program serves this topic.
    pub(super) fn has(&self, topic: &str) -> bool {
        self.program(topic).is_some()
    }

    fn program(&self, topic: &str) -> Option<Sender<RpcResult>> {
        let name = topic.split_once('.').map_or(topic, |(name, _)| name);
        let mut state = self.lock();
        let program = state.programs.get(name)?;
        if program.is_closed() {
            state.programs.remove(name);
            return None;
        }
        Some(program.clone())
    }

    /// Passes a request to its program and waits for the response.
    ///
    /// # Errors
    /// ENOSYS if no program serves the topic, or if it has left before it responded.
    pub(super) async fn request(self: Arc<Self>, topic: String, payload: Value) -> RpcResult {
        let program = self.program(&topic).ok_or_else(|| missing(&topic))?;
        let (sender, response) = oneshot::channel();
        let to = {
            let mut state = self.lock();
            state.next += 1;
            let to = state.next;
            state.waiting.insert(to, sender);
            to
        };
        let _waiting = Waiting { services: Arc::clone(&self), to };
        send(&program, to, &topic, payload).await?;
        tokio::select! {
            // First, since a program may respond and leave.
            biased;
            Ok(response) = response => response,
            () = program.closed() => Err(left(&topic)),
        }
    }

    /// Passes a request to its program, which gives no response.
    ///
    /// # Errors
    /// ENOSYS if no program serves the topic.
    pub(super) async fn tell(self: Arc<Self>, topic: String, payload: Value) -> RpcResult {
        let program = self.program(&topic).ok_or_else(|| missing(&topic))?;
        send(&program, NO_RESPONSE, &topic, payload).await?;
        Ok(Value::Null)
    }

    /// Takes the response of a program. It has no effect if the request was canceled.
    pub(super) fn respond(&self, to: u64, response: RpcResult) {
        let waiting = self.lock().waiting.remove(&to);
        if let Some(waiting) = waiting {
            // Fails if the request is canceled at this moment.
            let _ = waiting.send(response);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn send(
    program: &Sender<RpcResult>,
    to: u64,
    topic: &str,
    payload: Value,
) -> Result<(), RpcError> {
    let request = ServiceRequest { to, topic: topic.to_owned(), payload };
    let request = serde_json::to_value(&request)
        .map_err(|error| RpcError::proto(format!("{topic}: {error}")))?;
    program.send(Ok(request)).await.map_err(|_| left(topic))
}

fn missing(topic: &str) -> RpcError {
    RpcError::new(ENOSYS, format!("Unknown service method '{topic}'"))
}

fn left(topic: &str) -> RpcError {
    let text = format!("{topic}: the program that serves it has left without a response");
    RpcError::new(ENOSYS, text)
}

/// The refusal of a name that is taken.
pub(super) fn exists(name: &str) -> String {
    format!("service.add: there is a service {name} already")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn errno(result: RpcResult) -> i32 {
        result.unwrap_err().errno
    }

    #[test]
    fn a_request_goes_to_its_program_and_its_response_back() {
        run(async {
            let services = Arc::new(AddedServices::default());
            let mut program = services.add("dws").unwrap();
            let asked = Arc::clone(&services).request("dws.create".to_owned(), json!({"id": 7}));
            let answers = async {
                let request = program.recv().await.unwrap().unwrap();
                assert_eq!(
                    (&request["topic"], &request["payload"]["id"]),
                    (&json!("dws.create"), &json!(7))
                );
                services.respond(request["to"].as_u64().unwrap(), Ok(json!({"success": true})));
            };
            let (response, ()) = tokio::join!(asked, answers);
            assert_eq!(response.unwrap(), json!({"success": true}));
            assert!(services.lock().waiting.is_empty());
        });
    }

    #[test]
    fn a_service_ends_with_its_program() {
        run(async {
            let services = Arc::new(AddedServices::default());
            let program = services.add("dws").unwrap();
            assert_eq!(services.add("dws").unwrap_err().errno, EEXIST);
            let asked = Arc::clone(&services).request("dws.create".to_owned(), json!(null));
            let leaves = async { drop(program) };
            let (response, ()) = tokio::join!(asked, leaves);
            assert_eq!(errno(response), ENOSYS);
            assert!(!services.has("dws.create"));
            services.add("dws").unwrap();
        });
    }

    #[test]
    fn a_request_without_a_program_is_refused() {
        let services = Arc::new(AddedServices::default());
        assert_eq!(errno(run(services.request("unknown.topic".to_owned(), json!({})))), ENOSYS);
    }

    #[test]
    fn nothing_waits_for_a_response_that_is_not_expected() {
        run(async {
            let services = Arc::new(AddedServices::default());
            let mut program = services.add("dws").unwrap();
            Arc::clone(&services).tell("dws.abort".to_owned(), json!({"id": 7})).await.unwrap();
            let request = program.recv().await.unwrap().unwrap();
            assert_eq!((&request["to"], &request["topic"]), (&json!(0), &json!("dws.abort")));
            assert!(services.lock().waiting.is_empty());
        });
    }

    #[test]
    fn a_response_to_an_earlier_manager_answers_no_request() {
        run(async {
            let earlier = Arc::new(AddedServices::default());
            let to = earlier.lock().next + 1;
            let services = Arc::new(AddedServices::default());
            let mut program = services.add("dws").unwrap();
            let asked = Arc::clone(&services).request("dws.create".to_owned(), json!({}));
            let answers = async {
                let request = program.recv().await.unwrap().unwrap();
                services.respond(to, Ok(json!("of another job")));
                services.respond(request["to"].as_u64().unwrap(), Ok(json!("mine")));
            };
            assert_eq!(tokio::join!(asked, answers).0.unwrap(), json!("mine"));
        });
    }

    #[test]
    fn a_name_is_one_word_of_a_topic() {
        let services = AddedServices::default();
        for name in ["", "a.b", "a b", "ä", &"x".repeat(65)] {
            assert_eq!(services.add(name).unwrap_err().errno, EINVAL, "{name}");
        }
        services.add("coral2-dws_1").unwrap();
    }

    #[test]
    fn a_canceled_request_is_forgotten() {
        run(async {
            let services = Arc::new(AddedServices::default());
            let mut program = services.add("dws").unwrap();
            let asked = Arc::clone(&services).request("dws.create".to_owned(), json!({}));
            let request = tokio::select! {
                _ = asked => unreachable!("the program has not responded"),
                request = program.recv() => request.unwrap().unwrap(),
            };
            assert!(services.lock().waiting.is_empty());
            // The response comes too late.
            services.respond(request["to"].as_u64().unwrap(), Ok(json!({})));
        });
    }
}
