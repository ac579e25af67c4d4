//! `alloc`: starts a manager as a job and attaches to it, or with `--bg` returns as soon as it is up.

use std::io::IsTerminal;
use std::process::ExitCode;

use jobtap_core::eventlog::{Event, Name};
use jobtap_core::job::JobId;
use jobtap_core::jobspec::path;
use serde_json::{Value, json};

use super::args::NestedArgs;
use crate::cli::common::ids::{Target, show_id};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::job::{
    AttachOptions, EventStream, Interrupt, Output, attach, offer, show_exception,
};
use crate::cli::run::forward_input;
use crate::cli::submit::caller::Caller;
use crate::cli::submit::{list_plugins, print_jobspec};
use crate::client::Client;
use crate::rpc::services::ingest::{SentJobspec, Submitted};

const COMMAND: &str = "alloc";

/// The attribute of a manager that runs no command, and ends with its job.
const NO_COMMAND: &str = "-Sbroker.rc2_none=1";

/// Options and arguments of `alloc`.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_arg("command", |arg| {
    arg.value_name("COMMAND").help("Command to run under the manager [default: a shell]")
}))]
pub(in crate::cli) struct AllocCommand {
    #[command(flatten)]
    nested: NestedArgs,
    /// Print the job id as soon as the manager is up, and return. Without a command the manager runs until the job
    /// is canceled or expires
    #[arg(long)]
    bg: bool,
}

/// Runs the command.
pub(in crate::cli) fn run(args: AllocCommand) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        if args.nested.job.list_plugins {
            return list_plugins();
        }
        args.nested.check()?;
        allocate(args).await
    })
}

async fn allocate(args: AllocCommand) -> Result<u8, CliError> {
    let AllocCommand { nested, bg } = args;
    let mut command = nested.job.command.clone();
    if bg && command.is_empty() {
        command.push(NO_COMMAND.to_owned());
    }
    let mut request = nested.submission(&command, Vec::new(), &Caller::current()?)?.request;
    if bg && let Some(jobspec) = request.jobspec.as_mut().and_then(SentJobspec::made) {
        keep_terminal(jobspec)?;
    }
    // Not for --dry-run, whose jobspec another command may submit.
    let (mut input, mut keys) = (false, false);
    if !bg
        && !nested.job.dry_run
        && let Some(jobspec) = request.jobspec.as_mut().and_then(SentJobspec::made)
    {
        input = forward_input(jobspec);
        let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        keys = input && offer(jobspec, terminal)?;
    }
    if nested.job.dry_run {
        print_jobspec(&request)?;
        return Ok(0);
    }
    let client = Client::connect().await?;
    let Submitted { id, messages } =
        session::print_refusal_messages(COMMAND, client.call(request).await)?;
    session::print_plugin_messages(COMMAND, &messages);
    let typed = show_id(id);
    if bg {
        until_up(&client, id, &typed).await?;
        session::print(&format!("{typed}\n"))?;
        return Ok(0);
    }
    let verbose = nested.job.verbose;
    if verbose > 0 {
        session::print_message(&format!("jobid: {typed}"));
    }
    let options = AttachOptions {
        show_events: verbose > 1,
        show_exec: verbose > 2,
        show_status: std::io::stderr().is_terminal(),
        wait_event: Name::Clean.to_string(),
        output: Output { label: nested.job.label_io, ..Output::default() },
        read_only: false,
        input,
        keys,
        stdin_ranks: Vec::new(),
        close_others: true,
        tail: None,
        finished: false,
        interrupt: Interrupt::CancelFirst,
    };
    attach(&client, Target { id, typed }, options).await
}

/// Gives a manager in the background a terminal whose output is kept, as Flux does, so that one can attach to it later.
/// The user's own option stays.
fn keep_terminal(jobspec: &mut Value) -> Result<(), CliError> {
    let place = "attributes.system.shell.options.pty";
    if jobspec.pointer("/attributes/system/shell/options/pty").is_some() {
        return Ok(());
    }
    path::set(jobspec, place, json!({"capture": 1})).map_err(CliError::failure)
}

/// Waits until the manager has published its address, and prints exceptions of the job.
///
/// # Errors
/// The job has ended first.
async fn until_up(client: &Client, id: JobId, typed: &str) -> Result<(), CliError> {
    let mut events = EventStream::open(client, id, "eventlog", false).await?;
    let mut first = None;
    while let Some(event) = events.next().await {
        let event = event?;
        let time = event.timestamp.as_secs() - *first.get_or_insert(event.timestamp.as_secs());
        match event.event() {
            Ok(Event::Memo(memo)) if memo.contains_key("uri") => return Ok(()),
            Ok(Event::Exception(_)) => {
                let text = show_exception(&event);
                session::print_message(&format!("{time:.3}s: job.exception {typed} {text}"));
            }
            _ => {}
        }
    }
    Err(CliError::failure(format!("{typed}: unexpectedly exited")))
}
