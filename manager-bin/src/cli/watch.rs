//! `watch`: prints the output of submitted jobs until they are inactive.

use std::process::ExitCode;

use jobtap_core::job::JobId;
use serde_json::Value;
use tokio::task::JoinSet;

use super::common::ids::Target;
use super::common::message::{CliError, Prog};
use super::common::progress::{Kind, ProgressArgs};
use super::common::session;
use super::common::usage::Family;
use super::jobs::options::{FORMATS, JobsArgs, Setting};
use super::jobs::query::{Query, SinceError, since};
use super::submit::log::Sinks;
use super::submit::wait::{Wait, wait_for};
use crate::client::Client;
use crate::rpc::errno::ENOENT;
use crate::rpc::services::job_list::ListId;

const COMMAND: &str = "watch";

/// The number of jobs that are watched without `--count`.
const DEFAULT_COUNT: u64 = 1000;

/// Options and arguments of `watch`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct WatchArgs {
    /// Watch all active jobs
    #[arg(short = 'a', long)]
    active: bool,
    /// Watch all jobs, including inactive ones
    #[arg(short = 'A', long)]
    all: bool,
    /// Watch at most this many jobs
    #[arg(short = 'c', long, value_name = "N")]
    count: Option<u64>,
    /// Watch jobs in these states or with these results
    #[arg(short = 'f', long, value_name = "LIST")]
    filter: Option<String>,
    /// Watch jobs that were active after this time
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,
    /// Prefix each line with the task rank
    #[arg(short = 'l', long)]
    label_io: bool,
    /// Print more messages on stderr (repeatable)
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    progress: ProgressArgs,
    /// Watch these jobs
    #[arg(value_name = "JOBID")]
    jobids: Vec<Target>,
}

/// Runs the command.
pub(crate) fn run(args: WatchArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, watch(args))
}

async fn watch(args: WatchArgs) -> Result<u8, CliError> {
    let setting = Setting::current(COMMAND, FORMATS)?;
    let client = Client::connect().await?;
    let mut ids: Vec<JobId> = Vec::new();
    let mut unknown = 0;
    for job in &args.jobids {
        match client.call(ListId { id: job.id, attrs: &["state"] }).await {
            Ok(_) => ids.push(job.id),
            Err(error) if error.errno == ENOENT => {
                let text = format!("JobID {} unknown", job.typed);
                session::print_error(COMMAND, Family::Script, &text);
                unknown = 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
    // As in Flux, options select no further jobs if the command line names some.
    if let Some(wanted) = selection(&args)?
        && args.jobids.is_empty()
    {
        if let Some(when) = &wanted.since {
            since(when, &setting.display).map_err(wrong_since)?;
        }
        let query = Query::from_args(&wanted, setting.uid, &setting.display)?;
        let limit = args.count.unwrap_or(DEFAULT_COUNT);
        let jobs = client.call(query.request(limit)).await?.jobs;
        let listed =
            jobs.iter().filter_map(|job| job.get("id").and_then(Value::as_u64)).map(JobId::new);
        ids.extend(listed);
    }
    if ids.is_empty() {
        session::print_message(&setting.prog.info(COMMAND, "No matching jobs"));
        return Ok(unknown);
    }
    if args.verbose > 0 {
        let text = format!("Watching {} jobs", ids.len());
        session::print_message(&setting.prog.info(COMMAND, text));
    }
    let bar = args.progress.start(COMMAND, Kind::Wait, ids.len());
    let progress = bar.as_ref().map(|bar| bar.progress.clone());
    let wait = Wait::with_output(args.verbose, args.label_io).with_progress(progress);
    let mut waits = JoinSet::new();
    for id in ids {
        waits.spawn(wait_for(client.clone(), id, wait.clone(), Sinks::default()));
    }
    let mut highest = unknown;
    while let Some(code) = waits.join_next().await {
        highest = highest.max(code.map_err(CliError::failure)??);
    }
    Ok(highest)
}

/// The error of this command for its option `--since`, which differs from that of `jobs`.
fn wrong_since(error: SinceError) -> CliError {
    match error {
        SinceError::Unreadable(when) => CliError::usage(format!("--since: invalid value '{when}'")),
        SinceError::Future(_) => CliError::usage(error),
    }
}

/// The options of `jobs` that select the same jobs. `None` if the command line contains only ids.
fn selection(args: &WatchArgs) -> Result<Option<JobsArgs>, CliError> {
    let since = args.since.clone().filter(|when| !when.is_empty());
    let counts = args.count.is_some_and(|count| count != 0);
    let selects = args.active || args.all || counts || args.filter.is_some() || since.is_some();
    if !selects {
        let text = "At least one job selection option is required";
        let text = format!("{text}\n{}", Prog::current().hint(COMMAND));
        return if args.jobids.is_empty() { Err(CliError::failure(text)) } else { Ok(None) };
    }
    let active = args.active.then(|| "active".to_owned());
    Ok(Some(JobsArgs {
        all: args.all || !args.active,
        // As in Flux, --all overrides a filter.
        filter: args.filter.clone().filter(|_| !args.all).or(active).into_iter().collect(),
        since,
        ..JobsArgs::default()
    }))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: WatchArgs,
    }

    fn select(words: &[&str]) -> Result<Option<JobsArgs>, CliError> {
        let words = [&["watch"], words].concat();
        selection(&Command::try_parse_from(words).unwrap().args)
    }

    #[test]
    fn ids_or_an_option_that_selects_jobs_are_required() {
        let text = "At least one job selection option is required\nTry '";
        for words in [["-v"], ["--since="], ["--count=0"]] {
            assert!(select(&words).unwrap_err().text.starts_with(text));
        }
        assert!(select(&["f1"]).unwrap().is_none());
        let active = select(&["-a"]).unwrap().unwrap();
        assert_eq!((active.all, active.filter), (false, vec!["active".to_owned()]));
        assert!(select(&["-c", "1"]).unwrap().unwrap().all);
        assert_eq!(select(&["-f", "failed"]).unwrap().unwrap().filter, ["failed"]);
        assert!(select(&["-A", "-f", "failed"]).unwrap().unwrap().filter.is_empty());
    }
}
