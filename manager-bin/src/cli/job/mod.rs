//! `job`: the commands that inspect or change single jobs.

mod attach;
mod bulk;
mod event_print;
mod event_stream;
mod eventlog;
mod hostpids;
mod id;
mod info;
mod journal;
mod kill;
mod last;
mod list;
mod memo;
mod outcome;
mod output;
mod purge;
mod raise;
mod several;
mod status;
mod submit;
mod taskmap;
mod timeleft;
mod unpack;
mod urgency;
mod wait;
mod wait_event;
mod why;

pub(super) use attach::terminal::offer;
pub(super) use attach::{AttachOptions, Interrupt, attach, tasks};
pub(super) use event_print::{FormatArgs, LocalZone, Printer, color_wanted, local_zone};
pub(super) use event_stream::{EventStream, has_context};
pub(super) use output::{Output, OutputStream, Pieces, show_exception};
pub(super) use status::{Finish, exit_code_of};
pub(super) use wait_event::parse_timeout;

use std::process::ExitCode;

use self::several::COMMAND;
use super::common::session;
use super::common::usage::Family;

/// Arguments of `job`.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
pub(crate) struct JobArgs {
    #[command(subcommand)]
    command: JobCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum JobCommand {
    /// Show a job's output until it is inactive, and exit with its exit code
    #[command(infer_long_args = true)]
    Attach(attach::AttachArgs),
    /// Print an eventlog of a job
    #[command(infer_long_args = true)]
    Eventlog(eventlog::EventlogArgs),
    /// Wait for an event of a job
    #[command(infer_long_args = true)]
    WaitEvent(wait_event::WaitEventArgs),
    /// Wait for jobs and exit with their highest exit code
    #[command(infer_long_args = true)]
    Status(status::StatusArgs),
    /// Print the value of a job's key in the store
    #[command(infer_long_args = true)]
    Info(info::InfoArgs),
    /// Raise an exception on jobs
    #[command(infer_long_args = true)]
    Raise(raise::RaiseArgs),
    /// Send a signal to running jobs
    #[command(infer_long_args = true)]
    Kill(kill::KillArgs),
    /// Raise an exception on all jobs that the options select
    #[command(infer_long_args = true)]
    Raiseall(bulk::RaiseallArgs),
    /// Send a signal to all running jobs of a user
    #[command(infer_long_args = true)]
    Killall(bulk::KillallArgs),
    /// Set memos of a job
    #[command(infer_long_args = true)]
    Memo(memo::MemoArgs),
    /// Purge inactive jobs
    #[command(infer_long_args = true)]
    Purge(purge::PurgeArgs),
    /// Wait for jobs that were submitted with the flag waitable
    #[command(infer_long_args = true)]
    Wait(wait::WaitArgs),
    /// Change a job's urgency
    #[command(infer_long_args = true)]
    Urgency(urgency::UrgencyArgs),
    /// Submit a jobspec from a file
    #[command(infer_long_args = true)]
    Submit(submit::JobSubmitArgs),
    /// Print the ids of your most recent jobs, the newest first
    #[command(infer_long_args = true)]
    Last(last::LastArgs),
    /// Show why a job is pending
    #[command(infer_long_args = true)]
    Why(why::WhyArgs),
    /// Print the output in an output pack
    #[command(infer_long_args = true)]
    Unpack(unpack::UnpackArgs),
    /// Print which node of a job runs which task
    #[command(infer_long_args = true)]
    Taskmap(taskmap::TaskmapArgs),
    /// Print the hosts and process ids of a running job's tasks
    #[command(infer_long_args = true)]
    Hostpids(hostpids::HostpidsArgs),
    /// Print the time that is left to a running job
    #[command(infer_long_args = true)]
    Timeleft(timeleft::TimeleftArgs),
    /// Watch the events journal: print the events of all jobs as JSON
    #[command(infer_long_args = true)]
    Journal(journal::JournalArgs),
    /// Print the number of jobs in each state as JSON
    Stats,
    /// Print jobs as JSON
    #[command(infer_long_args = true, hide = true)]
    List(list::ListArgs),
    /// Print inactive jobs as JSON
    #[command(infer_long_args = true, hide = true)]
    ListInactive(list::ListInactiveArgs),
    /// Print the named jobs as JSON
    #[command(infer_long_args = true, hide = true)]
    ListIds(list::ListIdsArgs),
    /// Convert job ids between encodings
    #[command(infer_long_args = true)]
    Id(id::IdArgs),
    /// Print the KVS namespaces of jobs
    #[command(infer_long_args = true)]
    Namespace(id::NamespaceArgs),
}

/// Runs the subcommand.
pub(crate) fn run(args: JobArgs) -> ExitCode {
    match args.command {
        JobCommand::Id(args) => session::run(COMMAND, Family::Compiled, async { id::run(&args) }),
        JobCommand::Unpack(args) => {
            session::run(COMMAND, Family::Compiled, async { unpack::run(&args) })
        }
        JobCommand::Namespace(args) => {
            session::run(COMMAND, Family::Compiled, async { id::namespaces(&args) })
        }
        command => session::with_manager(COMMAND, Family::Compiled, async |client| match command {
            JobCommand::Attach(args) => attach::run(&client, args).await,
            JobCommand::Eventlog(args) => eventlog::run(&client, &args).await,
            JobCommand::WaitEvent(args) => wait_event::run(&client, &args).await,
            JobCommand::Status(args) => status::run(&client, &args).await,
            JobCommand::Info(args) => info::run(&client, &args).await,
            JobCommand::Raise(args) => raise::run(&client, &args).await,
            JobCommand::Kill(args) => kill::run(&client, &args).await,
            JobCommand::Raiseall(args) => bulk::raiseall(&client, &args).await,
            JobCommand::Killall(args) => bulk::killall(&client, &args).await,
            JobCommand::Memo(args) => memo::run(&client, &args).await,
            JobCommand::Purge(args) => purge::run(&client, &args).await,
            JobCommand::Wait(args) => wait::run(&client, &args).await,
            JobCommand::Urgency(args) => urgency::run(&client, &args).await,
            JobCommand::Submit(args) => submit::run(&client, &args).await,
            JobCommand::Last(args) => last::run(&client, &args).await,
            JobCommand::Why(args) => why::run(&client, &args).await,
            JobCommand::Taskmap(args) => taskmap::run(&client, &args).await,
            JobCommand::Hostpids(args) => hostpids::run(&client, &args).await,
            JobCommand::Timeleft(args) => timeleft::run(&client, &args).await,
            JobCommand::Journal(args) => journal::run(&client, &args).await,
            JobCommand::Stats => list::stats(&client).await,
            JobCommand::List(args) => list::run(&client, &args).await,
            JobCommand::ListInactive(args) => list::inactive(&client, &args).await,
            JobCommand::ListIds(args) => list::ids(&client, &args).await,
            JobCommand::Id(_) | JobCommand::Namespace(_) | JobCommand::Unpack(_) => Ok(0),
        }),
    }
}
