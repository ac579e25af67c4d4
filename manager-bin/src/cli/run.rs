//! `run`: submits a job and attaches to it.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::common::ids::Target;
use super::common::ids::show_id;
use super::common::message::CliError;
use super::common::session;
use super::common::usage::Family;
use super::job::{AttachOptions, Interrupt, Output, attach, offer, tasks};
use super::submit::args::SubmitArgs;
use super::submit::caller::Caller;
use super::submit::values::is_task_set;
use super::submit::{list_plugins, print_jobspec, submission};
use crate::client::Client;
use crate::rpc::services::ingest::{SentJobspec, Submitted};

const COMMAND: &str = "run";

/// Options and arguments of `run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunCommand {
    #[command(flatten)]
    job: SubmitArgs,
    /// Follow the job until this event only; its output is printed to the end
    #[arg(long, value_name = "NAME", default_value = "clean")]
    wait_event: String,
}

/// Runs the command.
pub(crate) fn run(args: RunCommand) -> ExitCode {
    session::run(COMMAND, Family::Script, submit_and_attach(args))
}

async fn submit_and_attach(args: RunCommand) -> Result<u8, CliError> {
    if args.job.list_plugins {
        return list_plugins();
    }
    for note in args.job.notes() {
        session::print_message(note);
    }
    let mut args = args;
    let input_tasks = args.job.input.take_if(|input| is_task_set(input));
    let stdin_ranks = input_tasks.as_deref().map_or(Ok(Vec::new()), tasks)?;
    let mut request = submission(&args.job, &Caller::current()?)?.request;
    if args.job.dry_run {
        // Printed without a source of standard input, as Flux does: scripts edit this jobspec and submit it,
        // and the tasks of such a job must not wait for the input of this command.
        print_jobspec(&request)?;
        return Ok(0);
    }
    let input = request.jobspec.as_mut().and_then(SentJobspec::made).is_some_and(forward_input);
    let keys = match request.jobspec.as_mut().and_then(SentJobspec::made) {
        Some(jobspec) => input && offer(jobspec, false)?,
        None => false,
    };
    let client = Client::connect().await?;
    let Submitted { id, messages } =
        session::print_refusal_messages(COMMAND, client.call(request).await)?;
    session::print_plugin_messages(COMMAND, &messages);
    let typed = show_id(id);
    if args.job.verbose > 0 {
        session::print_message(&format!("jobid: {typed}"));
    }
    let options = AttachOptions {
        show_events: args.job.verbose > 1,
        show_exec: args.job.verbose > 2,
        show_status: false,
        wait_event: args.wait_event,
        output: Output { label: args.job.label_io, ..Output::default() },
        read_only: false,
        input,
        keys,
        stdin_ranks,
        close_others: true,
        tail: None,
        finished: false,
        interrupt: Interrupt::CancelFirst,
    };
    attach(&client, Target { id, typed }, options).await
}

/// Makes the tasks read the input of clients, unless the options name another source. Returns true if they read the
/// input of clients.
pub(super) fn forward_input(jobspec: &mut Value) -> bool {
    let Some(system) = jobspec.pointer_mut("/attributes/system") else {
        return false;
    };
    let pointer = "/shell/options/input/stdin";
    if let Some(stdin) = system.pointer(pointer) {
        return stdin.get("type").and_then(Value::as_str) == Some("service");
    }
    let default = json!({"shell": {"options": {"input": {"stdin": {"type": "service"}}}}});
    crate::daemon::config::merge(system, default);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_forwarded_unless_a_file_is_named() {
        let mut jobspec = json!({"attributes": {"system": {"duration": 0}}});
        assert!(forward_input(&mut jobspec));
        let pointer = "/attributes/system/shell/options/input/stdin/type";
        assert_eq!(jobspec.pointer(pointer).unwrap(), "service");
        assert!(forward_input(&mut jobspec));
        *jobspec.pointer_mut(pointer).unwrap() = json!("file");
        assert!(!forward_input(&mut jobspec));
    }
}
