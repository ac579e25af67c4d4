//! Requests to services outside of the job manager, and reads of the KVS.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_channel::oneshot;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::handle::{OwnsWhatItUses, Remote};
use crate::host::errors::failure::Gone;
use crate::host::off_thread::rpc::{RpcAnswer, RpcCommand, RpcError, RpcKey, RpcRequest};
use crate::host::{Command, Level, RemoteHandle};
use crate::plugin::cx::context::Cx;
use crate::topic::Later;

/// A payload that can be sent to a service: any that is `Serialize`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be sent to a service",
    label = "can't be written as JSON",
    note = "derive it: `#[derive(Serialize)]`, or write the payload as `json!({{..}})`"
)]
pub trait IsPayload {
    /// The payload as JSON.
    ///
    /// # Errors
    /// Serde's error.
    fn to_payload(&self) -> Result<Value, serde_json::Error>;
}

#[diagnostic::do_not_recommend]
impl<Q: Serialize + ?Sized> IsPayload for Q {
    fn to_payload(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self)
    }
}

/// A type that a response can be read as: any that is `Deserialize`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be read from a response",
    label = "not `Deserialize`",
    note = "derive it: `#[derive(Deserialize)]`, or take the response as `serde_json::Value`"
)]
pub trait IsResponse: Sized {
    /// Reads the response.
    ///
    /// # Errors
    /// Serde's error.
    fn from_response(response: Value) -> Result<Self, serde_json::Error>;
    /// Reads the text of a value in the KVS.
    ///
    /// # Errors
    /// Serde's error.
    fn from_text(text: &str) -> Result<Self, serde_json::Error>;
}

#[diagnostic::do_not_recommend]
impl<R: DeserializeOwned> IsResponse for R {
    fn from_response(response: Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value(response)
    }

    fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

impl<P: 'static> Remote<P> {
    /// Sends a request to a service outside of the job manager and waits for its response, read as `R`.
    ///
    /// In Flux it is `flux_rpc` to any node. In jobtap's manager the topic is that of a service of the manager, such as
    /// `job-list.list`, of a plugin, such as `job-manager.limits.set`, or of a program that has added a service by
    /// `service.add`. The request goes with the rights of the instance's owner, and in jobtap's manager after the changes
    /// of the current callback are durable. There is no time limit: add one with [`timeout`](Self::timeout). A response
    /// that comes when nobody waits any more is dropped, and so is a request that is sent in `unload`.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// use jobtap_core::prelude::*;
    /// # use jobtap_core::testing::{TestJob, TestManager};
    ///
    /// #[derive(Default)]
    /// struct Licences;
    ///
    /// #[derive(Deserialize)]
    /// struct Free {
    ///     count: u32,
    /// }
    ///
    /// #[jobtap_plugin(name = "licences")]
    /// impl Licences {
    ///     #[on("job.state.run")]
    ///     async fn take(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
    ///         let free: Free = remote.rpc("licences.take", &json!({"id": job.id})).await?;
    ///         match free.count {
    ///             0 => Err(PrologFailed::new("no licence is free")),
    ///             _ => Ok(()),
    ///         }
    ///     }
    /// #
    /// #     #[on("job.state.priority")]
    /// #     fn priority(&self) -> Priority {
    /// #         Priority::new(1)
    /// #     }
    /// }
    /// # let mut m = TestManager::new().plugin::<Licences>().start();
    /// # m.serve("licences.take", |_| Ok(json!({"count": 2})));
    /// # let id = m.submit(TestJob::new()).unwrap();
    /// # assert!(m.job(id).event_posted("start"));
    /// # let sent = &m.sent_requests()[0];
    /// # assert_eq!((&*sent.topic, sent.payload["id"].as_u64()), ("licences.take", Some(id.as_u64())));
    /// ```
    ///
    /// # Errors
    /// [`RpcError::NoService`] if nothing serves the topic, [`RpcError::Refused`] if the service answers with an error,
    /// [`RpcError::Malformed`] if the response isn't an `R`, and [`RpcError::Gone`] when the plugin was removed or the
    /// manager stopped. A plugin that has more than 131,072 requests under way is refused with EAGAIN.
    pub fn rpc<R: IsResponse>(
        &self,
        topic: impl Into<String>,
        payload: &(impl IsPayload + ?Sized),
    ) -> Rpc<R> {
        let topic = topic.into();
        let request = service_request(&topic, payload);
        let remote = self.handle().clone();
        Rpc(Box::pin(async move {
            let response = response(&remote, request?).await?;
            read(topic, response)
        }))
    }

    /// Sends a request as [`rpc`](Self::rpc) does, and runs `work` with the plugin and the result when the response
    /// is there. It is `flux_future_then`: for handlers that aren't `async`.
    ///
    /// The plugin's removal drops `work`.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # use serde_json::Value;
    /// # #[derive(Default)]
    /// # struct Storage;
    /// # impl Storage {
    /// fn depend(&self, job: &Job, cx: Cx<'_, JobStateDepend>, remote: Remote<Self>) -> Result<(), HandlerError> {
    ///     cx.dependency_add("storage")?;
    ///     let id = job.id();
    ///     remote.rpc_then("storage.create", &json!({"id": id}), move |_, cx, created: Result<Value, RpcError>| {
    ///         let Ok(job) = cx.active_job(id) else { return };
    ///         if let Err(error) = created {
    ///             cx.fail_job(job, "storage", error.to_string());
    ///         }
    ///     });
    ///     Ok(())
    /// }
    /// # }
    /// ```
    pub fn rpc_then<R: IsResponse + Send + 'static>(
        &self,
        topic: impl Into<String>,
        payload: &(impl IsPayload + ?Sized),
        work: impl FnOnce(&mut P, Cx<'_, Later<P>>, Result<R, RpcError>) + OwnsWhatItUses,
    ) {
        let topic = topic.into();
        let remote = self.clone();
        match service_request(&topic, payload) {
            Err(error) => self.run(move |plugin, cx| work(plugin, cx, Err(error))),
            Ok(request) => {
                let answer = RpcAnswer::new(move |response| {
                    remote.run(move |plugin, cx| {
                        let response =
                            response.map_err(|error| RpcError::of_service(topic.clone(), error));
                        work(plugin, cx, response.and_then(|response| read(topic, response)));
                    });
                });
                let answer = Some(answer);
                send(self.handle(), RpcCommand::Request { key: next_key(), request, answer });
            }
        }
    }

    /// Sends a request to a service that gives no response, or whose response doesn't matter. One that can't be sent is
    /// logged, such as for a topic that nothing serves in jobtap's manager.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # struct Storage;
    /// fn tear_down(job: JobId, remote: &Remote<Storage>) {
    ///     remote.rpc_no_response("storage.teardown", &json!({"id": job}));
    /// }
    /// ```
    pub fn rpc_no_response(&self, topic: impl Into<String>, payload: &(impl IsPayload + ?Sized)) {
        match service_request(&topic.into(), payload) {
            Ok(request) => {
                send(self.handle(), RpcCommand::Request { key: next_key(), request, answer: None });
            }
            Err(error) => self.log(Level::Error, error.to_string()),
        }
    }

    /// Reads the value of a key in the KVS, which is JSON, as an `R`. The keys of a job are those of RFC 16:
    /// [`JobId::kvs_key`](crate::job::JobId::kvs_key) names them.
    ///
    /// The key `R` of a job has what [`Job::resources`](crate::job::Job::resources) leaves out, such as `scheduling`.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # use serde_json::Value;
    /// # struct Storage;
    /// async fn resources(job: JobId, remote: Remote<Storage>) -> Result<Value, RpcError> {
    ///     remote.kvs_lookup(job.kvs_key("R")).await
    /// }
    /// ```
    ///
    /// # Errors
    /// As for [`rpc`](Self::rpc). A key that isn't there is [`RpcError::Refused`] with ENOENT.
    pub fn kvs_lookup<R: IsResponse>(&self, key: impl Into<String>) -> Rpc<R> {
        let key = key.into();
        let remote = self.handle().clone();
        Rpc(Box::pin(async move {
            let response = response(&remote, RpcRequest::Kvs { key: key.clone() }).await?;
            let text = response.as_str().unwrap_or_default();
            R::from_text(text).map_err(|error| malformed(key, &error))
        }))
    }
}

/// The response to a request of [`Remote::rpc`] or [`Remote::kvs_lookup`]. Dropping it drops the response.
// A type of its own, since the opaque type of an `async fn` would repeat an author's error about the payload.
#[must_use = "nothing is sent until it is awaited"]
pub struct Rpc<R>(Pin<Box<dyn Future<Output = Result<R, RpcError>> + Send>>);

impl<R> Future for Rpc<R> {
    type Output = Result<R, RpcError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<R> fmt::Debug for Rpc<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rpc")
    }
}

/// Sends a request and waits for the response.
async fn response(remote: &RemoteHandle, request: RpcRequest) -> Result<Value, RpcError> {
    let topic = match &request {
        RpcRequest::Service { topic, .. } => topic.clone(),
        RpcRequest::Kvs { key } => key.clone(),
    };
    let (sender, receiver) = oneshot::channel();
    let answer = RpcAnswer::new(move |response| {
        // Fails when the future was dropped, which needs no answer.
        let _ = sender.send(response);
    });
    let mut sent = Sent { key: next_key(), remote: remote.clone(), is_open: true };
    let (key, answer) = (sent.key, Some(answer));
    send(remote, RpcCommand::Request { key, request, answer });
    let answered = remote.wait(receiver).await;
    sent.is_open = false;
    answered.map_err(|_| Gone)?.map_err(|error| RpcError::of_service(topic, error))
}

/// A request that somebody waits for. Dropping it tells the host that nobody does any more.
struct Sent {
    key: RpcKey,
    remote: RemoteHandle,
    is_open: bool,
}

impl Drop for Sent {
    fn drop(&mut self) {
        if self.is_open {
            send(&self.remote, RpcCommand::Cancel { key: self.key });
        }
    }
}

fn next_key() -> RpcKey {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    RpcKey(NEXT.fetch_add(1, Ordering::Relaxed))
}

fn send(remote: &RemoteHandle, command: RpcCommand) {
    remote.commands(vec![Command::Rpc(command)]);
}

fn service_request(
    topic: &str,
    payload: &(impl IsPayload + ?Sized),
) -> Result<RpcRequest, RpcError> {
    let payload = payload.to_payload().map_err(|error| malformed(topic.to_owned(), &error))?;
    Ok(RpcRequest::Service { topic: topic.to_owned(), payload })
}

fn read<R: IsResponse>(topic: String, response: Value) -> Result<R, RpcError> {
    R::from_response(response).map_err(|error| malformed(topic, &error))
}

fn malformed(topic: String, error: &serde_json::Error) -> RpcError {
    RpcError::Malformed { topic, reason: error.to_string() }
}
