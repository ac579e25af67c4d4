//! `job raiseall` and `job killall`: raise an exception on, or send a signal to, all jobs that the options
//! select.

use jobtap_core::job::{Signal, State, StateSet, signal_text};

use super::several::print_message;
use crate::cli::common::message::CliError;
use crate::client::Client;
use crate::rpc::services::job_manager::{ALL_USERS, KillAll, Matched, RaiseAll};
use crate::users::Users;

/// Options and arguments of `job raiseall`.
#[derive(Debug, clap::Args)]
pub(super) struct RaiseallArgs {
    /// Severity of the exception: 0 (fatal) to 7
    #[arg(short = 's', long, value_name = "N", default_value_t = 7, allow_negative_numbers = true)]
    severity: i64,
    /// Select jobs of this user (a name, a number or "all")
    #[arg(short = 'u', long, value_name = "USER")]
    user: Option<String>,
    /// Select jobs in these states: depend, priority, sched, run, cleanup, pending, running, active
    #[arg(short = 'S', long, value_name = "LIST", default_value = "active")]
    states: String,
    /// Confirm; without this option the jobs are only counted
    #[arg(short = 'f', long)]
    force: bool,
    /// Type of the exception
    #[arg(value_name = "TYPE")]
    kind: String,
    /// Note of the exception
    #[arg(value_name = "MESSAGE")]
    message: Vec<String>,
}

/// Options of `job killall`.
#[derive(Debug, clap::Args)]
pub(super) struct KillallArgs {
    /// Signal, by name or number
    #[arg(short = 's', long, value_name = "SIG", default_value = "SIGTERM")]
    signal: String,
    /// Select jobs of this user (a name, a number or "all")
    #[arg(short = 'u', long, value_name = "USER")]
    user: Option<String>,
    /// Confirm; without this option the jobs are only counted
    #[arg(short = 'f', long)]
    force: bool,
}

/// Runs `job raiseall`.
pub(super) async fn raiseall(client: &Client, args: &RaiseallArgs) -> Result<u8, CliError> {
    let request = RaiseAll {
        dry_run: !args.force,
        userid: userid(args.user.as_deref())?,
        states: states(&args.states)?.state_bits().into(),
        kind: args.kind.clone(),
        severity: args.severity,
        note: args.message.join(" "),
    };
    let response = client.call(request).await;
    let response = response.map_err(|error| CliError::failure(format!("raiseall: {error}")))?;
    print_message(summary(response, args.force, "Raised exception on"));
    Ok(0)
}

/// Runs `job killall`.
pub(super) async fn killall(client: &Client, args: &KillallArgs) -> Result<u8, CliError> {
    let numeric = args.signal.parse::<u32>().is_ok_and(|number| number > 0);
    let signal: Signal = args.signal.parse().map_err(|_| {
        CliError::failure(match numeric {
            true => "killall: Invalid signal number".to_owned(),
            false => format!("killall: Invalid signal {}", args.signal),
        })
    })?;
    let request = KillAll {
        dry_run: !args.force,
        userid: userid(args.user.as_deref())?,
        signum: signal.number().into(),
    };
    let response = client.call(request).await;
    let response = response.map_err(|error| CliError::failure(format!("killall: {error}")))?;
    let done = signal_text(signal.number());
    print_message(summary(response, args.force, &done));
    Ok(0)
}

/// The message with the number of jobs.
fn summary(matched: Matched, force: bool, done: &str) -> String {
    let Matched { count, errors } = matched;
    // Always in the plural, as scripts that read these lines from Flux expect.
    match (count, force) {
        (0, _) => "Command matched 0 jobs".to_owned(),
        (_, false) => format!("Command matched {count} jobs (-f to confirm)"),
        (_, true) => format!("{done} {count} jobs ({errors} errors)"),
    }
}

fn states(list: &str) -> Result<StateSet, CliError> {
    let mut set = StateSet::EMPTY;
    for name in list.split(',').filter(|name| !name.is_empty()) {
        let named: StateSet = name
            .parse()
            .ok()
            .filter(|named: &StateSet| named.result_bits() == 0 && !named.is_empty())
            .ok_or_else(|| {
                CliError::failure(format!("error parsing --states: {name} is unknown"))
            })?;
        set |= named;
    }
    if set.contains(State::Inactive) {
        return Err(CliError::failure("Exceptions cannot be raised on inactive jobs"));
    }
    if set.is_empty() {
        return Err(CliError::failure("no states specified"));
    }
    Ok(set)
}

fn userid(user: Option<&str>) -> Result<i64, CliError> {
    match user {
        None => Ok(i64::from(rustix::process::getuid().as_raw())),
        Some("all") => Ok(ALL_USERS),
        Some(user) => {
            let number = user.parse().ok().or_else(|| Users::system().number(user));
            let unknown = || CliError::failure(format!("unknown user {user}"));
            number.map(i64::from).ok_or_else(unknown)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_asks_to_confirm_without_force() {
        let three = Matched { count: 3, errors: 1 };
        assert_eq!(summary(three, false, "Hangup"), "Command matched 3 jobs (-f to confirm)");
        assert_eq!(summary(three, true, "Hangup"), "Hangup 3 jobs (1 errors)");
        let one = Matched { count: 1, errors: 0 };
        assert_eq!(summary(one, true, "Hangup"), "Hangup 1 jobs (0 errors)");
        let none = Matched::default();
        assert_eq!(summary(none, true, "Hangup"), "Command matched 0 jobs");
    }

    #[test]
    fn only_states_of_active_jobs_are_accepted() {
        assert_eq!(states("active").unwrap(), StateSet::ACTIVE);
        let set = StateSet::from(State::Depend) | StateSet::RUNNING;
        assert_eq!(states("depend,RUNNING").unwrap(), set);
        let error = |text: &str| states(text).unwrap_err().text;
        assert_eq!(error("run,inactive"), "Exceptions cannot be raised on inactive jobs");
        assert_eq!(error("nosuch"), "error parsing --states: nosuch is unknown");
        assert_eq!(error("failed"), "error parsing --states: failed is unknown");
        assert_eq!(error(""), "no states specified");
    }

    #[test]
    fn user_is_a_name_a_number_or_all() {
        assert_eq!(userid(Some("all")).unwrap(), ALL_USERS);
        assert_eq!(userid(Some("77")).unwrap(), 77);
        assert_eq!(userid(Some("no such user")).unwrap_err().text, "unknown user no such user");
    }
}
