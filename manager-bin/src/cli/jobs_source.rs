//! Where `jobs` gets its jobs: from the manager that the environment names.

use std::process::ExitCode;

use serde_json::Value;

use super::jobs::{self, JobsArgs};
use super::jobs_fetch::{JobSource, SourceError};
use super::session;
use super::usage::Family;
use crate::client::Client;
use crate::rpc::uri::to_path;

impl JobSource for Client {
    async fn rpc(&self, topic: &str, payload: Value) -> Result<Value, SourceError> {
        let answer = Client::rpc(self, topic, payload).await;
        answer.map_err(|error| SourceError { errno: error.errno, text: error.to_string() })
    }

    async fn inner(&self, uri: &str) -> Option<Self> {
        Client::connect_to(&to_path(uri).ok()?).await.ok()
    }
}

/// Runs `jobs`.
pub(super) fn run(args: JobsArgs) -> ExitCode {
    session::run(jobs::COMMAND, Family::Script, async {
        jobs::run(args, async || Ok(Client::connect().await?)).await
    })
}
