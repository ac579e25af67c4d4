//! The differences between a shadow and the live plugins so far, in bounded memory.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::compare::{Difference, Side};
use crate::job::{JobId, Timestamp, Uid};
use crate::transcript::Kind;

/// The maximum number of differences that are kept; the oldest are dropped first.
pub(crate) const KEPT: usize = 1000;

/// The number of the most different priorities that are kept.
const WORST: usize = 10;

/// The maximum number of users that have counts of their own.
const USERS: usize = 10_000;

/// The longest text of an answer that is kept, in characters.
const LONGEST: usize = 200;

/// A job, the topic and what differs: the same difference is kept once, and counted.
type Key = (Option<JobId>, String, Kind);

/// A difference that is kept.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub(crate) job: Option<JobId>,
    pub(crate) user: Option<Uid>,
    pub(crate) topic: String,
    pub(crate) kind: Kind,
    pub(crate) live: String,
    pub(crate) shadow: String,
    /// How often it was found.
    pub(crate) times: u64,
    /// When it was found last.
    pub(crate) last: Timestamp,
    pub(crate) distance: u32,
}

/// What differs for one user.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct OfUser {
    pub(crate) differences: u64,
    /// The shadow refuses, and the live plugins accept.
    pub(crate) refused: u64,
    /// The live plugins refuse, and the shadow accepts.
    pub(crate) accepted: u64,
}

/// All differences so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    kept: FxHashMap<Key, Finding>,
    /// The keys in the order in which they came.
    order: VecDeque<Key>,
    /// The priorities that differ most, one for each job.
    worst: Vec<Finding>,
    pub(crate) counts: BTreeMap<Kind, u64>,
    users: FxHashMap<Uid, OfUser>,
    /// The number of differences that are no longer kept.
    pub(crate) dropped: u64,
    /// Some users have no counts of their own.
    pub(crate) uncounted_users: bool,
    /// The number of calls that were compared.
    pub(crate) compared: u64,
    /// The number of calls that differ.
    pub(crate) different: u64,
    /// Verdicts that are given later, and are not compared.
    pub(crate) undecided: u64,
    /// Submissions and updates that only the shadow refuses.
    pub(crate) refused: u64,
    /// Submissions and updates that only live plugins refuse.
    pub(crate) accepted: u64,
    /// Jobs with a difference.
    pub(crate) jobs: u64,
}

impl Findings {
    /// Adds a difference.
    pub(crate) fn add(
        &mut self,
        topic: &str,
        user: Option<Uid>,
        now: Timestamp,
        difference: Difference,
    ) {
        let Difference { kind, job, live, shadow, distance, refuses } = difference;
        *self.counts.entry(kind).or_default() += 1;
        let (refused, accepted) = (refuses == Some(Side::Shadow), refuses == Some(Side::Live));
        self.refused += u64::from(refused);
        self.accepted += u64::from(accepted);
        if let Some(user) = user {
            self.count_user(user, refused, accepted);
        }
        let (live, shadow) = (cut(live), cut(shadow));
        let topic = topic.to_owned();
        let finding =
            Finding { job, user, topic, kind, live, shadow, times: 1, last: now, distance };
        if kind == Kind::Priority {
            self.note_worst(&finding);
        }
        let key = (job, finding.topic.clone(), kind);
        if let Some(known) = self.kept.get_mut(&key) {
            *known = Finding { times: known.times + 1, ..finding };
            return;
        }
        if self.order.len() >= KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.dropped += self.kept.remove(&oldest).map_or(0, |kept| kept.times);
        }
        self.order.push_back(key.clone());
        self.kept.insert(key, finding);
    }

    fn count_user(&mut self, user: Uid, refused: bool, accepted: bool) {
        if self.users.len() >= USERS && !self.users.contains_key(&user) {
            self.uncounted_users = true;
            return;
        }
        let counts = self.users.entry(user).or_default();
        counts.differences += 1;
        counts.refused += u64::from(refused);
        counts.accepted += u64::from(accepted);
    }

    fn note_worst(&mut self, finding: &Finding) {
        match self.worst.iter().position(|known| known.job == finding.job) {
            Some(index) => {
                let worse = self.worst.get(index).is_some_and(|k| k.distance < finding.distance);
                if !worse {
                    return;
                }
                self.worst.remove(index);
            }
            None if self.worst.len() < WORST => {}
            None if self.worst.last().is_some_and(|last| last.distance < finding.distance) => {
                self.worst.pop();
            }
            None => return,
        }
        let place = self.worst.partition_point(|known| known.distance >= finding.distance);
        self.worst.insert(place, finding.clone());
    }

    /// The differences that are kept, the oldest first.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Finding> {
        self.order.iter().filter_map(|key| self.kept.get(key))
    }

    /// The priorities that differ most, the worst first.
    pub(crate) fn worst(&self) -> &[Finding] {
        &self.worst
    }

    /// The users with the most refusals, then the most differences.
    pub(crate) fn worst_users(&self) -> Vec<(Uid, OfUser)> {
        let mut users: Vec<_> = self.users.iter().map(|(user, counts)| (*user, *counts)).collect();
        users.sort_unstable_by_key(|(user, counts)| {
            (std::cmp::Reverse((counts.refused, counts.differences)), *user)
        });
        users.truncate(WORST);
        users
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text,
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn priority(findings: &mut Findings, job: u64, distance: u32) {
        let (live, shadow) = ("1".to_owned(), distance.to_string());
        let job = Some(JobId::new(job));
        let difference = Difference::new(Kind::Priority, job, live, shadow);
        let difference = Difference { distance, ..difference };
        findings.add("job.priority.get", Some(Uid(7)), Timestamp::from_secs(1.0), difference);
    }

    #[test]
    fn the_oldest_differences_are_dropped_and_counted() {
        let mut findings = Findings::default();
        for job in 0..1500 {
            priority(&mut findings, job, 1);
        }
        priority(&mut findings, 1400, 1);
        assert_eq!((findings.kept().count(), findings.dropped), (KEPT, 500));
        assert_eq!(findings.counts[&Kind::Priority], 1501);
        let again = findings.kept().find(|finding| finding.job == Some(JobId::new(1400)));
        assert_eq!(again.unwrap().times, 2);
    }

    #[test]
    fn the_worst_priorities_outlive_the_others() {
        let mut findings = Findings::default();
        priority(&mut findings, 1, 5000);
        for job in 2..1500 {
            priority(&mut findings, job, 1);
        }
        priority(&mut findings, 1, 4000);
        let worst: Vec<u32> = findings.worst().iter().map(|finding| finding.distance).collect();
        assert_eq!((worst.len(), worst[0], worst[1]), (WORST, 5000, 1));
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(cut("ä".repeat(300)).chars().count(), LONGEST + 1);
        assert_eq!(cut("short".to_owned()), "short");
    }
}
