//! A client of the manager: which requests it has sent, and which responses it got.

use std::collections::BTreeMap;

use jobtap_daemon::rpc::RpcResult;
use jobtap_daemon::rpc::message::{Body, Response};
use serde_json::Value;
use tokio::io::DuplexStream;

use crate::line::Line;

/// What a client has asked for, and what follows from the response.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// A job.
    Submit,
    /// An exception of this type on a job.
    Raise {
        /// The job.
        id: u64,
        /// Its type.
        kind: String,
    },
    /// The events of a job, as they come.
    Watch {
        /// The job.
        id: u64,
        /// How many have come.
        seen: usize,
    },
    /// A job array.
    SubmitArray,
    /// The events of all jobs, as they come.
    Journal,
    /// All jobs.
    List,
    /// Why a job waits.
    Why {
        /// The job.
        id: u64,
    },
    /// The removal of a job.
    Purge {
        /// The job.
        id: u64,
    },
    /// A memo, which is to be found in the log.
    Memo {
        /// The job.
        id: u64,
        /// Its value.
        value: u64,
    },
    /// What belongs to another user.
    Forbidden {
        /// Whose it is.
        id: u64,
    },
    /// Something whose result is not looked at.
    Other(&'static str),
}

/// A connection of a user.
pub struct Client {
    /// The user.
    pub user: u32,
    line: Line,
    last: u64,
    asked: BTreeMap<u64, Asked>,
}

/// What has come for a client.
pub struct Told {
    /// The user.
    pub user: u32,
    /// What was asked for.
    pub asked: Asked,
    /// The response.
    pub result: RpcResult,
}

impl Client {
    /// A client with this end of its connection.
    #[must_use]
    pub fn new(user: u32, stream: DuplexStream) -> Self {
        Self { user, line: Line::new(stream), last: 0, asked: BTreeMap::new() }
    }

    /// Sends a request.
    pub fn send(&mut self, asked: Asked, topic: &str, payload: &Value, jobspec: Option<String>) {
        self.last += 1;
        let body = Body { payload: payload.to_string(), jobspec };
        let stream = matches!(asked, Asked::Watch { .. } | Asked::Journal);
        self.line.send(body.into_request(self.last, topic, stream).as_bytes());
        self.asked.insert(self.last, asked);
    }

    /// Lets bytes arrive here and at the manager. Returns what has come, or `None` if the manager's end is closed.
    pub fn network(&mut self, most: usize) -> Option<(bool, Vec<Told>)> {
        let mut any = self.line.deliver_up(most);
        let lines = self.line.deliver_down(most)?;
        any |= !lines.is_empty();
        let told = lines.iter().filter_map(|line| {
            let response: Response = serde_json::from_str(line).ok()?;
            let asked = self.asked.get(&response.id)?.clone();
            match (&mut self.asked.get_mut(&response.id), &response.result) {
                (Some(Asked::Watch { seen, .. }), Ok(_)) => *seen += 1,
                (Some(Asked::Journal), Ok(_)) => {}
                _ => drop(self.asked.remove(&response.id)),
            }
            Some(Told { user: self.user, asked, result: response.result })
        });
        Some((any, told.collect()))
    }

    /// How many requests have no response.
    #[must_use]
    pub fn open(&self) -> usize {
        self.asked.len()
    }
}
