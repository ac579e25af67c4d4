//! What plugins have asked for beside what was recorded.
//!
//! What is asked for at one moment stands in the log from that moment on, so it is matched with the first event
//! behind it that records the same.

use rustc_hash::FxHashMap;

use super::api::{ReplayVerdict, Replayed, ReplayedAnswer};
use super::record::{Recorded, is_logged};
use crate::engine::dispatch::answer::{Kind, Said};
use crate::job::{JobId, Timestamp};

/// Where and when something was asked for.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) time: Timestamp,
    pub(super) topic: String,
    /// By the plugin that is reported.
    pub(super) is_reported: bool,
}

#[derive(Debug)]
struct Asked {
    origin: Origin,
    /// How many events of the job were applied then.
    place: usize,
    said: Said,
}

#[derive(Debug, Default)]
struct OfJob {
    recorded: Vec<Recorded>,
    asked: Vec<Asked>,
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
    pub(super) fn ask(&mut self, origin: Origin, place: usize, said: Said) {
        let job = said.job.and_then(|id| self.jobs.get_mut(&id));
        match job.filter(|_| is_logged(said.kind)) {
            Some(job) => job.asked.push(Asked { origin, place, said }),
            None => {
                let Said { kind, job, text } = said;
                self.compared(origin, job, kind, Some(text), None, ReplayVerdict::NotCompared);
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
        verdict: ReplayVerdict,
    ) {
        if origin.is_reported {
            let (time, topic, kind) = (origin.time.as_secs(), origin.topic, kind.word());
            self.rows.push(ReplayedAnswer { time, job, topic, kind, answer, recorded, verdict });
        }
    }

    /// Takes a recorded priority as given by the answer to a call, which compares it.
    pub(super) fn take_priority(&mut self, id: JobId, place: usize) {
        let recorded = self.jobs.get_mut(&id).map(|job| &mut job.recorded);
        let of_place = |it: &&mut Recorded| it.place == place && it.said.kind == Kind::Priority;
        if let Some(found) = recorded.into_iter().flatten().find(of_place) {
            found.used = true;
        }
    }

    /// Whether an event records something of plugins that none has asked for yet.
    pub(super) fn is_unexplained(&self, id: JobId, place: usize) -> bool {
        let Some(job) = self.jobs.get(&id) else { return false };
        // The records are in the order of their places.
        let begin = job.recorded.partition_point(|it| it.place < place);
        let of_place = job.recorded.iter().skip(begin).take_while(|it| it.place == place);
        let is_asked = |it: &Recorded| job.asked.iter().any(|asked| asked.said == it.said);
        of_place.filter(|it| it.said.kind != Kind::Priority).any(|it| !is_asked(it))
    }

    /// Matches all of it, and writes it into the report.
    pub(super) fn finish(mut self, ignore_missing: bool, report: &mut Replayed) {
        let mut jobs: Vec<(JobId, OfJob)> = self.jobs.drain().collect();
        jobs.sort_by_key(|(id, _)| *id);
        for (id, job) in jobs {
            match_job(id, job, ignore_missing, &mut self.rows);
        }
        // Stable: what was answered at the same moment stays in its order.
        self.rows.sort_by(|a, b| a.time.total_cmp(&b.time));
        for row in &self.rows {
            *match row.verdict {
                ReplayVerdict::Same => &mut report.same,
                ReplayVerdict::Differs => &mut report.different,
                ReplayVerdict::NotCompared => &mut report.not_compared,
            } += 1;
        }
        report.answers = self.rows;
    }
}

fn match_job(id: JobId, job: OfJob, ignore_missing: bool, rows: &mut Vec<ReplayedAnswer>) {
    let OfJob { mut recorded, asked } = job;
    // The plugin that is reported goes first, so that another one doesn't take what is its own.
    let (reported, others): (Vec<Asked>, Vec<Asked>) =
        asked.into_iter().partition(|asked| asked.origin.is_reported);
    let mut row = |asked: Asked, recorded: Option<String>, verdict| {
        let Asked { origin: Origin { time, topic, .. }, said, .. } = asked;
        let (time, kind, answer) = (time.as_secs(), said.kind.word(), Some(said.text));
        rows.push(ReplayedAnswer { time, job: Some(id), topic, kind, answer, recorded, verdict });
    };
    let mut left = Vec::new();
    let mut removes = Vec::new();
    for asked in reported {
        match take(&mut recorded, &asked) {
            Taken::Recorded(text) => {
                if let Some(added) = asked.said.text.strip_prefix("adds ") {
                    removes.push(format!("removes {added}"));
                }
                row(asked, Some(text), ReplayVerdict::Same);
            }
            Taken::WasThere => {}
            Taken::Nothing => left.push(asked),
        }
    }
    for asked in &others {
        let _ = take(&mut recorded, asked);
    }
    // Beside an answer without a match stands what was recorded of the same thing.
    for asked in left {
        let alike = |it: &&mut Recorded| {
            !it.used && it.place >= asked.place && subject(&it.said) == subject(&asked.said)
        };
        let beside = recorded.iter_mut().find(alike).map(|it| {
            it.used = true;
            it.said.text.clone()
        });
        row(asked, beside, ReplayVerdict::Differs);
    }
    // What a plugin has added it removes too, unless that is up to work that isn't run here.
    let is_missing = |it: &Recorded| it.is_of_plugins || removes.contains(&it.said.text);
    for it in recorded.into_iter().filter(|it| !ignore_missing && !it.used && is_missing(it)) {
        rows.push(ReplayedAnswer {
            time: it.time.as_secs(),
            job: Some(id),
            topic: it.event,
            kind: it.said.kind.word(),
            answer: None,
            recorded: Some(it.said.text),
            verdict: ReplayVerdict::Differs,
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

/// Takes what was asked for out of the record.
fn take(recorded: &mut [Recorded], asked: &Asked) -> Taken {
    let mut found = recorded.iter_mut().filter(|it| it.said == asked.said);
    let mut was_there = false;
    let next = found.find(|it| {
        // Used: it was asked for before, and its event may be still to come.
        was_there |= it.used || it.place < asked.place;
        !it.used && it.place >= asked.place
    });
    match next {
        Some(it) => {
            it.used = true;
            Taken::Recorded(it.said.text.clone())
        }
        None if was_there && is_idempotent(asked.said.kind) => Taken::WasThere,
        None => Taken::Nothing,
    }
}

/// Whether asking a second time for the same changes nothing, so that nothing is recorded.
const fn is_idempotent(kind: Kind) -> bool {
    matches!(kind, Kind::Dependency | Kind::Prolog | Kind::Epilog | Kind::Urgency | Kind::Priority)
}

/// What something is about, so that the answer and the record of the same thing can stand beside each other.
fn subject(said: &Said) -> (Kind, &str) {
    let word = |separator| said.text.split(separator).next().unwrap_or_default();
    let about = match said.kind {
        Kind::Jobspec => word(" = "),
        Kind::Dependency | Kind::Prolog | Kind::Epilog | Kind::Event => word(" "),
        _ => "",
    };
    (said.kind, about)
}
