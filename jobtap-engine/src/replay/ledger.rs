//! What plugins have asked for, compared with what was recorded.
//!
//! What a plugin asks for at some moment is logged after that moment, so it is matched with the first later event that
//! records the same.

use rustc_hash::FxHashMap;

use super::api::{ReplayComparison, Replayed, ReplayedAnswer};
use super::record::{Recorded, is_logged};
use crate::job::{JobId, Timestamp};
use crate::transcript::{Action, Kind};

/// Where and when something was asked for.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) time: Timestamp,
    pub(super) topic: String,
    /// Whether the plugin that is reported has asked for it.
    pub(super) is_reported: bool,
}

#[derive(Debug)]
struct RequestedAction {
    origin: Origin,
    /// The number of events of the job that were applied then.
    place: usize,
    action: Action,
}

#[derive(Debug, Default)]
struct OfJob {
    recorded: Vec<Recorded>,
    requested: Vec<RequestedAction>,
}

/// All that was asked for, by job.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    jobs: FxHashMap<JobId, OfJob>,
    rows: Vec<ReplayedAnswer>,
}

impl Ledger {
    /// Adds the record of a job.
    pub(super) fn add(&mut self, id: JobId, recorded: Vec<Recorded>) {
        self.jobs.entry(id).or_default().recorded = recorded;
    }

    /// Adds what a plugin has asked for, when `place` events of the job were applied.
    pub(super) fn ask(&mut self, origin: Origin, place: usize, action: Action) {
        let job = action.job.and_then(|id| self.jobs.get_mut(&id));
        match job.filter(|_| is_logged(action.kind)) {
            Some(job) => job.requested.push(RequestedAction { origin, place, action }),
            None => {
                let Action { kind, job, text } = action;
                self.compared(origin, job, kind, Some(text), None, ReplayComparison::NotCompared);
            }
        }
    }

    /// Adds an answer that was compared already.
    pub(super) fn compared(
        &mut self,
        origin: Origin,
        job: Option<JobId>,
        kind: Kind,
        answer: Option<String>,
        recorded: Option<String>,
        comparison: ReplayComparison,
    ) {
        if origin.is_reported {
            let (time, topic, kind) = (origin.time.as_secs(), origin.topic, kind.word());
            self.rows.push(ReplayedAnswer { time, job, topic, kind, answer, recorded, comparison });
        }
    }

    /// Marks a recorded priority as used, since the call that gave it compares the two.
    pub(super) fn take_priority(&mut self, id: JobId, place: usize) {
        let recorded = self.jobs.get_mut(&id).map(|job| &mut job.recorded);
        let of_place = |it: &&mut Recorded| it.place == place && it.action.kind == Kind::Priority;
        if let Some(found) = recorded.into_iter().flatten().find(of_place) {
            found.used = true;
        }
    }

    /// Whether an event records something from a plugin that none has asked for yet.
    pub(super) fn is_unexplained(&self, id: JobId, place: usize) -> bool {
        let Some(job) = self.jobs.get(&id) else { return false };
        // The records are in the order of their places.
        let begin = job.recorded.partition_point(|it| it.place < place);
        let of_place = job.recorded.iter().skip(begin).take_while(|it| it.place == place);
        let is_requested =
            |it: &Recorded| job.requested.iter().any(|requested| requested.action == it.action);
        of_place.filter(|it| it.action.kind != Kind::Priority).any(|it| !is_requested(it))
    }

    /// Matches everything that was asked for with the records, and writes the result into the report.
    pub(super) fn finish(mut self, ignore_missing: bool, report: &mut Replayed) {
        let mut jobs: Vec<(JobId, OfJob)> = self.jobs.drain().collect();
        jobs.sort_by_key(|(id, _)| *id);
        for (id, job) in jobs {
            match_job(id, job, ignore_missing, &mut self.rows);
        }
        // Stable: what was answered at the same moment stays in its order.
        self.rows.sort_by(|a, b| a.time.total_cmp(&b.time));
        for row in &self.rows {
            *match row.comparison {
                ReplayComparison::Same => &mut report.same,
                ReplayComparison::Differs => &mut report.different,
                ReplayComparison::NotCompared => &mut report.not_compared,
            } += 1;
        }
        report.answers = self.rows;
    }
}

fn match_job(id: JobId, job: OfJob, ignore_missing: bool, rows: &mut Vec<ReplayedAnswer>) {
    let OfJob { mut recorded, requested } = job;
    // The plugin that is reported goes first, so that another one doesn't take its records.
    let (reported, others): (Vec<RequestedAction>, Vec<RequestedAction>) =
        requested.into_iter().partition(|requested| requested.origin.is_reported);
    let mut row = |requested: RequestedAction, recorded: Option<String>, comparison| {
        let RequestedAction { origin: Origin { time, topic, .. }, action, .. } = requested;
        let (time, kind, answer) = (time.as_secs(), action.kind.word(), Some(action.text));
        rows.push(ReplayedAnswer {
            time,
            job: Some(id),
            topic,
            kind,
            answer,
            recorded,
            comparison,
        });
    };
    let mut left = Vec::new();
    let mut removes = Vec::new();
    for requested in reported {
        match take(&mut recorded, &requested) {
            Taken::Recorded(text) => {
                if let Some(added) = requested.action.text.strip_prefix("adds ") {
                    removes.push(format!("removes {added}"));
                }
                row(requested, Some(text), ReplayComparison::Same);
            }
            Taken::WasThere => {}
            Taken::Nothing => left.push(requested),
        }
    }
    for requested in &others {
        let _ = take(&mut recorded, requested);
    }
    // An answer without a match is shown beside what was recorded about the same thing.
    for requested in left {
        let alike = |it: &&mut Recorded| {
            !it.used
                && it.place >= requested.place
                && subject(&it.action) == subject(&requested.action)
        };
        let beside = recorded.iter_mut().find(alike).map(|it| {
            it.used = true;
            it.action.text.clone()
        });
        row(requested, beside, ReplayComparison::Differs);
    }
    // A plugin also removes what it has added, unless that is left to work that isn't run here.
    let is_missing = |it: &Recorded| it.is_of_plugins || removes.contains(&it.action.text);
    for it in recorded.into_iter().filter(|it| !ignore_missing && !it.used && is_missing(it)) {
        rows.push(ReplayedAnswer {
            time: it.time.as_secs(),
            job: Some(id),
            topic: it.event,
            kind: it.action.kind.word(),
            answer: None,
            recorded: Some(it.action.text),
            comparison: ReplayComparison::Differs,
        });
    }
}

enum Taken {
    /// It was recorded then or later.
    Recorded(String),
    /// It was recorded or asked for before: asking for it again changes nothing.
    WasThere,
    Nothing,
}

/// Marks the record of what was asked for as used.
fn take(recorded: &mut [Recorded], requested: &RequestedAction) -> Taken {
    let mut found = recorded.iter_mut().filter(|it| it.action == requested.action);
    let mut was_there = false;
    let next = found.find(|it| {
        // If it is used, it was asked for before, and its event may be yet to come.
        was_there |= it.used || it.place < requested.place;
        !it.used && it.place >= requested.place
    });
    match next {
        Some(it) => {
            it.used = true;
            Taken::Recorded(it.action.text.clone())
        }
        None if was_there && is_idempotent(requested.action.kind) => Taken::WasThere,
        None => Taken::Nothing,
    }
}

/// Whether asking for the same thing a second time changes nothing, so that nothing is recorded.
const fn is_idempotent(kind: Kind) -> bool {
    matches!(kind, Kind::Dependency | Kind::Prolog | Kind::Epilog | Kind::Urgency | Kind::Priority)
}

/// What something is about, so that the answer and the record about the same thing can be shown side by side.
fn subject(action: &Action) -> (Kind, &str) {
    let word = |separator| action.text.split(separator).next().unwrap_or_default();
    let about = match action.kind {
        Kind::Jobspec => word(" = "),
        Kind::Dependency | Kind::Prolog | Kind::Epilog | Kind::Event => word(" "),
        _ => "",
    };
    (action.kind, about)
}
