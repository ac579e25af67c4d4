//! `job status`: waits until jobs are inactive, prints how they finished and exits with their highest exit
//! code.

use jobtap_core::eventlog::{Event, EventEntry};
use jobtap_core::job::WaitStatus;

use super::event_stream::EventStream;
use super::outcome::Outcome;
use super::several::print_message;
use crate::cli::common::array_end::wait_for_array;
use crate::cli::common::arrays;
use crate::cli::common::ids::Target;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::Client;
use crate::rpc::errno::ENOENT;
use crate::rpc::services::job_list::GetArray;

/// Options and arguments of `job status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// Report failed jobs; if given twice, all jobs
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Exit code for a job that had a fatal exception before it had an exit status
    #[arg(short = 'e', long, value_name = "N", default_value_t = 1)]
    exception_exit_code: u8,
    /// Print a JSON object for each job
    #[arg(short = 'j', long)]
    json: bool,
    /// Job ids
    #[arg(value_name = "JOBID", required = true)]
    ids: Vec<String>,
}

/// How a job finished, according to its events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) struct Finish {
    /// The wait status in the event `finish`.
    pub(in crate::cli) status: Option<WaitStatus>,
    /// The type of the first fatal exception.
    pub(in crate::cli) fatal: Option<String>,
}

impl Finish {
    /// Takes the next event of the main eventlog into account.
    pub(in crate::cli) fn update(&mut self, event: &EventEntry) {
        match event.event() {
            Ok(Event::Finish { status }) => self.status = Some(WaitStatus(status)),
            Ok(Event::Exception(raised)) if raised.is_fatal() && self.fatal.is_none() => {
                self.fatal = Some(raised.kind.to_owned());
            }
            _ => {}
        }
    }
}

/// The exit code for a job. `exception` is the exit code of a job with a fatal exception and without a failing exit
/// status.
pub(in crate::cli) fn exit_code_of(finish: &Finish, exception: u8) -> u8 {
    match finish.status {
        Some(status) if !status.is_success() => status.exit_code().unwrap_or(1),
        Some(_) if finish.fatal.is_none() => 0,
        _ => exception,
    }
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &StatusArgs) -> Result<u8, CliError> {
    let (mut targets, mut highest) = (Vec::with_capacity(args.ids.len()), 0);
    for typed in &args.ids {
        let target = arrays::target(typed, client).await?;
        match client.call(GetArray { id: target.id }).await {
            Ok(array) => {
                highest = highest.max(wait_for_array(client, array.id, array.count).await?)
            }
            Err(_) => targets.push(target),
        }
    }
    let tells = args.verbose > 0 && targets.len() > 1;
    if tells {
        print_message(format!("fetching status for {} jobs", targets.len()));
    }
    let mut finished = Vec::with_capacity(targets.len());
    for target in &targets {
        finished.push(wait(client, target).await?);
    }
    if tells {
        print_message("all done.");
    }
    for (target, (finish, outcome)) in targets.iter().zip(&finished) {
        if args.json {
            session::print(&format!("{}\n", outcome.to_json()))?;
        }
        describe(target, finish, args);
        highest = highest.max(exit_code_of(finish, args.exception_exit_code));
    }
    Ok(highest)
}

/// Waits until the job is inactive and returns how it finished.
async fn wait(client: &Client, target: &Target) -> Result<(Finish, Outcome), CliError> {
    let (mut finish, mut outcome) = (Finish::default(), Outcome::new(target.id));
    let mut events = EventStream::open(client, target.id, "eventlog", false).await?;
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| match error.errno {
            ENOENT => CliError::failure(format!("{}: No such job", target.typed)),
            _ => CliError::failure(format!("{}: {error}", target.typed)),
        })?;
        finish.update(&event);
        outcome.update(&event);
    }
    Ok((finish, outcome))
}

fn describe(target: &Target, finish: &Finish, args: &StatusArgs) {
    let Some(status) = finish.status else {
        // As in Flux, one -v doesn't report these jobs.
        if let Some(kind) = finish.fatal.as_ref().filter(|_| args.verbose > 1) {
            print_message(format!("{}: exception type={kind}", target.typed));
        }
        return;
    };
    if args.verbose > 1 || (args.verbose == 1 && !status.is_success()) {
        print_message(match (status.signaled(), &finish.fatal, status.exited()) {
            (Some(signal), ..) => format!("{}: job shell died by signal {signal}", target.typed),
            // For a job that was ended by an exception, the exception says more than the exit code.
            (None, Some(kind), _) => format!("{}: exception type={kind}", target.typed),
            (None, None, Some(code)) => format!("{}: exited with exit code {code}", target.typed),
            (None, None, None) => format!("{}: {}", target.typed, status.text()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish_of(lines: &[&str]) -> Finish {
        let mut finish = Finish::default();
        for line in lines {
            finish.update(&EventEntry::decode(&format!("{line}\n")).unwrap());
        }
        finish
    }

    #[test]
    fn exit_code_prefers_failing_status_to_exception() {
        let finish = |status: i32| {
            format!("{{\"timestamp\":1.0,\"name\":\"finish\",\"context\":{{\"status\":{status}}}}}")
        };
        let fatal = "{\"timestamp\":1.0,\"name\":\"exception\",\"context\":{\"type\":\"cancel\",\"severity\":0,\"note\":\"\"}}";
        let (zero, two, killed) = (finish(0), finish(512), finish(15));
        assert_eq!(exit_code_of(&finish_of(&[&zero]), 42), 0);
        assert_eq!(exit_code_of(&finish_of(&[&two]), 42), 2);
        assert_eq!(exit_code_of(&finish_of(&[fatal, &killed]), 42), 143);
        assert_eq!(exit_code_of(&finish_of(&[fatal, &zero]), 42), 42);
        assert_eq!(exit_code_of(&finish_of(&[fatal]), 42), 42);
    }
}
