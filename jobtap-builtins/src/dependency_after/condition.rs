//! The conditions that a job can wait for: the start of another job, or how it ended.

use jobtap_core::array::Progress;
use jobtap_core::eventlog::Name;
use jobtap_core::prelude::*;

/// The scheme of a dependency that any one of several conditions satisfies.
pub(super) const ANY_OF: &str = "any-of";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Start,
    Finish,
    Success,
    Failure,
    Except,
}

/// Why a dependency on an inactive job can't be satisfied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Never {
    Started,
    Ended,
}

impl Kind {
    fn of_scheme(scheme: &str) -> Option<Self> {
        Some(match scheme {
            "after" | "afterstart" => Kind::Start,
            "afterany" => Kind::Finish,
            "afterok" => Kind::Success,
            "afternotok" => Kind::Failure,
            "afterexcept" => Kind::Except,
            _ => return None,
        })
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Start => "after-start",
            Kind::Finish => "after-finish",
            Kind::Success => "after-success",
            Kind::Failure => "after-failure",
            Kind::Except => "after-except",
        }
    }

    /// Checks whether an inactive job satisfies the dependency.
    pub(super) fn judge(self, target: JobRef<'_>) -> Result<(), Never> {
        let completed = target.result() == Some(JobResult::Completed);
        let excepted = target.end_event().is_some_and(|end| end.name == Name::Exception);
        let satisfied = match self {
            Kind::Finish => return Ok(()),
            _ if !target.event_posted(Name::Alloc) => return Err(Never::Started),
            Kind::Start if target.event_posted(Name::Start) => true,
            Kind::Start => return Err(Never::Started),
            Kind::Success => completed,
            Kind::Failure => !completed,
            Kind::Except => excepted,
        };
        if satisfied { Ok(()) } else { Err(Never::Ended) }
    }

    /// Checks whether an array satisfies the dependency; `None` if its further elements decide that.
    pub(super) fn judge_array(self, array: Progress) -> Option<Result<(), Never>> {
        match self {
            Kind::Success if !array.has_all_completed_so_far() => Some(Err(Never::Ended)),
            _ if !array.is_over() => None,
            Kind::Failure if array.has_all_completed_so_far() => Some(Err(Never::Ended)),
            _ => Some(Ok(())),
        }
    }

    /// The rejection of a job whose dependency can't be satisfied any more.
    pub(super) fn refusal(self, target: JobId, never: Never) -> Reject {
        Reject::new(match (self, never) {
            (_, Never::Started) | (Kind::Start | Kind::Finish, _) => {
                format!("dependency: after: {target} never started")
            }
            (Kind::Success, _) => {
                format!("dependency: afterok: job {target} failed or was canceled")
            }
            (Kind::Failure, _) => format!("dependency: afternotok: job {target} succeeded"),
            (Kind::Except, _) => format!("dependency: afterexcept: job {target}: no exception"),
        })
    }
}

/// One condition: `afterok:ID`, `afterstart:ID+5m`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Condition<'a> {
    pub(super) scheme: &'a str,
    /// The job's id as it was written.
    pub(super) id: &'a str,
    pub(super) kind: Kind,
    pub(super) target: JobId,
    /// The time from the start of the job until the condition is satisfied.
    pub(super) delay: Option<Fsd>,
}

impl<'a> Condition<'a> {
    fn parse(scheme: &'a str, value: &'a str) -> Result<Self, Reject> {
        let refuse = |text: String| Reject::new(format!("dependency: {scheme}: {text}"));
        let kind =
            Kind::of_scheme(scheme).ok_or_else(|| refuse("is no dependency on a job".into()))?;
        let (id, delay) = match value.split_once('+') {
            Some((id, delay)) => (id, Some(delay)),
            None => (value, None),
        };
        // The largest id means "any job" in Flux.
        let target = id.parse().ok().filter(|id: &JobId| id.as_u64() != u64::MAX);
        let target = target.ok_or_else(|| refuse(format!("\"{value}\" is not a valid jobid")))?;
        let delay = match delay {
            None => None,
            Some(_) if kind != Kind::Start => {
                return Err(refuse(format!("\"{value}\": only afterstart has a delay")));
            }
            Some(delay) => {
                let time = delay.parse().ok().filter(|time: &Fsd| !time.is_infinite());
                let invalid = || refuse(format!("\"{value}\": \"{delay}\" is no duration"));
                Some(time.ok_or_else(invalid)?)
            }
        };
        Ok(Self { scheme, id, kind, target, delay })
    }

    /// Parses the conditions of a dependency: several separated by `|` for [`ANY_OF`], one for any other
    /// scheme.
    pub(super) fn all(scheme: &'a str, value: &'a str) -> Result<Vec<Self>, Reject> {
        if scheme != ANY_OF {
            return Ok(vec![Self::parse(scheme, value)?]);
        }
        let refuse = |text: String| Reject::new(format!("dependency: {ANY_OF}: {text}"));
        if value.contains([',', '?']) {
            let text = "a list that has both , and ? has no meaning";
            return Err(refuse(format!("\"{value}\": {text}")));
        }
        let one = |text: &'a str| match text.split_once(':') {
            Some((scheme, id)) if Kind::of_scheme(scheme).is_some() => Self::parse(scheme, id),
            _ => Err(refuse(format!("\"{text}\" can't be one of several dependencies"))),
        };
        value.split('|').map(one).collect()
    }
}
