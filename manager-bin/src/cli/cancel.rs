//! `cancel`: cancels jobs by id, or all jobs that the options select.

use std::process::ExitCode;

use jobtap_core::job::{State, StateSet};

use super::common::arrays::Named;
use super::common::ids::show_id;
use super::common::message::{CliError, Prog, plural};
use super::common::session;
use super::common::usage::Family;
use super::jobs::query::LONGEST_ABBREVIATION;
use crate::client::Client;
use crate::rpc::services::job_manager::{ALL_USERS, Matched, RaiseAll};
use crate::users::Users;

const COMMAND: &str = "cancel";

/// Options and arguments of `cancel`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct CancelArgs {
    /// Cancel all active jobs of the user
    #[arg(long)]
    all: bool,
    /// Cancel jobs in these states: depend, priority, sched, run, pending, running, active
    #[arg(short = 'S', long, value_name = "LIST")]
    states: Vec<String>,
    /// Cancel jobs of this user (a name, a number or "all")
    #[arg(short = 'u', long, value_name = "USER")]
    user: Option<String>,
    /// Only print how many jobs would be canceled
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print nothing if there are no such jobs
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Note of the exception
    #[arg(short = 'm', long, value_name = "NOTE")]
    message: Option<String>,
    /// Job ids. The id of a job array means all of its elements, ID[3] and ID[1-4,7] some of them
    #[arg(value_name = "JOBID")]
    ids: Vec<Named>,
}

/// Runs the command.
pub(crate) fn run(args: CancelArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        let several = args.all || args.user.is_some() || !args.states.is_empty();
        if several && !args.ids.is_empty() {
            return Err(CliError::failure(
                "Do not specify a list of jobids with --all,--user,--states options",
            ));
        }
        if several {
            cancel_all(&args).await
        } else if args.ids.is_empty() {
            Err(CliError::failure("No target jobs were provided"))
        } else {
            cancel_ids(&args).await
        }
    })
}

async fn cancel_ids(args: &CancelArgs) -> Result<u8, CliError> {
    if args.dry_run {
        print_message(&summary(args.ids.len() as u64, 0, true));
        return Ok(0);
    }
    let client = Client::connect().await?;
    let mut failed = false;
    let note = args.message.clone().unwrap_or_default();
    for named in &args.ids {
        if let Err(error) = named.cancel(note.clone()).send(&client).await {
            let shown = match named.indexes() {
                None => show_id(named.id),
                Some(indexes) => format!("{}[{indexes}]", show_id(named.id)),
            };
            session::print_error(COMMAND, Family::Script, &format!("{shown}: {error}"));
            failed = true;
        }
    }
    Ok(u8::from(failed))
}

async fn cancel_all(args: &CancelArgs) -> Result<u8, CliError> {
    let states = states(&args.states)?;
    let userid = userid(args.user.as_deref())?;
    let client = Client::connect().await?;
    let request = RaiseAll {
        dry_run: args.dry_run,
        userid,
        states: states.state_bits().into(),
        kind: "cancel".to_owned(),
        severity: 0,
        note: args.message.clone().unwrap_or_default(),
    };
    let Matched { count, errors } = client.call(request).await?;
    // As in Flux, --quiet suppresses only the message that there is nothing to do.
    if count > 0 || !args.quiet {
        print_message(&summary(count, errors, args.dry_run));
    }
    Ok(0)
}

fn summary(count: u64, errors: u64, dry_run: bool) -> String {
    match (count, dry_run) {
        (0, _) => "Matched 0 jobs".into(),
        (_, true) => format!("Would cancel {}", plural(count, "job")),
        (_, false) => {
            format!("Canceled {} ({})", plural(count, "job"), plural(errors, "error"))
        }
    }
}

/// The states of the jobs to cancel. Without `--states` all active states.
fn states(lists: &[String]) -> Result<StateSet, CliError> {
    let mut set = StateSet::EMPTY;
    for name in lists.iter().flat_map(|list| list.split(',')) {
        let invalid = || CliError::failure(format!("Invalid state {name} specified"));
        if name.len() <= LONGEST_ABBREVIATION {
            return Err(invalid());
        }
        let named: StateSet = name.parse().map_err(|_| invalid())?;
        let cancelable = State::ALL
            .into_iter()
            .filter(|state| !matches!(state, State::New | State::Cleanup | State::Inactive));
        // RUNNING includes CLEANUP, which isn't accepted by itself.
        let exact = matches!(name.to_ascii_lowercase().as_str(), "running" | "active");
        let allowed = cancelable.fold(StateSet::EMPTY, |set, state| set | state.into());
        let excluded = named.state_bits() & !allowed.state_bits() != 0 && !exact;
        if excluded || named.is_empty() || named.result_bits() != 0 {
            return Err(invalid());
        }
        set |= named;
    }
    Ok(if set.is_empty() { StateSet::ACTIVE } else { set })
}

fn userid(user: Option<&str>) -> Result<i64, CliError> {
    let Some(user) = user else {
        return Ok(i64::from(rustix::process::geteuid().as_raw()));
    };
    if user == "all" {
        return Ok(ALL_USERS);
    }
    let number = user.parse().ok().or_else(|| Users::system().number(user));
    number.map(i64::from).ok_or_else(|| CliError::failure(format!("Invalid user {user} specified")))
}

fn print_message(text: &str) {
    session::print_message(&Prog::current().plain(COMMAND, text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_uses_singular_and_plural() {
        assert_eq!(summary(1, 0, false), "Canceled 1 job (0 errors)");
        assert_eq!(summary(2, 1, false), "Canceled 2 jobs (1 error)");
        assert_eq!(summary(3, 0, true), "Would cancel 3 jobs");
        assert_eq!(summary(0, 0, true), "Matched 0 jobs");
    }

    #[test]
    fn only_states_of_cancelable_jobs_are_accepted() {
        let set = |text: &str| states(&[text.to_owned()]);
        assert_eq!(states(&[]).unwrap(), StateSet::ACTIVE);
        assert_eq!(set("pending").unwrap(), StateSet::PENDING);
        assert_eq!(set("running").unwrap(), StateSet::RUNNING);
        assert_eq!(
            set("depend,run").unwrap(),
            StateSet::from(State::Depend) | StateSet::from(State::Run)
        );
        for bad in ["", "inactive", "cleanup", "completed", "nosuch", "R", "ru", "PD"] {
            assert_eq!(set(bad).unwrap_err().text, format!("Invalid state {bad} specified"));
        }
    }
}
