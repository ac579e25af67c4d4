//! Where the jobs of `jobs` come from: the listing service, or lines of JSON.

use std::io::BufRead;

use serde_json::{Value, json};

use super::job_row::{JobRow, Viewpoint};
use super::jobs::{COMMAND, JobsArgs, Setting};
use super::jobs_query::Query;
use super::message::{CliError, Streams};

/// How many jobs are listed if no option tells.
const DEFAULT_COUNT: u64 = 1000;

/// A refusal by the listing service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceError {
    pub(crate) errno: i32,
    pub(crate) text: String,
}

/// The listing service: a request to a topic, and its answer.
pub(crate) trait JobSource {
    /// Asks `topic`.
    async fn rpc(&self, topic: &str, payload: Value) -> Result<Value, SourceError>;

    /// The service of the manager at another address; none if nobody answers there.
    async fn inner(&self, uri: &str) -> Option<Self>
    where
        Self: Sized;
}

/// Jobs, and whether none of the ids asked for is a job's.
pub(super) struct Fetched<'a> {
    pub(super) rows: Vec<JobRow<'a>>,
    pub(super) none_found: bool,
}

/// The jobs that the options select.
pub(super) async fn fetch<'a>(
    args: &JobsArgs,
    setting: &'a Setting,
    source: &impl JobSource,
    streams: &mut Streams<'_>,
) -> Result<Fetched<'a>, CliError> {
    let mut warn = |text: &str| writeln!(streams.err, "{}", setting.prog.warning(COMMAND, text));
    if !args.jobids.is_empty() {
        if args.filtered() && !args.recurses() {
            warn("Filtering options ignored with jobid list")?;
        }
        return fetch_ids(args, setting, source, streams).await;
    }
    if args.all && args.filter.is_some() {
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
        let payload = json!({"id": job.id.as_u64(), "attrs": ["all"]});
        match source.rpc("job-list.list-id", payload).await {
            Ok(mut answer) => {
                let job = answer.get_mut("job").map(Value::take).unwrap_or(answer);
                rows.push(read_row(job, &setting.view)?);
            }
            Err(error) if error.errno == rustix::io::Errno::NOENT.raw_os_error() => {
                writeln!(streams.err, "JobID {} unknown", job.typed)?;
            }
            Err(error) => return Err(CliError::failure(error.text)),
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
    let query = Query::from_args(args, setting.uid, &setting.view)?;
    let count = args.count.unwrap_or(DEFAULT_COUNT);
    // One more than wanted tells whether there are more.
    let limit = if count == 0 { 0 } else { count.saturating_add(1) };
    let mut answer = source
        .rpc("job-list.list", query.payload(limit))
        .await
        .map_err(|error| CliError::failure(error.text))?;
    let Some(Value::Array(mut jobs)) = answer.get_mut("jobs").map(Value::take) else {
        return Err(CliError::failure("the listing service's answer has no list of jobs"));
    };
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    if count > 0 && jobs.len() > wanted {
        jobs.truncate(wanted);
        if !args.no_header {
            writeln!(streams.err, "warning: output truncated at {count} jobs.")?;
            let advice =
                "Use --count to increase returned results or use filters to alter results.";
            writeln!(streams.err, "{advice}")?;
        }
    }
    jobs.into_iter().map(|job| read_row(job, &setting.view)).collect()
}

fn read_row(job: Value, view: &Viewpoint) -> Result<JobRow<'_>, CliError> {
    JobRow::from_json(job, view).map_err(CliError::failure)
}

/// Reads jobs from lines of JSON; empty lines are skipped.
pub(super) fn read_rows<'a>(
    input: &mut dyn BufRead,
    view: &'a Viewpoint,
) -> Result<Vec<JobRow<'a>>, CliError> {
    let mut rows = Vec::new();
    for (i, line) in input.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let job = serde_json::from_str(&line).map_err(|error| error.to_string());
        let row = job.and_then(|job| JobRow::from_json(job, view));
        let refuse = |text| CliError::failure(format!("JSON input error: line {}: {text}", i + 1));
        rows.push(row.map_err(refuse)?);
    }
    Ok(rows)
}

/// Prints the line of `--stats`, of all jobs or the sum of some queues; whether any job is active.
pub(super) async fn print_stats(
    source: &impl JobSource,
    queues: Option<&[&str]>,
    streams: &mut Streams<'_>,
) -> Result<bool, CliError> {
    let stats = source.rpc("job-list.job-stats", json!({})).await.map_err(|error| {
        CliError::failure(format!("error retrieving job stats: {}", error.text))
    })?;
    let mut total = Stats::default();
    match queues {
        None => total.add(&stats),
        Some(queues) => {
            let known = stats.get("queues").and_then(Value::as_array);
            for queue in queues {
                let mut known = known.into_iter().flatten();
                match known.find(|stats| is_named(stats, queue)) {
                    Some(stats) => total.add(stats),
                    None => expect_queue(source, queue).await?,
                }
            }
        }
    }
    let Stats { running, completed, failed, pending, purged } = total;
    streams.print(&format!(
        "{running} running, {completed} completed, {failed} failed, {pending} pending, \
         {purged} inactive purged\n"
    ))?;
    Ok(running + pending > 0)
}

fn is_named(stats: &Value, queue: &str) -> bool {
    stats.get("name").and_then(Value::as_str) == Some(queue)
}

/// There are no numbers for a queue without jobs; an error if there is no such queue either.
async fn expect_queue(source: &impl JobSource, queue: &str) -> Result<(), CliError> {
    let known = source.rpc("job-manager.queue-status", json!({ "name": queue })).await;
    known.map(drop).map_err(|_| CliError::failure(format!("no stats available for queue {queue}")))
}

#[derive(Default)]
struct Stats {
    running: u64,
    completed: u64,
    failed: u64,
    pending: u64,
    purged: u64,
}

impl Stats {
    fn add(&mut self, stats: &Value) {
        let number = |value: &Value, names: &[&str]| -> u64 {
            names.iter().filter_map(|name| value.get(name)).filter_map(Value::as_u64).sum()
        };
        let states = stats.get("job_states").unwrap_or(&Value::Null);
        self.running += number(states, &["run", "cleanup"]);
        self.pending += number(states, &["depend", "priority", "sched"]);
        self.completed += number(stats, &["successful"]);
        self.failed += number(stats, &["failed", "canceled", "timeout"]);
        self.purged += number(stats, &["inactive_purged"]);
    }
}
