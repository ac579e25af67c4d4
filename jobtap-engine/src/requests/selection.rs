//! Which jobs a listing selects: the constraint of `job-list.list` (RFC 31 with job operators).

use serde_json::Value;

use crate::api::RequestError;
use crate::job::{JobResult, State, StateSet, Timestamp, Uid};
use crate::jobs::{Brief, Record};
use crate::resource::{self, Hostlist, Idset};

/// The payload of a listing.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    constraint: Option<Constraint>,
    /// Selects only active jobs, and those that became inactive after this time.
    since: f64,
    /// The maximum number of jobs; 0 is no limit.
    max_entries: usize,
    arrays: bool,
}

#[derive(Debug)]
enum Constraint {
    All(Vec<Constraint>),
    Any(Vec<Constraint>),
    Not(Vec<Constraint>),
    Userid(Vec<i64>),
    Name(Vec<String>),
    Queue(Vec<String>),
    Status(StateSet),
    Ranks(Idset),
    Hosts(Hostlist),
    Time(String, Vec<(Comparison, f64)>),
}

#[derive(Debug, Clone, Copy)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The maximum number of operators and values in a constraint: each is evaluated for each job.
const MAX_TERMS: usize = resource::Constraint::MAX_TERMS;

fn invalid(text: impl Into<String>) -> RequestError {
    RequestError::new(22, text)
}

impl Selection {
    pub(crate) fn read(payload: &Value) -> Result<Self, RequestError> {
        let constraint = match payload.get("constraint") {
            None | Some(Value::Null) => None,
            Some(Value::Object(table)) if table.is_empty() => None,
            Some(value) => Some(Constraint::read(value, &mut Read::default())?),
        };
        let since = payload.get("since").and_then(Value::as_f64).unwrap_or(0.0);
        let max = payload.get("max_entries").and_then(Value::as_i64).unwrap_or(1000);
        let max_entries = usize::try_from(max)
            .map_err(|_| RequestError::new(71, "max_entries < 0 not allowed"))?;
        let arrays = payload.get("arrays").and_then(Value::as_bool).unwrap_or(false);
        Ok(Self { constraint, since, max_entries, arrays })
    }

    /// Whether the pending elements of an array are listed together.
    pub(crate) fn joins_arrays(&self) -> bool {
        self.arrays
    }

    /// The maximum number of jobs to list.
    pub(crate) fn at_most(&self) -> usize {
        if self.max_entries == 0 { usize::MAX } else { self.max_entries }
    }

    /// Whether a job that became inactive at this time can be selected.
    pub(crate) fn is_since(&self, end: Timestamp) -> bool {
        self.since <= 0.0 || end.as_secs() > self.since
    }

    /// Whether an inactive job matches; `None` if its brief does not say.
    pub(crate) fn matches_brief(&self, brief: &Brief) -> Option<bool> {
        self.constraint.as_ref().map_or(Some(true), |constraint| constraint.matches_brief(brief))
    }

    /// Whether a job is selected.
    pub(crate) fn matches(&self, record: &Record) -> bool {
        let old =
            record.job.kept().times.inactive().is_some_and(|time| time.as_secs() <= self.since);
        let listed = record.is_accepted() && !(self.since > 0.0 && old);
        listed && self.constraint.as_ref().is_none_or(|constraint| constraint.matches(record))
    }
}

/// What has been read of a constraint.
struct Read {
    /// The operators and values.
    terms: usize,
    /// The number of hosts that its lists may still have [apart](Hostlist::MAX_APART).
    apart: usize,
}

impl Default for Read {
    fn default() -> Self {
        Self { terms: 0, apart: Hostlist::MAX_APART }
    }
}

impl Constraint {
    /// Reads a constraint, a part of the one of which `read` is known.
    fn read(value: &Value, read: &mut Read) -> Result<Self, RequestError> {
        let table = value.as_object().ok_or_else(|| invalid("constraint must be JSON object"))?;
        let mut entries = table.iter();
        let (Some((operator, values)), None) = (entries.next(), entries.next()) else {
            return Err(invalid("constraint must only contain 1 element"));
        };
        let values = values
            .as_array()
            .ok_or_else(|| invalid(format!("{operator} operator value must be an array")))?;
        read.terms += 1 + values.len();
        if read.terms > MAX_TERMS {
            return Err(invalid(format!("constraint has more than {MAX_TERMS} terms")));
        }
        let mut inner =
            || values.iter().map(|value| Self::read(value, read)).collect::<Result<_, _>>();
        match &**operator {
            "and" => Ok(Self::All(inner()?)),
            "or" => Ok(Self::Any(inner()?)),
            "not" => Ok(Self::Not(inner()?)),
            "userid" => Ok(Self::Userid(values.iter().filter_map(Value::as_i64).collect())),
            "name" => Ok(Self::Name(strings(operator, values)?)),
            "queue" => Ok(Self::Queue(strings(operator, values)?)),
            "states" | "results" => status(values, operator == "results"),
            "ranks" => ranks(operator, values),
            "hostlist" => hosts(operator, values, &mut read.apart),
            time if time.starts_with("t_") => comparisons(time, &strings(operator, values)?),
            other => Err(invalid(format!("unknown constraint operator: {other}"))),
        }
    }

    /// Whether an inactive job matches; `None` if its brief does not say.
    fn matches_brief(&self, brief: &Brief) -> Option<bool> {
        let holds = |constraint: &Self| constraint.matches_brief(brief);
        match self {
            Self::All(all) => all_of(all.iter().map(holds)),
            Self::Any(any) => {
                all_of(any.iter().map(|constraint| holds(constraint).map(|holds| !holds)))
                    .map(|none| !none)
            }
            Self::Not(all) => all_of(all.iter().map(holds)).map(|all| !all),
            Self::Userid(ids) => Some(of_user(ids, brief.userid)),
            Self::Status(set) => Some(set.matches(State::Inactive, brief.result)),
            _ => None,
        }
    }

    fn matches(&self, record: &Record) -> bool {
        let (job, spec) = (&record.job, &record.job.kept().jobspec);
        match self {
            Self::All(all) => all.iter().all(|constraint| constraint.matches(record)),
            Self::Any(any) => any.iter().any(|constraint| constraint.matches(record)),
            Self::Not(all) => !all.iter().all(|constraint| constraint.matches(record)),
            Self::Userid(ids) => of_user(ids, job.userid()),
            Self::Name(names) => {
                let spec = spec.opened();
                names.iter().any(|name| name == spec.display_name())
            }
            Self::Queue(queues) => queues.iter().any(|queue| Some(&**queue) == spec.queue()),
            Self::Status(set) => set.matches(job.state(), record.result()),
            Self::Ranks(ranks) => job.resources().is_some_and(|r| r.ranks().intersects(ranks)),
            Self::Hosts(hosts) => job.resources().is_some_and(|r| !r.ranks_on(hosts).is_empty()),
            Self::Time(name, comparisons) => {
                let time = record.time(name).map_or(0.0, Timestamp::as_secs);
                time > 0.0 && comparisons.iter().all(|(how, than)| how.holds(time, *than))
            }
        }
    }
}

/// Whether all of these are true. A false one decides, even if others are unknown.
fn all_of(each: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut known = Some(true);
    for holds in each {
        match holds {
            Some(true) => {}
            Some(false) => return Some(false),
            None => known = None,
        }
    }
    known
}

/// Whether a user is among these; -1 is every user.
fn of_user(ids: &[i64], userid: Uid) -> bool {
    ids.iter().any(|id| *id == -1 || *id == i64::from(userid.as_u32()))
}

impl Comparison {
    fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Self::Less => a < b,
            Self::LessOrEqual => a <= b,
            Self::Greater => a > b,
            Self::GreaterOrEqual => a >= b,
        }
    }
}

fn strings(operator: &str, values: &[Value]) -> Result<Vec<String>, RequestError> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let texts: Option<Vec<String>> = values.iter().map(text).collect();
    texts.ok_or_else(|| invalid(format!("{operator} value must be a string")))
}

/// States or results by name, or as masks of their values.
fn status(values: &[Value], results: bool) -> Result<Constraint, RequestError> {
    let mut set = StateSet::EMPTY;
    for value in values {
        let more = match value {
            Value::String(names) => {
                names.parse::<StateSet>().map_err(|error| invalid(error.to_string()))?
            }
            value => {
                let bits = value
                    .as_u64()
                    .ok_or_else(|| invalid("states and results are names or masks"))?;
                if results {
                    let chosen = JobResult::ALL
                        .into_iter()
                        .filter(|result| bits & u64::from(result.value()) != 0);
                    chosen.fold(StateSet::EMPTY, |set, result| set | result.into())
                } else {
                    StateSet::from_bits(bits)
                }
            }
        };
        set |= more;
    }
    Ok(Constraint::Status(set))
}

fn ranks(operator: &str, values: &[Value]) -> Result<Constraint, RequestError> {
    let mut ranks = Idset::new();
    for text in strings(operator, values)? {
        let more: Idset =
            text.parse().map_err(|error| invalid(format!("invalid idset '{text}': {error}")))?;
        ranks = ranks.union(&more);
    }
    Ok(Constraint::Ranks(ranks))
}

fn hosts(operator: &str, values: &[Value], apart: &mut usize) -> Result<Constraint, RequestError> {
    let text = strings(operator, values)?.join(",");
    let hosts = Hostlist::parse_within(&text, apart)
        .map_err(|error| invalid(format!("invalid hostlist '{text}': {error}")))?;
    Ok(Constraint::Hosts(hosts))
}

fn comparisons(name: &str, values: &[String]) -> Result<Constraint, RequestError> {
    let read = |text: &String| {
        let operators = [
            (">=", Comparison::GreaterOrEqual),
            ("<=", Comparison::LessOrEqual),
            (">", Comparison::Greater),
            ("<", Comparison::Less),
        ];
        let (how, rest) =
            operators.iter().find_map(|(op, how)| Some((*how, text.strip_prefix(op)?)))?;
        Some((how, rest.trim().parse::<f64>().ok()?))
    };
    let all: Option<Vec<_>> = values.iter().map(read).collect();
    let all = all.ok_or_else(|| invalid(format!("{name} needs comparisons such as \">=1.5\"")))?;
    Ok(Constraint::Time(name.to_owned(), all))
}
