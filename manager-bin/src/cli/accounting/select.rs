//! The options that select jobs for `accounting`, and the request made from them.

use jiff::tz::TimeZone;
use jobtap_core::job::{JobResult, State, StateSet};
use serde_json::{Value, json};

use crate::cli::common::message::CliError;
use crate::cli::common::when::{now, parse_when};
use crate::rpc::services::job_list::{ALL, List};
use crate::users::Users;

/// The options that select jobs.
#[derive(Debug, Clone, Default, clap::Args)]
pub(in crate::cli) struct SelectArgs {
    /// Only jobs that ended at this time or later
    #[arg(short = 'S', long, value_name = "WHEN", alias = "starttime", allow_hyphen_values = true)]
    pub(in crate::cli) since: Option<String>,
    /// Only jobs that ended before this time
    #[arg(short = 'E', long, value_name = "WHEN", alias = "endtime", allow_hyphen_values = true)]
    pub(in crate::cli) until: Option<String>,
    /// Only jobs of these users (names or numbers)
    #[arg(short = 'u', long, value_name = "USER,..")]
    pub(in crate::cli) user: Option<String>,
    /// Only jobs of these queues
    #[arg(short = 'q', long, value_name = "QUEUE,..", alias = "partition", short_alias = 'r')]
    pub(in crate::cli) queue: Option<String>,
    /// Only jobs with these results, such as failed or TIMEOUT
    #[arg(short = 's', long, value_name = "STATE,..")]
    pub(in crate::cli) state: Option<String>,
}

/// Which jobs are requested, apart from what the options select.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    /// Only inactive jobs.
    Finished,
    /// Active jobs too, unless `--until` is given, which only inactive jobs can satisfy.
    AlsoActive,
}

impl SelectArgs {
    /// The request. Without `--since`, it selects jobs that became inactive at `since` or later.
    ///
    /// # Errors
    /// A time, a user or a state that is not understood.
    pub(super) fn request(
        &self,
        span: Span,
        since: Option<f64>,
        users: &Users,
        zone: &TimeZone,
    ) -> Result<List, CliError> {
        let time = |option: &str, text: &Option<String>| {
            let read = |text: &String| {
                parse_when(text, now(), zone)
                    .ok_or_else(|| CliError::usage(format!("--{option}: invalid time: '{text}'")))
            };
            text.as_ref().map(read).transpose()
        };
        let since = time("since", &self.since)?.or(since);
        let until = time("until", &self.until)?;
        if let (Some(since), Some(until)) = (since, until)
            && since >= until
        {
            return Err(CliError::failure("no job can end since a time after --until"));
        }
        let mut all: Vec<Value> = Vec::new();
        if span == Span::Finished || until.is_some() {
            all.push(json!({ "states": [StateSet::from(State::Inactive).state_bits()] }));
        }
        if let Some(users_) = &self.user {
            all.push(json!({ "userid": uids(users_, users)? }));
        }
        if let Some(queues) = &self.queue {
            all.push(json!({ "queue": queues.split(',').collect::<Vec<_>>() }));
        }
        if let Some(states) = &self.state {
            all.push(status(states)?);
        }
        if let Some(until) = until {
            all.push(json!({ "t_inactive": [format!("<{until}")] }));
        }
        Ok(List {
            max_entries: Some(0),
            constraint: Some(if all.is_empty() { json!({}) } else { json!({ "and": all }) }),
            attrs: ALL,
            arrays: true,
            // The manager lists jobs that became inactive after this time. Here the time itself is included, so that
            // each job is in exactly one of the spans [a, b) and [b, c).
            since: since.map(f64::next_down),
        })
    }
}

fn uids(names: &str, users: &Users) -> Result<Vec<u32>, CliError> {
    let uid = |name: &str| {
        let uid = name.parse().ok().or_else(|| users.number(name));
        uid.ok_or_else(|| CliError::failure(format!("there is no user '{name}'")))
    };
    names.split(',').map(uid).collect()
}

/// Slurm's states that no job has here, by their words and abbreviations.
const OF_SLURM: [&str; 20] = [
    "node_fail",
    "nf",
    "out_of_memory",
    "oom",
    "preempted",
    "pr",
    "boot_fail",
    "bf",
    "deadline",
    "dl",
    "suspended",
    "s",
    "requeued",
    "rq",
    "resizing",
    "rs",
    "revoked",
    "rv",
    "configuring",
    "cf",
];

/// The constraint for states and results, by Flux's names or by those of sacct.
fn status(names: &str) -> Result<Value, CliError> {
    let mut set = StateSet::EMPTY;
    for name in names.split(',') {
        set |= match name.to_lowercase().as_str() {
            "cancelled" | "ca" => JobResult::Canceled.into(),
            "running" | "r" => StateSet::RUNNING,
            "pending" | "pd" => StateSet::PENDING,
            name if OF_SLURM.contains(&name) => StateSet::EMPTY,
            name => {
                let set = name.parse::<StateSet>().ok().filter(|set| !set.is_empty());
                set.ok_or_else(|| CliError::failure(format!("there is no state '{name}'")))?
            }
        };
    }
    Ok(json!({"or": [{ "states": [set.state_bits()] }, { "results": [set.result_bits()] }]}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(args: &SelectArgs, span: Span) -> Result<List, CliError> {
        let users = Users::from_passwd("alice:x:7:7::/:/bin/sh");
        args.request(span, None, &users, &TimeZone::UTC)
    }

    #[test]
    fn the_options_are_one_constraint() {
        let text = |text: &str| Some(text.to_owned());
        let args = SelectArgs {
            since: text("2026-01-01"),
            until: text("2026-02-01"),
            user: text("alice,8"),
            queue: text("a,b"),
            state: text("CANCELLED,failed"),
        };
        let request = request(&args, Span::Finished).unwrap();
        let wanted = json!({"and": [
            {"states": [64]}, {"userid": [7, 8]}, {"queue": ["a", "b"]},
            {"or": [{"states": [0]}, {"results": [6]}]},
            {"t_inactive": ["<1769904000"]},
        ]});
        assert_eq!(request.constraint, Some(wanted));
        assert_eq!(request.since, Some(1_767_225_600f64.next_down()));
        assert_eq!(request.max_entries, Some(0));
    }

    #[test]
    fn active_jobs_are_listed_only_up_to_now() {
        let all = request(&SelectArgs::default(), Span::AlsoActive).unwrap();
        assert_eq!(all.constraint, Some(json!({})));
        let args = SelectArgs { until: Some("2026-02-01".to_owned()), ..SelectArgs::default() };
        let ended = request(&args, Span::AlsoActive).unwrap().constraint.unwrap();
        assert_eq!(ended["and"][0], json!({"states": [64]}));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let refusal = |args: SelectArgs| request(&args, Span::Finished).unwrap_err().text;
        let text = |text: &str| Some(text.to_owned());
        let args = SelectArgs { user: text("bob"), ..SelectArgs::default() };
        assert_eq!(refusal(args), "there is no user 'bob'");
        let args = SelectArgs { state: text("NODE_FAIL,oom"), ..SelectArgs::default() };
        let none = json!({"or": [{"states": [0]}, {"results": [0]}]});
        assert_eq!(request(&args, Span::Finished).unwrap().constraint.unwrap()["and"][1], none);
        let args = SelectArgs { state: text("failed,x"), ..SelectArgs::default() };
        assert_eq!(refusal(args), "there is no state 'x'");
        let args = SelectArgs { since: text("maybe"), ..SelectArgs::default() };
        assert_eq!(refusal(args), "--since: invalid time: 'maybe'");
        let args = SelectArgs {
            since: text("2026-02-01"),
            until: text("2026-01-01"),
            ..SelectArgs::default()
        };
        assert_eq!(refusal(args), "no job can end since a time after --until");
    }
}
