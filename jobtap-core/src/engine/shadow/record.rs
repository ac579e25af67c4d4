//! The differences between a shadow and the live plugins so far, in bounded memory.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::compare::{Difference, Side};
use crate::engine::dispatch::answer::Kind;
use crate::job::{JobId, Timestamp, Uid};

/// How many differences are kept; the oldest are dropped first.
pub(super) const KEPT: usize = 1000;

/// How many priorities that differ most are kept.
const WORST: usize = 10;

/// How many users are counted one by one.
const USERS: usize = 10_000;

/// The longest text of an answer that is kept, in characters.
const LONGEST: usize = 200;

/// A job, the moment and what differs: the same difference is kept once, and counted.
type Key = (Option<JobId>, String, Kind);

/// A difference that is kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) job: Option<JobId>,
    pub(super) user: Option<Uid>,
    pub(super) topic: String,
    pub(super) kind: Kind,
    pub(super) live: String,
    pub(super) shadow: String,
    /// How often it was found.
    pub(super) times: u64,
    /// When it was found last.
    pub(super) last: Timestamp,
    pub(super) distance: u32,
}

/// What differs for one user.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct OfUser {
    pub(super) differences: u64,
    /// The shadow refuses, and the live plugins accept.
    pub(super) refused: u64,
    /// The live plugins refuse, and the shadow accepts.
    pub(super) accepted: u64,
}

/// All differences so far.
#[derive(Debug, Default)]
pub(super) struct Record {
    kept: FxHashMap<Key, Kept>,
    /// The keys in the order in which they came.
    order: VecDeque<Key>,
    /// The priorities that differ most, one for each job.
    worst: Vec<Kept>,
    pub(super) counts: BTreeMap<Kind, u64>,
    users: FxHashMap<Uid, OfUser>,
    /// Differences that are not kept any more.
    pub(super) dropped: u64,
    /// Users that are not counted one by one.
    pub(super) uncounted_users: bool,
    /// Calls that were compared.
    pub(super) compared: u64,
    /// Calls that differ.
    pub(super) different: u64,
    /// Verdicts that are given later, and are not compared.
    pub(super) undecided: u64,
    /// Submissions and updates that only the shadow refuses.
    pub(super) refused: u64,
    /// Submissions and updates that only live plugins refuse.
    pub(super) accepted: u64,
    /// Jobs with a difference.
    pub(super) jobs: u64,
}

impl Record {
    /// Adds a difference.
    pub(super) fn add(
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
        let kept = Kept { job, user, topic, kind, live, shadow, times: 1, last: now, distance };
        if kind == Kind::Priority {
            self.note_worst(&kept);
        }
        let key = (job, kept.topic.clone(), kind);
        if let Some(known) = self.kept.get_mut(&key) {
            *known = Kept { times: known.times + 1, ..kept };
            return;
        }
        if self.order.len() >= KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.dropped += self.kept.remove(&oldest).map_or(0, |kept| kept.times);
        }
        self.order.push_back(key.clone());
        self.kept.insert(key, kept);
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

    fn note_worst(&mut self, kept: &Kept) {
        match self.worst.iter().position(|known| known.job == kept.job) {
            Some(index) => {
                let worse = self.worst.get(index).is_some_and(|k| k.distance < kept.distance);
                if !worse {
                    return;
                }
                self.worst.remove(index);
            }
            None if self.worst.len() < WORST => {}
            None if self.worst.last().is_some_and(|last| last.distance < kept.distance) => {
                self.worst.pop();
            }
            None => return,
        }
        let place = self.worst.partition_point(|known| known.distance >= kept.distance);
        self.worst.insert(place, kept.clone());
    }

    /// The differences that are kept, the oldest first.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Kept> {
        self.order.iter().filter_map(|key| self.kept.get(key))
    }

    /// The priorities that differ most, the worst first.
    pub(super) fn worst(&self) -> &[Kept] {
        &self.worst
    }

    /// The users with the most refusals, then the most differences.
    pub(super) fn worst_users(&self) -> Vec<(Uid, OfUser)> {
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

    fn priority(record: &mut Record, job: u64, distance: u32) {
        let (live, shadow) = ("1".to_owned(), distance.to_string());
        let job = Some(JobId::new(job));
        let difference = Difference::new(Kind::Priority, job, live, shadow);
        let difference = Difference { distance, ..difference };
        record.add("job.priority.get", Some(Uid(7)), Timestamp::from_secs(1.0), difference);
    }

    #[test]
    fn the_oldest_differences_are_dropped_and_counted() {
        let mut record = Record::default();
        for job in 0..1500 {
            priority(&mut record, job, 1);
        }
        priority(&mut record, 1400, 1);
        assert_eq!((record.kept().count(), record.dropped), (KEPT, 500));
        assert_eq!(record.counts[&Kind::Priority], 1501);
        let again = record.kept().find(|kept| kept.job == Some(JobId::new(1400)));
        assert_eq!(again.unwrap().times, 2);
    }

    #[test]
    fn the_worst_priorities_outlive_the_others() {
        let mut record = Record::default();
        priority(&mut record, 1, 5000);
        for job in 2..1500 {
            priority(&mut record, job, 1);
        }
        priority(&mut record, 1, 4000);
        let worst: Vec<u32> = record.worst().iter().map(|kept| kept.distance).collect();
        assert_eq!((worst.len(), worst[0], worst[1]), (WORST, 5000, 1));
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(cut("ä".repeat(300)).chars().count(), LONGEST + 1);
        assert_eq!(cut("short".to_owned()), "short");
    }
}
