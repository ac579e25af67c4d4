//! The request of `jobs`: turns the options that select jobs into a constraint.

use jobtap_core::job::StateSet;
use jobtap_core::resource::{Hostlist, Idset};
use serde_json::{Map, Value};

use super::options::JobsArgs;
use super::row::DisplayContext;
use crate::cli::common::message::CliError;
use crate::cli::common::when::parse_when;
use crate::rpc::services::job_list::{ALL, Constraint, List};

/// The length of the longest abbreviation of a state or result, such as `CD`.
pub(in crate::cli) const LONGEST_ABBREVIATION: usize = 2;

/// A request to `job-list.list` without its limit.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct Query {
    /// The constraint that the jobs must satisfy.
    pub(in crate::cli) constraint: Option<Constraint>,
    /// Omits jobs that became inactive before this time, in seconds since the epoch.
    pub(in crate::cli) since: Option<f64>,
}

impl Query {
    /// The query for the options of the user `uid`.
    ///
    /// # Errors
    /// An option names an unknown user, state or result, or its value has the wrong syntax.
    pub(in crate::cli) fn from_args(
        args: &JobsArgs,
        uid: u32,
        display: &DisplayContext,
    ) -> Result<Self, CliError> {
        let since = args
            .since
            .as_deref()
            .filter(|when| !when.is_empty())
            .map(|when| since(when, display))
            .transpose()?;
        let mut all = Vec::new();
        all.extend(user(args, uid, display)?.map(|uid| Constraint::Userid(vec![uid])));
        all.extend(states(args, since.is_some())?);
        let name = args.name.as_ref().filter(|name| !name.is_empty());
        all.extend(name.map(|name| Constraint::Name(vec![name.clone()])));
        all.extend(args.queues().map(|queues| {
            Constraint::Queue(queues.iter().map(|queue| (*queue).to_owned()).collect())
        }));
        let include = args.include.as_deref().filter(|targets| !targets.is_empty());
        all.extend(include.map(targets).transpose()?);
        let constraint = (!all.is_empty()).then_some(Constraint::And(all));
        Ok(Query { constraint, since })
    }

    /// The request for at most `limit` jobs; 0 for all.
    pub(in crate::cli) fn request(&self, limit: u64) -> List {
        List {
            max_entries: Some(i64::try_from(limit).unwrap_or(i64::MAX)),
            constraint: Some(
                self.constraint.clone().map_or_else(|| Map::new().into(), Value::from),
            ),
            attrs: ALL,
            arrays: true,
            since: self.since,
        }
    }
}

/// The user whose jobs are wanted; `None` for all users.
fn user(args: &JobsArgs, own: u32, display: &DisplayContext) -> Result<Option<u32>, CliError> {
    match args.user.as_deref() {
        _ if args.all_users => Ok(None),
        Some("all") => Ok(None),
        Some(user) => {
            let uid = user.parse().ok().or_else(|| display.users.number(user));
            let unknown = || CliError::failure(format!("Invalid user {user} specified"));
            uid.map(Some).ok_or_else(unknown)
        }
        // As in Flux, `--include` selects the jobs of all users on those nodes.
        None if args.include.is_some() => Ok(None),
        None => Ok(Some(own)),
    }
}

/// The constraint on states and results; `None` for jobs in any state.
fn states(args: &JobsArgs, since: bool) -> Result<Option<Constraint>, CliError> {
    let set = match args.filter.is_empty() {
        false => parse_filter(&args.filter)?,
        true if args.all || since => return Ok(None),
        true => StateSet::ACTIVE,
    };
    let (states, results) = (u64::from(set.state_bits()), u64::from(set.result_bits()));
    let states = (states != 0).then(|| Constraint::States(vec![states]));
    let results = (results != 0).then(|| Constraint::Results(vec![results]));
    Ok(match (states, results) {
        (Some(states), Some(results)) => Some(Constraint::Or(vec![states, results])),
        (states, results) => states.or(results),
    })
}

fn parse_filter(filters: &[String]) -> Result<StateSet, CliError> {
    let mut set = StateSet::EMPTY;
    for name in filters.iter().flat_map(|filter| filter.split(',')) {
        let name = name.to_lowercase();
        // `StateSet` parses an empty name as an empty set and knows abbreviations, both of which are errors
        // here.
        let long = name.len() > LONGEST_ABBREVIATION;
        let one = name.parse::<StateSet>().ok().filter(|one| long && !one.is_empty());
        let invalid = || CliError::failure(format!("Invalid filter specified: {name}"));
        set |= one.ok_or_else(invalid)?;
    }
    Ok(set)
}

/// The constraint of `--include`. A text of the characters of an idset means ranks, any other means hosts.
fn targets(text: &str) -> Result<Constraint, CliError> {
    let text = text.trim();
    let ranks = text.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | '-' | '[' | ']'));
    let valid =
        if ranks { text.parse::<Idset>().is_ok() } else { text.parse::<Hostlist>().is_ok() };
    if !valid || text.is_empty() {
        return Err(CliError::failure(format!("-i/--include: invalid targets: {text}")));
    }
    let texts = vec![text.to_owned()];
    Ok(if ranks { Constraint::Ranks(texts) } else { Constraint::Hostlist(texts) })
}

pub(in crate::cli) fn since(when: &str, display: &DisplayContext) -> Result<f64, SinceError> {
    match parse_when(when, display.now, &display.zone) {
        None => Err(SinceError::Unreadable(when.to_owned())),
        Some(time) if time > display.now => Err(SinceError::Future(when.to_owned())),
        Some(time) => Ok(time),
    }
}

/// Why a text isn't a time after which jobs were active.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum SinceError {
    /// It is not a time.
    #[error("could not convert string to float: '{0}'")]
    Unreadable(String),
    /// It is in the future.
    #[error("--since={0} appears to be in the future")]
    Future(String),
}

impl From<SinceError> for CliError {
    fn from(error: SinceError) -> Self {
        Self::failure(error)
    }
}
