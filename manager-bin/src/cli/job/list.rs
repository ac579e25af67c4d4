//! `job list`, `job list-inactive` and `job list-ids`: print jobs with all their attributes as lines of JSON,
//! for other programs.

use std::io::IsTerminal;

use jobtap_core::job::{State, StateSet};
use serde_json::Value;

use super::event_stream::EventStream;
use crate::cli::common::ids::Target;
use crate::cli::common::json::spaced_json;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::Client;
use crate::rpc::errno::strerror;
use crate::rpc::services::job_list::{ALL, Constraint, GetStats, List, ListId};
use crate::users::Users;

/// Options of `job list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// List at most N jobs; 0 for all
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1000)]
    count: u64,
    /// List jobs in these states
    #[arg(short = 's', long, value_name = "STATES")]
    states: Option<String>,
    /// List jobs of this user (a name, a number or "all")
    #[arg(short = 'u', long, value_name = "USER")]
    user: Option<String>,
    /// List my jobs in all states
    #[arg(short = 'a', long)]
    all_user: bool,
    /// List jobs of all users in all states
    #[arg(short = 'A', long)]
    all: bool,
}

/// Options of `job list-inactive`.
#[derive(Debug, clap::Args)]
pub(super) struct ListInactiveArgs {
    /// List at most N jobs; 0 for all
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1000)]
    count: u64,
    /// List jobs that became inactive after this time, in seconds since the epoch
    #[arg(short = 's', long, value_name = "T", default_value_t = 0.0)]
    since: f64,
}

/// Options and arguments of `job list-ids`.
#[derive(Debug, clap::Args)]
pub(super) struct ListIdsArgs {
    /// Wait until each job has reached this state
    #[arg(short = 'W', long, value_name = "STATE", default_value = "depend")]
    wait_state: String,
    /// Job ids
    #[arg(value_name = "JOBID", required = true)]
    ids: Vec<String>,
}

/// Runs `job list`.
pub(super) async fn run(client: &Client, args: &ListArgs) -> Result<u8, CliError> {
    print_list(client, constraint(args)?, args.count, 0.0).await
}

/// The jobs that the options select. As in Flux, `--all` and `--all-user` override the others.
fn constraint(args: &ListArgs) -> Result<Constraint, CliError> {
    let mut all = Vec::new();
    if let Some(uid) = userid(args)? {
        all.push(Constraint::Userid(vec![uid]));
    }
    let states = match &args.states {
        _ if args.all || args.all_user => None,
        Some(text) => Some(text.parse::<StateSet>().map_err(|_| {
            let unknown = text.split(',').find(|word| word.parse::<StateSet>().is_err());
            let unknown = unknown.unwrap_or(text);
            CliError::failure(format!("error parsing --states: {unknown} is unknown"))
        })?),
        None => Some(StateSet::ACTIVE),
    };
    if let Some(states) = states {
        all.push(Constraint::States(vec![states.state_bits().into()]));
    }
    Ok(Constraint::And(all))
}

/// Runs `job list-inactive`.
pub(super) async fn inactive(client: &Client, args: &ListInactiveArgs) -> Result<u8, CliError> {
    let states = StateSet::from(State::Inactive).state_bits();
    print_list(client, Constraint::States(vec![states.into()]), args.count, args.since).await
}

/// Runs `job list-ids`.
pub(super) async fn ids(client: &Client, args: &ListIdsArgs) -> Result<u8, CliError> {
    refuse_terminal()?;
    let wanted: State =
        args.wait_state.parse().map_err(|_| CliError::failure("invalid job state specified"))?;
    for text in &args.ids {
        let target = Target::parse(text)?;
        let job = reached(client, &target, wanted).await?;
        session::print(&format!("{}\n", spaced_json(&job)))?;
    }
    Ok(0)
}

/// Runs `job stats`: prints the numbers of jobs by state and result as a line of JSON.
pub(super) async fn stats(client: &Client) -> Result<u8, CliError> {
    let stats = client.call_raw(GetStats {}).await?;
    session::print(&format!("{stats}\n"))?;
    Ok(0)
}

/// The jobs that satisfy a constraint.
pub(super) async fn fetch(
    client: &Client,
    constraint: Constraint,
    count: u64,
    since: f64,
) -> Result<Vec<Value>, CliError> {
    let request = List {
        max_entries: Some(i64::try_from(count).unwrap_or(i64::MAX)),
        constraint: Some(constraint.into()),
        attrs: ALL,
        arrays: false,
        since: Some(since),
    };
    Ok(client.call(request).await?.jobs)
}

async fn print_list(
    client: &Client,
    constraint: Constraint,
    count: u64,
    since: f64,
) -> Result<u8, CliError> {
    refuse_terminal()?;
    for job in fetch(client, constraint, count, since).await? {
        session::print(&format!("{}\n", spaced_json(&job)))?;
    }
    Ok(0)
}

/// Waits until a job has reached the state, and returns its attributes. Requests them again after each
/// event of the job.
async fn reached(client: &Client, target: &Target, wanted: State) -> Result<Value, CliError> {
    let mut events = None;
    loop {
        let response = client.call(ListId { id: target.id, attrs: ALL }).await;
        // Flux misspells the topic in this message, and scripts may search for it.
        let response = response.map_err(|error| {
            CliError::failure(format!("flux job-list.list-d: {}", strerror(error.errno)))
        })?;
        let job = response.job;
        // The values of states increase in the order in which jobs go through them.
        let state = job.get("state").and_then(Value::as_u64).unwrap_or(0);
        if state >= u64::from(wanted.value()) {
            return Ok(job);
        }
        let events = match &mut events {
            Some(events) => events,
            none => none.insert(EventStream::open(client, target.id, "eventlog", false).await?),
        };
        if let Some(event) = events.next().await {
            event?;
        }
    }
}

fn userid(args: &ListArgs) -> Result<Option<u32>, CliError> {
    match args.user.as_deref() {
        _ if args.all => Ok(None),
        Some("all") => Ok(None),
        Some(user) => {
            let number = user.parse().ok().or_else(|| Users::system().number(user));
            number.map(Some).ok_or_else(|| CliError::failure(format!("unknown user {user}")))
        }
        None => Ok(Some(rustix::process::getuid().as_raw())),
    }
}

/// Returns an error if standard output is a terminal: this output is for programs.
fn refuse_terminal() -> Result<(), CliError> {
    if std::io::stdout().is_terminal() {
        let text = "This is not the command you are looking for. Try flux-jobs(1).";
        return Err(CliError::failure(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: ListArgs,
    }

    #[test]
    fn the_options_for_all_jobs_win_over_states_and_users() {
        let asked = |words: &str| {
            let line = Line::parse_from(["list"].into_iter().chain(words.split_whitespace()));
            serde_json::to_value(constraint(&line.args).unwrap()).unwrap()
        };
        let mine = json!({"userid": [rustix::process::getuid().as_raw()]});
        assert_eq!(asked(""), json!({"and": [mine, {"states": [62]}]}));
        assert_eq!(asked("-s inactive -u 7"), json!({"and": [{"userid": [7]}, {"states": [64]}]}));
        assert_eq!(asked("--all-user -s inactive"), json!({"and": [mine]}));
        assert_eq!(asked("-a -u 7"), json!({"and": [{"userid": [7]}]}));
        assert_eq!(asked("--all -s inactive -u 7"), json!({"and": []}));
        assert_eq!(asked("-A"), json!({"and": []}));
    }
}
