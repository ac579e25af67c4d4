//! The sources of the jobs that `jobs` lists: a manager, or lines of JSON on standard input.

use std::fmt::Display;
use std::io::BufRead;

use serde_json::Value;

use super::options::{COMMAND, JobsArgs, Setting};
use super::query::Query;
use super::row::{DisplayContext, JobRow};
use crate::cli::common::message::{CliError, Streams};
use crate::cli::common::reach;
use crate::client::{Client, RpcError};
use crate::rpc::errno::{ENOENT, EPERM};
use crate::rpc::service::Service;
use crate::rpc::services::job_list::{ALL, GetStats, Job, ListId, Tally};
use crate::rpc::services::queue::GetStatus;
use crate::rpc::uri::to_path;

/// The number of jobs that are listed without `--count`.
const DEFAULT_COUNT: u64 = 1000;

/// A manager whose jobs are listed; the tests simulate one.
pub(crate) trait JobSource {
    /// Sends a request and waits for its response.
    async fn call<S: Service>(&self, request: S) -> Result<S::Response, RpcError>;

    /// Connects to the manager at the address `uri`, a job on these ranks. Returns `None` if no manager responds there.
    async fn inner(&self, uri: &str, ranks: &str) -> Option<Self>
    where
        Self: Sized;
}

impl JobSource for Client {
    async fn call<S: Service>(&self, request: S) -> Result<S::Response, RpcError> {
        Client::call(self, request).await
    }

    async fn inner(&self, uri: &str, ranks: &str) -> Option<Self> {
        let address = reach::address(self, uri, ranks).await.ok()?;
        Client::connect_to(&to_path(&address).ok()?).await.ok()
    }
}

/// The jobs to list.
pub(in crate::cli) struct Fetched<'a> {
    pub(in crate::cli) rows: Vec<JobRow<'a>>,
    /// True if the command line names jobs and none of them exists, which makes the command fail.
    pub(in crate::cli) none_found: bool,
}

/// The jobs that the options select.
pub(in crate::cli) async fn fetch<'a>(
    args: &JobsArgs,
    setting: &'a Setting,
    source: &impl JobSource,
    streams: &mut Streams<'_>,
) -> Result<Fetched<'a>, CliError> {
    let mut warn = |text: &str| writeln!(streams.err, "{}", setting.prog.warning(COMMAND, text));
    if !args.jobids.is_empty() {
        // With --recursive the options still select the jobs of the inner managers.
        if args.filtered() && !args.recurses() {
            warn("Filtering options ignored with jobid list")?;
        }
        return fetch_ids(args, setting, source, streams).await;
    }
    if args.all && !args.filter.is_empty() {
        warn("Both -a and --filter specified, ignoring -a")?;
    }
    let rows = fetch_list(args, setting, source, streams).await?;
    Ok(Fetched { rows, none_found: false })
}

async fn fetch_ids<'a>(
    args: &JobsArgs,
    setting: &'a Setting,
    source: &impl JobSource,
    streams: &mut Streams<'_>,
) -> Result<Fetched<'a>, CliError> {
    let mut rows = Vec::new();
    for job in &args.jobids {
        match source.call(ListId { id: job.id, attrs: ALL }).await {
            Ok(Job { job }) => rows.push(read_row(job, &setting.display)?),
            // As in Flux, the command fails only if none of the jobs exists.
            // A job that is hidden from the user looks like one that doesn't exist.
            Err(error) if matches!(error.errno, ENOENT | EPERM) => {
                writeln!(streams.err, "JobID {} unknown", job.typed)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Fetched { none_found: rows.is_empty(), rows })
}

async fn fetch_list<'a>(
    args: &JobsArgs,
    setting: &'a Setting,
    source: &impl JobSource,
    streams: &mut Streams<'_>,
) -> Result<Vec<JobRow<'a>>, CliError> {
    let query = Query::from_args(args, setting.uid, &setting.display)?;
    // The message of the service, to which Flux's command leaves this check.
    let negative = |_| CliError::failure("invalid payload: max_entries < 0 not allowed");
    let count = args.count.map_or(Ok(DEFAULT_COUNT), u64::try_from).map_err(negative)?;
    // The response doesn't say whether it was truncated, so one more job than wanted is requested.
    let limit = if count == 0 { 0 } else { count.saturating_add(1) };
    let mut jobs = source.call(query.request(limit)).await?.jobs;
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    if count > 0 && jobs.len() > wanted {
        jobs.truncate(wanted);
        // JSON is read by programs, which know what they have requested.
        if !args.no_header && !args.json {
            writeln!(streams.err, "warning: output truncated at {count} jobs.")?;
            let advice =
                "Use --count to increase returned results or use filters to alter results.";
            writeln!(streams.err, "{advice}")?;
        }
    }
    jobs.into_iter().map(|job| read_row(job, &setting.display)).collect()
}

fn read_row(job: Value, display: &DisplayContext) -> Result<JobRow<'_>, CliError> {
    JobRow::from_json(job, display).map_err(CliError::failure)
}

/// Reads jobs from lines of JSON; empty lines are skipped.
pub(in crate::cli) fn read_rows<'a>(
    input: &mut dyn BufRead,
    display: &'a DisplayContext,
) -> Result<Vec<JobRow<'a>>, CliError> {
    let mut rows = Vec::new();
    for (i, line) in input.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let refuse = |error: &dyn Display| {
            CliError::failure(format!("JSON input error: line {}: {error}", i + 1))
        };
        let job = serde_json::from_str(&line).map_err(|error| refuse(&error))?;
        rows.push(JobRow::from_json(job, display).map_err(|error| refuse(&error))?);
    }
    Ok(rows)
}

/// Prints the line of `--stats` for all jobs, or for those of `queues`. Returns true if any job is active.
pub(in crate::cli) async fn print_stats(
    source: &impl JobSource,
    queues: Option<&[&str]>,
    streams: &mut Streams<'_>,
) -> Result<bool, CliError> {
    let stats = source.call(GetStats {}).await?;
    let mut total = Totals::default();
    match queues {
        None => total.add(&stats.all),
        Some(queues) => {
            for queue in queues {
                match stats.queues.iter().find(|known| known.name == **queue) {
                    Some(known) => total.add(&known.tally),
                    None => expect_queue(source, queue).await?,
                }
            }
        }
    }
    let Totals { running, completed, failed, pending, purged } = total;
    streams.print(&format!(
        "{running} running, {completed} completed, {failed} failed, {pending} pending, \
         {purged} inactive purged\n"
    ))?;
    Ok(running + pending > 0)
}

/// Returns an error unless the queue exists. The statistics omit queues that have had no jobs.
async fn expect_queue(source: &impl JobSource, queue: &str) -> Result<(), CliError> {
    let known = source.call(GetStatus { name: Some(queue.to_owned()) }).await;
    known.map(drop).map_err(|_| {
        let text = format!("error retrieving job stats: no stats available for queue {queue}");
        CliError::failure(text)
    })
}

/// The numbers in the line of `--stats`.
#[derive(Default)]
struct Totals {
    running: u64,
    completed: u64,
    failed: u64,
    pending: u64,
    purged: u64,
}

impl Totals {
    fn add(&mut self, tally: &Tally) {
        let states = tally.job_states;
        self.running += states.run + states.cleanup;
        self.pending += states.depend + states.priority + states.sched;
        self.completed += tally.successful;
        self.failed += tally.failed + tally.canceled + tally.timeout;
        self.purged += tally.inactive_purged;
    }
}
