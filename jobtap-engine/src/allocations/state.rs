//! What is known about one allocation.

use std::collections::BTreeMap;

use super::change::Change;
use crate::job::Timestamp;
use crate::resource::Idset;

/// An allocation that was asked for and hasn't ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ordered {
    /// The name of its table.
    pub(super) table: String,
    /// The places of its nodes.
    pub(super) ranks: Idset,
    /// In seconds.
    pub(super) time_limit: Option<f64>,
    pub(super) asked: Timestamp,
    /// Why the outer job manager hasn't answered. It isn't stored.
    pub(super) unanswered: Option<String>,
    /// The hosts of the nodes that have joined, by rank.
    pub(super) joined: BTreeMap<u32, String>,
    pub(super) state: State,
}

/// Where an allocation is on its way.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    /// The outer job manager hasn't answered.
    Asked,
    /// It has taken the request, and lets it wait.
    Waiting {
        /// Its id outside.
        job: String,
        /// Why, in the outer job manager's word. It isn't stored.
        reason: Option<String>,
    },
    /// It runs.
    Running {
        job: String,
        started: Timestamp,
        ends_at: Option<Timestamp>,
        /// Since when it has had no job. It isn't stored.
        idle_since: Option<Timestamp>,
    },
    /// It runs, and no new jobs start there: it is given back when those that run there have ended.
    Draining { job: String, started: Timestamp, ends_at: Option<Timestamp>, reason: String },
    /// It is given back, and the host hasn't reported its end.
    Ending {
        /// `None` if it wasn't known when it was given back.
        job: Option<String>,
        started: Option<Timestamp>,
        reason: String,
    },
}

impl State {
    /// The word for it in listings.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Waiting { .. } => "waiting",
            Self::Running { .. } => "running",
            Self::Draining { .. } => "draining",
            Self::Ending { .. } => "ending",
        }
    }
}

impl Ordered {
    pub(super) fn new(
        table: &str,
        ranks: &Idset,
        time_limit: Option<f64>,
        asked: Timestamp,
    ) -> Self {
        let (table, ranks) = (table.to_owned(), ranks.clone());
        let (unanswered, joined) = (None, BTreeMap::new());
        Self { table, ranks, time_limit, asked, unanswered, joined, state: State::Asked }
    }

    /// Applies an event. One that the state doesn't allow changes nothing.
    pub(super) fn apply(&mut self, at: Timestamp, change: &Change) {
        let job = self.job().map(str::to_owned);
        match (change, &mut self.state) {
            (Change::Ordered { job, .. }, State::Asked) => {
                self.state = State::Waiting { job: job.clone(), reason: None };
            }
            (Change::Ordered { job, .. }, State::Ending { job: unknown, .. }) => {
                *unknown = Some(job.clone());
            }
            (Change::Started { ends_at, .. }, State::Asked | State::Waiting { .. }) => {
                let (job, ends_at) = (job.unwrap_or_default(), ends_at.map(Timestamp::from_secs));
                self.state = State::Running { job, started: at, ends_at, idle_since: None };
            }
            (
                Change::Started { ends_at, .. },
                State::Running { ends_at: known, .. } | State::Draining { ends_at: known, .. },
            ) => *known = ends_at.map(Timestamp::from_secs),
            (Change::Joined { rank, host, .. }, State::Running { .. } | State::Draining { .. }) => {
                self.joined.insert(*rank, host.clone());
            }
            (Change::Drain { reason, .. }, State::Running { started, ends_at, .. }) => {
                let (job, started, ends_at) = (job.unwrap_or_default(), *started, *ends_at);
                self.state = State::Draining { job, started, ends_at, reason: reason.clone() };
            }
            (Change::End { reason, .. }, _) => {
                let started = self.started();
                self.state = State::Ending { job, started, reason: reason.clone() };
            }
            _ => {}
        }
    }

    /// Its id outside.
    pub(super) fn job(&self) -> Option<&str> {
        match &self.state {
            State::Asked => None,
            State::Waiting { job, .. }
            | State::Running { job, .. }
            | State::Draining { job, .. } => Some(job),
            State::Ending { job, .. } => job.as_deref(),
        }
    }

    /// When it began to run.
    pub(super) fn started(&self) -> Option<Timestamp> {
        match self.state {
            State::Asked | State::Waiting { .. } => None,
            State::Running { started, .. } | State::Draining { started, .. } => Some(started),
            State::Ending { started, .. } => started,
        }
    }

    /// When it ends at the latest, if that is known.
    pub(super) fn ends_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Running { ends_at, .. } | State::Draining { ends_at, .. } => ends_at,
            _ => None,
        }
    }

    /// Whether it is on order: nothing runs there yet.
    pub(super) fn is_on_order(&self) -> bool {
        matches!(self.state, State::Asked | State::Waiting { .. })
    }

    /// Whether it is being given back, so that no jobs start there.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.state, State::Draining { .. } | State::Ending { .. })
    }
}
