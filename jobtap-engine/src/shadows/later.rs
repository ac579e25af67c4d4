//! What a shadow and the live plugin of its name ask for outside of dispatches, such as in a timer.
//!
//! One side asks for something a moment before or after the other. So what one has asked for waits until the other asks
//! for the same, or until the job has ended.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::compare::{Difference, NOTHING, Side};
use crate::job::{JobId, Timestamp};
use crate::transcript::Action;

/// The maximum number of things that wait for one job; beyond it, the oldest counts as a difference.
const KEPT: usize = 16;

/// Both sides may ask for the same thing this many seconds apart without a difference.
const SAME_TIME: f64 = 1.0;

/// What one side has asked for, and the other has not yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    side: Side,
    action: Action,
    at: Timestamp,
}

/// Everything that waits for the other side, by job.
#[derive(Debug, Default)]
pub(crate) struct Later(FxHashMap<Option<JobId>, VecDeque<Waiting>>);

impl Later {
    /// Adds what one side has asked for. Returns the difference that this reveals, if any.
    pub(crate) fn add(&mut self, side: Side, action: Action, now: Timestamp) -> Option<Difference> {
        let waiting = self.0.entry(action.job).or_default();
        let matches = |other: &Waiting| other.side != side && other.action == action;
        if let Some(index) = waiting.iter().position(matches) {
            let other = waiting.remove(index)?;
            return apart(side, action, now - other.at);
        }
        waiting.push_back(Waiting { side, action, at: now });
        if waiting.len() > KEPT { waiting.pop_front().map(Waiting::alone) } else { None }
    }

    /// Takes what the other side has not asked for by the job's end.
    pub(crate) fn settle(&mut self, id: JobId) -> Vec<Difference> {
        self.0.remove(&Some(id)).into_iter().flatten().map(Waiting::alone).collect()
    }

    /// Forgets a job whose record is removed.
    pub(crate) fn forget(&mut self, id: JobId) {
        self.0.remove(&Some(id));
    }

    /// What has waited long enough to be shown.
    pub(crate) fn open(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, Difference)> {
        let all = self.0.values().flatten();
        let old = all.filter(move |waiting| now - waiting.at > SAME_TIME);
        old.map(|waiting| (waiting.at, waiting.copy().alone()))
    }
}

impl Waiting {
    fn copy(&self) -> Self {
        Self { side: self.side, action: self.action.clone(), at: self.at }
    }

    /// The difference if the other side doesn't ask for it at all.
    fn alone(self) -> Difference {
        let Action { kind, job, text } = self.action;
        let (live, shadow) = match self.side {
            Side::Live => (text, NOTHING.to_owned()),
            Side::Shadow => (NOTHING.to_owned(), text),
        };
        Difference::new(kind, job, live, shadow)
    }
}

/// The difference if both sides ask for the same thing some seconds apart. `second` has asked last.
fn apart(second: Side, action: Action, seconds: f64) -> Option<Difference> {
    if seconds <= SAME_TIME {
        return None;
    }
    let Action { kind, job, text } = action;
    let how = if second == Side::Live { "earlier" } else { "later" };
    let shadow = format!("{text}, {seconds:.0} s {how}");
    Some(Difference::new(kind, job, text, shadow))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Kind;

    fn action(text: &str) -> Action {
        let job = Some(JobId::new(1));
        Action { kind: Kind::Dependency, job, text: text.to_owned() }
    }

    fn at(seconds: f64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    #[test]
    fn the_same_at_about_the_same_time_is_no_difference() {
        let mut later = Later::default();
        assert_eq!(later.add(Side::Live, action("a"), at(1.0)), None);
        assert_eq!(later.add(Side::Shadow, action("a"), at(1.5)), None);
        assert_eq!(later.settle(JobId::new(1)), []);
    }

    #[test]
    fn the_time_between_both_is_told() {
        let mut later = Later::default();
        later.add(Side::Shadow, action("a"), at(1.0));
        let found = later.add(Side::Live, action("a"), at(301.0)).unwrap();
        assert_eq!((found.live.as_str(), found.shadow.as_str()), ("a", "a, 300 s earlier"));
    }

    #[test]
    fn what_only_one_asks_for_is_a_difference_at_the_end() {
        let mut later = Later::default();
        later.add(Side::Live, action("a"), at(1.0));
        assert_eq!(later.open(at(1.5)).count(), 0);
        assert_eq!(later.open(at(9.0)).count(), 1);
        let found = later.settle(JobId::new(1));
        assert_eq!((found[0].live.as_str(), found[0].shadow.as_str()), ("a", "-"));
        for _ in 0..KEPT {
            assert_eq!(later.add(Side::Shadow, action("b"), at(1.0)), None);
        }
        assert!(later.add(Side::Shadow, action("b"), at(1.0)).is_some());
    }
}
