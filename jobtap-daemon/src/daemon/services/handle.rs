//! What all handlers share: the trait that a request's type implements, what a handler works with, and how a response
//! will come.

use std::pin::Pin;

use jobtap_core::engine::{Cred, Engine, Request, RequestError};
use jobtap_core::job::JobId;
use serde_json::Value;
use tokio::sync::mpsc::Receiver;

use super::eventlog::EventlogWatch;
use super::listing::Listing;
use crate::daemon::audit::Change;
use crate::daemon::engine::replies::ReplyStream;
use crate::daemon::engine::{EngineHandle, answered, refusal};
use crate::daemon::request_parts::RequestParts;
use crate::daemon::rights::privacy::Claim;
use crate::rpc::errno::EIO;
use crate::rpc::message::Body;
use crate::rpc::service::Service;
use crate::rpc::{RpcError, RpcResult, payload};

/// The handler of a service.
pub(in crate::daemon) trait Handle: Service {
    /// Begins to carry out the request. Anything for the engine has been sent when this returns, so that the requests
    /// of a client reach the engine in their order.
    ///
    /// # Errors
    /// Refusals that do not depend on the engine.
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError>;

    /// Reads the payload.
    ///
    /// # Errors
    /// As [`payload::decode`]; EPROTO for a jobspec beside the payload, which only submissions have.
    fn decode(topic: &str, body: Body) -> Result<Self, RpcError> {
        without_jobspec(topic, &body)?;
        payload::decode(topic, body.json()?)
    }
}

/// What a handler works with.
pub(in crate::daemon) struct Context<'a> {
    /// The parts of the manager.
    pub parts: &'a RequestParts,
    /// The client's handle to the engine.
    pub engine: &'a EngineHandle,
    /// The user, and whether with the rights of the owner.
    pub cred: Cred,
    /// What the client is allowed beyond that.
    pub claim: Claim,
    /// Whether the request asks for a stream.
    pub streaming: bool,
}

/// How the response to a request will come.
pub(in crate::daemon) enum PendingResponse {
    /// Once, from the engine, which has yet to get this request.
    FromEngine(Request),
    /// Once.
    One(Pin<Box<dyn Future<Output = RpcResult> + Send>>),
    /// As a list of jobs, which is read part by part.
    Jobs(Pin<Box<dyn Future<Output = Result<Listing, RpcError>> + Send>>),
    /// From the engine, until the first error.
    EngineStream(ReplyStream),
    /// From another part of the manager, until the first error.
    Feed(Receiver<RpcResult>),
    /// As an eventlog and what is added to it.
    Eventlog(EventlogWatch),
}

impl PendingResponse {
    /// Makes a single response of the service `S` that is there already.
    pub(super) fn now<S: Service>(response: &S::Response) -> Result<Self, RpcError> {
        let response = written::<S>(response);
        Ok(Self::One(Box::pin(async { response })))
    }

    /// Makes a single response that will come later.
    pub(super) fn one(
        response: impl Future<Output = RpcResult> + Send + 'static,
    ) -> Result<Self, RpcError> {
        Ok(Self::One(Box::pin(response)))
    }
}

/// Converts a response of the service `S` for the client.
pub(super) fn written<S: Service>(response: &S::Response) -> RpcResult {
    serde_json::to_value(response).map_err(|error| RpcError::new(EIO, error.to_string()))
}

impl Context<'_> {
    /// Sends a request to the engine, which may respond much later. The request is removed when its client leaves.
    pub(super) fn wait(&self, request: Request) -> Result<PendingResponse, RpcError> {
        let mut responses = self.engine.stream(self.cred, request);
        PendingResponse::one(async move { responses.next().await })
    }

    /// Reads the response from the engine, which returns it as JSON.
    pub(super) fn read<F>(&self, read: F) -> Result<PendingResponse, RpcError>
    where
        F: FnOnce(&Engine, Cred) -> Result<Value, RequestError> + Send + 'static,
    {
        let cred = self.cred;
        let read = self.engine.read(move |engine| read(engine, cred).map_err(refusal));
        PendingResponse::one(answered(read))
    }

    /// Reads the response of the service `S` from the engine, which returns it as `S::Response`.
    pub(super) fn read_as<S, F>(&self, read: F) -> Result<PendingResponse, RpcError>
    where
        S: Service,
        F: FnOnce(&Engine) -> Result<S::Response, RequestError> + Send + 'static,
    {
        let read = self.engine.read(move |engine| {
            let response = read(engine).map_err(refusal)?;
            written::<S>(&response)
        });
        PendingResponse::one(answered(read))
    }
}

/// What the dispatcher needs from a request, whatever its type.
pub(super) trait Decoded: Send {
    /// The job that it is about.
    fn job(&self) -> Option<JobId>;
    /// What the audit log records about it.
    fn change(&self) -> Option<Change>;
    /// See [`Handle::handle`].
    fn handle(self: Box<Self>, context: &Context<'_>) -> Result<PendingResponse, RpcError>;
}

impl<S: Handle> Decoded for S {
    fn job(&self) -> Option<JobId> {
        Service::job(self)
    }

    fn change(&self) -> Option<Change> {
        self.audited().map(|audited| Change::from_request(self, audited))
    }

    fn handle(self: Box<Self>, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        Handle::handle(*self, context)
    }
}

/// Refuses a request that has a jobspec beside its payload.
pub(super) fn without_jobspec(topic: &str, body: &Body) -> Result<(), RpcError> {
    match body.jobspec {
        None => Ok(()),
        Some(_) => Err(RpcError::proto(format!("{topic}: only a submission has a jobspec"))),
    }
}

/// Refuses everyone but the owner.
pub(super) fn owner(cred: Cred) -> Result<(), RpcError> {
    if cred.owner { Ok(()) } else { Err(refusal(RequestError::owner_only())) }
}
