//! `submit`: submits a job, or a copy of it for each id of a set, and can wait for them.

pub(super) mod args;
pub(super) mod caller;
mod dependencies;
mod env;
pub(super) mod error;
mod files;
pub(super) mod log;
mod pattern;
pub(super) mod rlimit;
mod setattr;
pub(super) mod values;
pub(super) mod wait;

use std::process::ExitCode;

use jobtap_core::resource::Idset;
use tokio::task::{JoinHandle, JoinSet};

use self::args::{CopyArgs, SubmitArgs};
use self::caller::Caller;
use self::error::ArgError;
use self::log::{LogFiles, LogNames, Sinks};
use self::values::substitute_cc;
use self::wait::{Wait, wait_for};
use crate::cli::common::ids::show_id;
use crate::cli::common::json::spaced_json;
use crate::cli::common::message::CliError;
use crate::cli::common::progress::{Kind, ProgressArgs};
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::common::work::Work;
use crate::client::{Client, RpcError};
use crate::rpc::services::ingest::{Submit, Submitted};

const COMMAND: &str = "submit";

/// Options and arguments of `submit`.
#[derive(Debug, clap::Args)]
pub(crate) struct SubmitCommand {
    #[command(flatten)]
    job: SubmitArgs,
    #[command(flatten)]
    copies: CopyArgs,
}

impl From<ArgError> for CliError {
    fn from(error: ArgError) -> Self {
        Self::failure(error)
    }
}

/// A request to submit a job, and where its messages are written.
pub(super) struct Submission {
    /// The start of an error message about it: `cc=7: ` for a copy.
    label: String,
    /// The log files of the job.
    log: LogNames,
    /// The event to wait for, if this job has its own.
    event: Option<String>,
    pub(super) request: Submit,
}

/// Runs the command.
pub(crate) fn run(args: SubmitCommand) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        if args.job.list_plugins {
            return list_plugins();
        }
        let submissions = submissions(&args.job, &args.copies, &Caller::current()?)?;
        if args.job.dry_run {
            // As in Flux, only the first copy is printed; the others differ in their id.
            submissions.first().map_or(Ok(()), |first| print_jobspec(&first.request))?;
            return Ok(0);
        }
        let wait = Wait::from_args(args.job.verbose, args.job.label_io, &args.copies);
        let progress = (COMMAND, &args.copies.progress);
        submit_all(args.job.quiet, wait, submissions, progress).await
    })
}

/// Prints the plugins of the command line, as `--list-plugins` does. Flux's are Python classes that add options
/// to the commands; here plugins act in the manager, and the commands load none.
pub(super) fn list_plugins() -> Result<u8, CliError> {
    session::print(
        "Options provided by plugins:\n  none: plugins act in the manager, see `plugin list`\n",
    )?;
    Ok(0)
}

/// Prints the jobspec of a request, as `--dry-run` does.
pub(super) fn print_jobspec(request: &Submit) -> Result<(), CliError> {
    let jobspec = request.jobspec.as_ref().map(spaced_json).unwrap_or_default();
    session::print(&format!("{jobspec}\n"))?;
    Ok(())
}

/// The request for the options.
pub(super) fn submission(args: &SubmitArgs, caller: &Caller) -> Result<Submission, CliError> {
    let request = Submit {
        jobspec: Some(args.jobspec(caller)?.into()),
        signed: None,
        urgency: Some(args.urgency()?),
        flags: Some(args.job_flags()?.bits()),
    };
    Ok(Submission { label: String::new(), log: LogNames::default(), event: None, request })
}

/// The requests for all copies of a job.
pub(super) fn submissions(
    job: &SubmitArgs,
    copies: &CopyArgs,
    caller: &Caller,
) -> Result<Vec<Submission>, CliError> {
    for note in job.notes() {
        session::print_message(note);
    }
    let log = LogNames { log: copies.log.clone(), errors: copies.log_stderr.clone() };
    let Some((kind, ids)) = copies.copies()? else {
        let event = copies.wait_event.clone();
        return Ok(vec![Submission { log, event, ..submission(job, caller)? }]);
    };
    // The message of Flux's parser of idsets, which doesn't say what is wrong.
    let invalid = |_| CliError::failure(format!("IDset(): Invalid argument: {ids}"));
    let ids: Idset = ids.parse().map_err(invalid)?;
    let copy = |id: u32| {
        let submission = submission(&job.copy_for(id, kind), caller)?;
        let name = |name: &Option<String>| name.as_ref().map(|name| substitute_cc(name, id));
        let log = LogNames { log: name(&log.log), errors: name(&log.errors) };
        let event = copies.wait_event.clone();
        Ok(Submission { label: format!("cc={id}: "), log, event, ..submission })
    };
    ids.iter().map(copy).collect()
}

/// The pending response to a request, for which a task waits.
type Response = JoinHandle<Result<Submitted, RpcError>>;

/// Sends the requests, prints the job ids in their order, waits for the jobs if requested, and returns the
/// exit code. Shows a progress bar if `command` has the options for it.
pub(super) async fn submit_all(
    quiet: bool,
    wait: Option<Wait>,
    submissions: Vec<Submission>,
    (command, progress): (&str, &ProgressArgs),
) -> Result<u8, CliError> {
    let client = Client::connect().await?;
    // Opened first: if a file can't be created, no job is submitted.
    let mut files = LogFiles::default();
    let sinks: Result<Vec<Sinks>, ArgError> =
        submissions.iter().map(|submission| files.sinks(&submission.log)).collect();
    // All requests are sent before the first response is awaited, so that the manager can commit many jobs
    // at once.
    let sent: Vec<(String, Sinks, Option<String>, Response)> = submissions
        .into_iter()
        .zip(sinks?)
        .map(|(submission, sinks)| {
            let client = client.clone();
            let response = async move { client.call(submission.request).await };
            (submission.label, sinks, submission.event, tokio::spawn(response))
        })
        .collect();
    let kind = if wait.is_some() { Kind::Wait } else { Kind::Submit };
    let bar = progress.start(command, kind, sent.len());
    let progress = bar.as_ref().map(|bar| bar.progress.clone());
    // The output of jobs can end within a line, and a progress line below would break that line.
    let quiet_jobs = !wait.as_ref().is_some_and(Wait::copies_output);
    let total = sent.len() as u64;
    let work = |what| (bar.is_none() && quiet_jobs).then(|| Work::on(what, total, "jobs"));
    let submitting = work("submitting");
    let wait = wait.map(|wait| wait.with_progress(progress.clone()));
    let mut waiting = JoinSet::new();
    let mut highest = 0;
    for (label, sinks, event, response) in sent {
        match response.await.map_err(CliError::failure)? {
            Ok(Submitted { id, messages }) => {
                session::print_plugin_messages(command, &messages);
                if !quiet {
                    sinks.write(false, format!("{}\n", show_id(id)).as_bytes())?;
                }
                if let Some(wait) = wait.clone() {
                    let wait = match &event {
                        Some(event) => wait.until(event),
                        None => wait,
                    };
                    waiting.spawn(wait_for(client.clone(), id, wait, sinks));
                }
            }
            Err(error) => {
                session::print_plugin_messages(command, &error.messages);
                sinks.print_message(&format!("{label}[Errno {}] {error}", error.errno));
                highest = highest.max(1);
                if let Some(progress) = progress.as_ref().filter(|_| kind == Kind::Wait) {
                    progress.refused();
                }
            }
        }
        if let Some(progress) = progress.as_ref().filter(|_| kind == Kind::Submit) {
            progress.done();
        }
        submitting.iter().for_each(Work::one_more);
    }
    drop(submitting);
    let waits_for = (!waiting.is_empty()).then(|| work("waiting for")).flatten();
    // Refused jobs are not awaited.
    waits_for.iter().for_each(|work| work.at(total.saturating_sub(waiting.len() as u64)));
    while let Some(code) = waiting.join_next().await {
        highest = highest.max(code.map_err(CliError::failure)??);
        waits_for.iter().for_each(Work::one_more);
    }
    Ok(highest)
}
