//! Serves the requests that plugins send to services: those of the manager, of other plugins, and of programs that have
//! added one. They go the way of a client's requests, with the rights of the owner.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use jobtap_core::engine::{Cred, Level};
use jobtap_core::host::{PluginKey, RpcAnswer, RpcCommand, RpcKey, RpcRequest};
use jobtap_core::plugin::ServiceError;
use serde_json::{Value, json};
use tokio::task::{AbortHandle, Id, JoinSet};

use super::engine::EngineHandle;
use super::log::Log;
use super::plugin_threads::requests::Requested;
use super::request_parts::RequestParts;
use super::rights::privacy::Claim;
use super::server::source;
use super::services::{self, Context, PendingResponse};
use crate::rpc::errno::{EAGAIN, EINVAL, EMSGSIZE};
use crate::rpc::message::Body;
use crate::rpc::services::kvs::Found;
use crate::rpc::{RpcError, RpcResult};

/// How many requests of a plugin may be under way: as many as a large site has jobs, since a plugin may ask about each of
/// them. Further ones are refused.
const MOST: usize = 128 * 1024;
/// The longest list of jobs that a plugin gets, in bytes of text.
const LONGEST_LIST: usize = 64 << 20;

/// Serves requests until the manager ends.
pub(super) async fn serve(mut requested: Requested, parts: Arc<RequestParts>) {
    // A queue of its own at the engine, as a client has.
    let engine = parts.engine.of_client(source(parts.owner));
    let mut under_way = UnderWay::default();
    loop {
        tokio::select! {
            command = requested.recv() => match command {
                Some((plugin, command)) => under_way.follow(&parts, &engine, plugin, command),
                None => return,
            },
            true = under_way.forget_next() => {}
        }
    }
}

/// The requests that are under way.
#[derive(Default)]
struct UnderWay {
    tasks: JoinSet<()>,
    /// Whose the tasks are. One without a key has no response that could be dropped.
    requests: HashMap<Id, (PluginKey, Option<RpcKey>)>,
    /// The tasks by the keys of their requests.
    handles: HashMap<RpcKey, AbortHandle>,
    /// How many requests each plugin has.
    counts: HashMap<PluginKey, usize>,
}

impl UnderWay {
    fn follow(
        &mut self,
        parts: &Arc<RequestParts>,
        engine: &EngineHandle,
        plugin: PluginKey,
        command: RpcCommand,
    ) {
        match command {
            RpcCommand::Request { key, request, answer } => {
                let begun = match self.has_most(plugin) {
                    true => Err(RpcError::new(
                        EAGAIN,
                        format!("{MOST} requests of this plugin are under way already"),
                    )),
                    false => begin(parts, engine, request, answer.is_some()),
                };
                self.wait(&parts.log, plugin, key, begun, answer);
            }
            RpcCommand::Cancel { key } => self.cancel(key),
            RpcCommand::CancelAll => self.cancel_all_of(plugin),
        }
    }

    fn has_most(&self, plugin: PluginKey) -> bool {
        self.counts.get(&plugin).is_some_and(|count| *count >= MOST)
    }

    fn cancel(&mut self, key: RpcKey) {
        if let Some(task) = self.handles.remove(&key) {
            task.abort();
        }
    }

    fn cancel_all_of(&mut self, plugin: PluginKey) {
        let own = self.requests.values().filter(|(of, _)| *of == plugin);
        let keys: Vec<RpcKey> = own.filter_map(|(_, key)| *key).collect();
        keys.into_iter().for_each(|key| self.cancel(key));
    }

    /// Waits for a response in a task of its own, and passes it on.
    fn wait(
        &mut self,
        log: &Log,
        plugin: PluginKey,
        key: RpcKey,
        begun: Result<Begun, RpcError>,
        answer: Option<RpcAnswer>,
    ) {
        let refused = |error: RpcError| ServiceError::new(error.errno, error.text);
        let response = match (begun, answer) {
            (Ok(response), None) => {
                let task = self.tasks.spawn(async move { drop(response.await) });
                return self.note(plugin, None, &task);
            }
            (Err(error), None) => {
                let text = format!("a request of a plugin is lost: {error}");
                return log.write(Level::Warning, &text);
            }
            (Err(error), Some(answer)) => return answer.send(Err(refused(error))),
            (Ok(response), Some(answer)) => {
                async move {
                    answer.send(response.await.map_err(refused));
                }
            }
        };
        let task = self.tasks.spawn(response);
        self.note(plugin, Some(key), &task);
        self.handles.insert(key, task);
    }

    fn note(&mut self, plugin: PluginKey, key: Option<RpcKey>, task: &AbortHandle) {
        self.requests.insert(task.id(), (plugin, key));
        *self.counts.entry(plugin).or_default() += 1;
    }

    /// Waits until the next task has ended, whether it completed, was canceled or panicked, and forgets it. If there are
    /// no tasks, it returns false without waiting.
    async fn forget_next(&mut self) -> bool {
        let Some(ended) = self.tasks.join_next_with_id().await else { return false };
        let task = ended.map_or_else(|error| error.id(), |(id, ())| id);
        let Some((plugin, key)) = self.requests.remove(&task) else { return true };
        if let Some(key) = key {
            self.handles.remove(&key);
        }
        if let Some(count) = self.counts.get_mut(&plugin) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&plugin);
            }
        }
        true
    }
}

/// The response to a request that its service has.
type Begun = Pin<Box<dyn Future<Output = RpcResult> + Send>>;

/// Hands a request to its service. This doesn't wait, so that services get the requests of a plugin in their order.
fn begin(
    parts: &Arc<RequestParts>,
    engine: &EngineHandle,
    request: RpcRequest,
    wants_response: bool,
) -> Result<Begun, RpcError> {
    match request {
        RpcRequest::Service { topic, payload } if !wants_response && parts.added.has(&topic) => {
            Ok(Box::pin(Arc::clone(&parts.added).tell(topic, payload)))
        }
        RpcRequest::Service { topic, payload } => ask(parts, engine, &topic, &payload),
        RpcRequest::Kvs { key } => {
            let found = ask(parts, engine, "kvs.lookup", &json!({ "key": key }))?;
            Ok(Box::pin(async move {
                match serde_json::from_value(found.await?) {
                    Ok(Found::Text { value }) => Ok(Value::String(value)),
                    Ok(Found::Bytes { .. }) => {
                        Err(RpcError::new(EINVAL, format!("{key}: the value is not text")))
                    }
                    Err(error) => Err(RpcError::proto(error.to_string())),
                }
            }))
        }
    }
}

fn ask(
    parts: &Arc<RequestParts>,
    engine: &EngineHandle,
    topic: &str,
    payload: &Value,
) -> Result<Begun, RpcError> {
    let cred = Cred { userid: parts.owner, owner: true };
    let claim = Claim::Nothing;
    let body = Body { payload: payload.to_string(), jobspec: None };
    let mut admitted = services::admit(parts, cred, claim, topic, body)?;
    let change = admitted.change.take();
    let context = Context { parts, engine, cred, claim, streaming: false };
    let audit = Arc::clone(&parts.audit);
    Ok(match admitted.handle(&context)? {
        PendingResponse::FromEngine(request) => {
            audit.recorded(cred, change, engine.request(cred, request))
        }
        PendingResponse::One(response) => {
            audit.recorded(cred, change, async { Ok(response.await) })
        }
        PendingResponse::Jobs(listing) => {
            let topic = topic.to_owned();
            Box::pin(async move {
                let mut listing = listing.await?;
                let mut jobs = "{\"jobs\":[".to_owned();
                while let Some(part) = listing.next().await? {
                    jobs.push_str(&part);
                    if jobs.len() > LONGEST_LIST {
                        let text = format!(
                            "{topic}: a plugin gets no list of more than {LONGEST_LIST} bytes: ask for fewer jobs by \
                             `max_entries`"
                        );
                        return Err(RpcError::new(EMSGSIZE, text));
                    }
                }
                jobs.push_str("]}");
                // Not on the thread of the server, which a long list would hold up.
                let parsed = tokio::task::spawn_blocking(move || serde_json::from_str(&jobs));
                match parsed.await {
                    Ok(Ok(jobs)) => Ok(jobs),
                    Ok(Err(error)) => Err(RpcError::proto(error.to_string())),
                    Err(error) => Err(RpcError::proto(error.to_string())),
                }
            })
        }
        PendingResponse::EngineStream(_)
        | PendingResponse::Feed(_)
        | PendingResponse::Eventlog(_) => {
            let text = format!("{topic} responds with a stream, which plugins can't take");
            return Err(RpcError::new(EINVAL, text));
        }
    })
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    const ONE: PluginKey = PluginKey(1);
    const TWO: PluginKey = PluginKey(2);

    type Received = oneshot::Receiver<Result<Value, ServiceError>>;

    /// Waits for the response to a request of a plugin.
    fn wait(under_way: &mut UnderWay, plugin: PluginKey, key: u64, response: Begun) -> Received {
        let (sender, receiver) = oneshot::channel();
        let answer = RpcAnswer::new(move |response| drop(sender.send(response)));
        let log = Log::new(Level::Error);
        under_way.wait(&log, plugin, RpcKey(key), Ok(response), Some(answer));
        receiver
    }

    fn never() -> Begun {
        Box::pin(std::future::pending())
    }

    fn is_empty(under_way: &UnderWay) -> bool {
        under_way.requests.is_empty() && under_way.handles.is_empty() && under_way.counts.is_empty()
    }

    #[tokio::test]
    async fn a_response_is_passed_on_and_forgotten() {
        let mut under_way = UnderWay::default();
        let received = wait(&mut under_way, ONE, 1, Box::pin(async { Ok(json!(7)) }));
        assert_eq!(received.await.unwrap().unwrap(), json!(7));
        assert!(under_way.forget_next().await && is_empty(&under_way));
        assert!(!under_way.forget_next().await);
    }

    #[tokio::test]
    async fn the_requests_of_a_removed_plugin_are_dropped_and_no_others() {
        let mut under_way = UnderWay::default();
        let first = wait(&mut under_way, ONE, 1, never());
        let second = wait(&mut under_way, ONE, 2, never());
        let mut other = wait(&mut under_way, TWO, 3, never());
        under_way.cancel_all_of(ONE);
        assert!(under_way.forget_next().await && under_way.forget_next().await);
        assert!(first.await.is_err() && second.await.is_err());
        assert!(other.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        assert_eq!(under_way.counts, HashMap::from([(TWO, 1)]));
        under_way.cancel(RpcKey(3));
        assert!(under_way.forget_next().await && is_empty(&under_way));
    }

    #[tokio::test]
    async fn a_request_without_a_response_outlives_its_plugin() {
        let mut under_way = UnderWay::default();
        let (sender, sent) = oneshot::channel();
        let begun: Begun = Box::pin(async move {
            tokio::task::yield_now().await;
            sender.send(()).unwrap();
            Ok(Value::Null)
        });
        under_way.wait(&Log::new(Level::Error), ONE, RpcKey(1), Ok(begun), None);
        under_way.cancel_all_of(ONE);
        sent.await.unwrap();
        assert!(under_way.forget_next().await && is_empty(&under_way));
    }

    #[tokio::test]
    async fn a_response_that_panics_is_forgotten_too() {
        let mut under_way = UnderWay::default();
        let received = wait(&mut under_way, ONE, 1, Box::pin(async { panic!("as written") }));
        assert!(received.await.is_err());
        assert!(under_way.forget_next().await && is_empty(&under_way));
    }

    #[tokio::test]
    async fn a_plugin_that_has_the_most_requests_holds_up_no_other() {
        let mut under_way = UnderWay::default();
        under_way.counts.insert(ONE, MOST - 1);
        assert!(!under_way.has_most(ONE));
        let _received = wait(&mut under_way, ONE, 1, never());
        assert!(under_way.has_most(ONE) && !under_way.has_most(TWO));
    }
}
