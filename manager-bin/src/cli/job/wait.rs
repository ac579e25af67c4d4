//! `job wait`: waits until jobs that were submitted with the flag `waitable` are inactive.

use super::several::any_failed;
use crate::cli::common::ids::{Target, show_id};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::work::Work;
use crate::client::Client;
use crate::rpc::errno::ECHILD;
use crate::rpc::services::job_manager::Wait;

/// The exit code if a job isn't waitable, or no waitable jobs are left.
const NOT_WAITABLE: u8 = 2;

/// Options and arguments of `job wait`.
#[derive(Debug, clap::Args)]
pub(super) struct WaitArgs {
    /// Wait for all waitable jobs
    #[arg(short = 'a', long)]
    all: bool,
    /// With --all: report successful jobs as well
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Job id; by default the first waitable job that becomes inactive
    #[arg(value_name = "JOBID")]
    id: Option<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &WaitArgs) -> Result<u8, CliError> {
    if args.all {
        if args.id.is_some() {
            return Err(CliError::failure("jobid not supported with --all"));
        }
        return all(client, args.verbose).await;
    }
    let target = args.id.as_deref().map(Target::parse).transpose()?;
    let request = Wait::new(target.as_ref().map(|target| target.id));
    let work = Work::start("waiting for a job to end");
    let end = client.call(request).await;
    drop(work);
    let end = end.map_err(|error| {
        let code = if error.errno == ECHILD { NOT_WAITABLE } else { 1 };
        CliError { code, ..CliError::failure(error) }
    })?;
    if let (None, Some(id)) = (&target, end.id) {
        session::print(&format!("{}\n", show_id(id)))?;
    }
    if end.success { Ok(0) } else { Err(CliError::failure(end.errstr)) }
}

/// Waits until no waitable job is left.
async fn all(client: &Client, verbose: bool) -> Result<u8, CliError> {
    let mut failed = false;
    let (work, mut ended) = (Work::start("waiting for jobs to end"), 0);
    loop {
        let end = match client.call(Wait::new(None)).await {
            Err(error) if error.errno == ECHILD => return any_failed(failed),
            end => end?,
        };
        let id = end.id.map(show_id).unwrap_or_default();
        failed |= !end.success;
        ended += 1;
        work.say(&format!("({ended} ended)"));
        if !end.success {
            session::print_message(&format!("{id}: {}", end.errstr));
        } else if verbose {
            session::print_message(&format!("{id}: job completed successfully"));
        }
    }
}
