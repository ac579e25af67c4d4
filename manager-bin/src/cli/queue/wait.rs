//! `queue drain` and `queue idle`: wait until no jobs are active, or until no jobs are running.

use std::time::Duration;

use jobtap_core::job::Fsd;

use crate::cli::common::message::{CliError, plural};
use crate::cli::common::session;
use crate::cli::common::work::Work;
use crate::client::{Client, RpcError};
use crate::rpc::services::job_list::GetStats;
use crate::rpc::services::queue::{Drain, Idle, Pending};

/// The interval between requests for the number of jobs that are left.
const EACH: Duration = Duration::from_secs(1);

/// Options of `queue drain`.
#[derive(Debug, clap::Args)]
pub(super) struct DrainArgs {
    /// Fail after this time
    #[arg(short = 't', long, value_name = "FSD")]
    timeout: Option<String>,
}

/// Options of `queue idle`.
#[derive(Debug, clap::Args)]
pub(super) struct IdleArgs {
    /// Fail after this time
    #[arg(short = 't', long, value_name = "FSD")]
    timeout: Option<String>,
    /// Don't print the number of pending jobs if it is 0
    #[arg(long)]
    quiet: bool,
}

/// Runs `queue drain`.
pub(super) async fn drain(client: &Client, args: &DrainArgs) -> Result<u8, CliError> {
    let work = Work::start("waiting until no job is active");
    let drained = client.call(Drain {});
    wait("drain", watched(client, &work, Counted::Active, drained), args.timeout.as_deref())
        .await?;
    Ok(0)
}

/// Runs `queue idle`, which prints the number of pending jobs.
pub(super) async fn idle(client: &Client, args: &IdleArgs) -> Result<u8, CliError> {
    let work = Work::start("waiting until no job runs");
    let idle = client.call(Idle {});
    let idle = watched(client, &work, Counted::Running, idle);
    let Pending { pending } = wait("idle", idle, args.timeout.as_deref()).await?;
    drop(work);
    if pending > 0 || !args.quiet {
        session::print(&format!("{pending} jobs\n"))?;
    }
    Ok(0)
}

/// Which jobs are awaited.
#[derive(Clone, Copy)]
enum Counted {
    Active,
    Running,
}

/// Waits for a response, and meanwhile shows on a terminal how many jobs are left.
async fn watched<T>(
    client: &Client,
    work: &Work,
    counted: Counted,
    response: impl Future<Output = T>,
) -> T {
    let tell = async {
        // Not at once, since most often no job is left, and not at all without a terminal.
        while work.is_watched() {
            tokio::time::sleep(EACH).await;
            let Ok(stats) = client.call(GetStats {}).await else { break };
            let states = stats.all.job_states;
            let running = states.run + states.cleanup;
            let jobs = match counted {
                Counted::Active => states.depend + states.priority + states.sched + running,
                Counted::Running => running,
            };
            work.say(&format!("({} left)", plural(jobs, "job")));
        }
        std::future::pending().await
    };
    tokio::select! {
        response = response => response,
        never = tell => never,
    }
}

/// Waits for the response to a request, at most for `timeout`.
async fn wait<T>(
    command: &str,
    response: impl Future<Output = Result<T, RpcError>>,
    timeout: Option<&str>,
) -> Result<T, CliError> {
    let timeout = timeout.map(str::parse::<Fsd>).transpose();
    let timeout = timeout.map_err(|_| CliError::failure("invalid Flux standard duration"))?;
    let response = match timeout.and_then(Fsd::to_duration) {
        None => response.await,
        // As in Flux, which doesn't check whether the response has arrived.
        Some(Duration::ZERO) => return Err(CliError::failure(format!("{command}: timeout"))),
        Some(timeout) => tokio::time::timeout(timeout, response)
            .await
            .map_err(|_| CliError::failure(format!("{command}: timeout")))?,
    };
    response.map_err(|error| CliError::failure(format!("{command}: {error}")))
}
