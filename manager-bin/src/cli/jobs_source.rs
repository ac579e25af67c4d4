//! Where `jobs` gets its jobs: from the manager that the environment names.

use std::process::ExitCode;

use super::jobs::{self, JobsArgs};
use super::jobs_fetch::JobSource;
use super::session;
use super::usage::Family;
use crate::client::{Client, RpcError};
use crate::rpc::service::Service;
use crate::rpc::uri::to_path;

impl JobSource for Client {
    async fn call<S: Service>(&self, request: S) -> Result<S::Answer, RpcError> {
        Client::call(self, request).await
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
