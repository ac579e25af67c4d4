//! The jobs that aren't inactive: the association of each, and how it is counted there.

use jobtap_core::prelude::*;

use crate::accounting::Account;
use crate::association::{Demand, Stage};
use crate::limits::Limit;
use crate::size::Size;

/// A job that isn't inactive.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) attached: Attached,
    pub(crate) demand: Option<Demand>,
    /// How it is counted in its association.
    pub(crate) stage: Stage,
    /// The fair share in its memo.
    pub(crate) told: Option<f64>,
}

/// The association of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attached {
    /// No data about it has come yet.
    Awaited,
    /// Its data makes no sense.
    Missing,
    Known(Account),
}

/// What a job names. A type other than text is an error.
pub(crate) struct Named<'a> {
    pub(crate) bank: Option<&'a str>,
    pub(crate) queue: Option<&'a str>,
    pub(crate) project: Option<&'a str>,
}

/// A name that is no text.
pub(crate) struct NoText;

impl<'a> Named<'a> {
    pub(crate) fn by(job: JobRef<'a>) -> Result<Self, NoText> {
        let text = |key: &str| match job.jobspec().attribute(key) {
            None => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or(NoText),
        };
        Ok(Self { bank: text("bank")?, queue: text("queue")?, project: text("project")? })
    }
}

impl Tracked {
    pub(crate) fn new(job: JobRef<'_>, attached: Attached, queue: Option<&str>) -> Self {
        let size = Size::of_jobspec(job.jobspec().value()).ok();
        let demand = size.map(|size| Demand { queue: queue.unwrap_or_default().to_owned(), size });
        Self { attached, demand, stage: Stage::Waiting, told: None }
    }
}

/// The stage of an existing job.
pub(crate) fn stage(job: JobRef<'_>) -> Stage {
    match job.state() {
        State::Sched => Stage::Sched,
        State::Run | State::Cleanup if job.resources().is_some() => Stage::Running,
        _ => Stage::Waiting,
    }
}

/// Whether a limit holds a job already.
pub(crate) fn carries(job: JobRef<'_>, limit: Limit) -> bool {
    job.dependency(limit.dependency()).is_some()
}

/// Whether its jobspec can still be changed.
pub(crate) fn is_pending(job: &Job) -> bool {
    matches!(job.state(), State::New | State::Depend | State::Priority | State::Sched)
}
