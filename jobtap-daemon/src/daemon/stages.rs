//! Single stages of a job's way through the manager, for `jobtap bench`: what the threads of a manager do with a
//! job, without the threads.

use std::sync::Arc;

use jobtap_core::engine::{Cred, Effect, Submission};
use serde_json::Value;

use super::config::jobspec_size;
use super::services::Handle;
use super::services::ingest;
use super::watchers::hub::Hub;
use super::watchers::journal::JournalWatchers;
use super::writes::effects;
use crate::rpc::RpcError;
use crate::rpc::errno::EPROTO;
use crate::rpc::message::{self, Body, Header, Response};
use crate::rpc::service::Service;
use crate::rpc::services::ingest::Submit;
use crate::store::request;

/// Decodes the submissions that a client has sent.
///
/// # Errors
/// The error with which the manager responds to the first one that is malformed.
pub fn decode(requests: &str, cred: Cred) -> Result<Vec<Submission>, RpcError> {
    let malformed = |words: String| RpcError::new(EPROTO, words);
    let cut = || malformed("a request breaks off".to_owned());
    let (mut submissions, mut rest) = (Vec::new(), requests);
    while let Some((header, after)) = rest.split_once('\n') {
        let header: Header<'_> =
            message::decode(header.as_bytes()).map_err(|error| malformed(error.to_string()))?;
        let (payload, after) = after.split_at_checked(header.size).ok_or_else(cut)?;
        let (text, after) = after.split_at_checked(header.jobspec_size).ok_or_else(cut)?;
        let mut jobspec = String::with_capacity(text.len() + request::HEAD);
        jobspec.push_str(text);
        let body = Body { payload: payload.to_owned(), jobspec: Some(jobspec) };
        let submit = Submit::decode(Submit::TOPIC, body)?;
        submissions.push(ingest::submission(submit, cred, jobspec_size::DEFAULT)?);
        rest = after;
    }
    Ok(submissions)
}

/// The destination of the events of a manager without clients.
#[derive(Default)]
pub struct Publication {
    hub: Arc<Hub>,
    journal: Arc<JournalWatchers>,
}

impl Publication {
    /// Publishes an event, or makes the line of a response. Returns the length of the line.
    pub fn carry_out(&self, effect: Effect) -> usize {
        match effect {
            Effect::Publish { id, log, seq, entry } => {
                effects::publish(&self.hub, &self.journal, id, log, seq, &entry);
                0
            }
            Effect::Reply { to, result: Ok(payload) } => answer(to.0, payload),
            _ => 0,
        }
    }
}

fn answer(id: u64, payload: Value) -> usize {
    Response { id, result: Ok(payload) }.encode().len()
}
