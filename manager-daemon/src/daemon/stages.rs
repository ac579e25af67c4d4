//! Single stages of a job's way through the manager, for `jobtap bench`: what the threads of a manager do with a
//! job, without the threads.

use std::sync::Arc;

use jobtap_core::engine::{Cred, Effect, Submission};
use serde_json::Value;

use super::server::request_lines;
use super::services::Handle;
use super::services::ingest::{self, size};
use super::services::journal::Journal;
use super::writes::effects;
use super::writes::hub::Hub;
use crate::rpc::RpcError;
use crate::rpc::message::Response;
use crate::rpc::service::Service;
use crate::rpc::services::ingest::Submit;

/// The submission in a line that a client has sent.
///
/// # Errors
/// As the manager responds to the line.
pub fn decode(line: &[u8], cred: Cred) -> Result<Submission, RpcError> {
    let request = request_lines::decode(line.to_vec()).map_err(|refused| refused.error)?;
    let request = Submit::decode(Submit::TOPIC, &request.payload)?;
    ingest::submission(request, cred, size::DEFAULT)
}

/// Where the events of a manager go that has no clients.
#[derive(Default)]
pub struct Publication {
    hub: Arc<Hub>,
    journal: Arc<Journal>,
}

impl Publication {
    /// Publishes an event, or makes the line of a response. Returns the length of the line.
    pub fn carry_out(&self, effect: Effect) -> usize {
        match effect {
            Effect::Publish { id, log, seq, entry } => {
                effects::publish(&self.hub, &self.journal, id, (log, seq), &entry);
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
