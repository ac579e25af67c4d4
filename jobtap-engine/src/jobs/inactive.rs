//! The inactive jobs in the order in which they became inactive, and how many of them are kept.

use std::collections::BTreeSet;

use crate::api::TimerId;
use crate::job::{JobId, Timestamp};

/// The inactive jobs by age.
#[derive(Debug, Default)]
pub(crate) struct Inactive {
    /// When each became inactive. Times are not negative, so that the order of their bits is the
    /// order of the times.
    by_end: BTreeSet<(u64, JobId)>,
    pub(crate) limits: PurgeLimits,
    /// The timer of the next purge.
    pub(crate) heartbeat: Option<TimerId>,
}

/// How long inactive jobs are kept, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct PurgeLimits {
    /// The greatest age in seconds; `None` is no limit.
    pub(crate) age: Option<f64>,
    /// The greatest number; `None` is no limit.
    pub(crate) count: Option<usize>,
}

impl Inactive {
    /// Adds a job that became inactive at this time. Returns false if it is there already.
    pub(crate) fn add(&mut self, id: JobId, end: Timestamp) -> bool {
        self.by_end.insert((end.as_secs().to_bits(), id))
    }

    /// Removes a job that became inactive at this time.
    pub(crate) fn remove(&mut self, id: JobId, end: Timestamp) {
        self.by_end.remove(&(end.as_secs().to_bits(), id));
    }

    /// The job that became inactive last, with the time.
    pub(crate) fn newest(&self) -> Option<(Timestamp, JobId)> {
        self.by_end.last().map(|(end, id)| (time(*end), *id))
    }

    /// When the one became inactive that is inactive for the longest time.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.by_end.first().map(|(end, _)| time(*end))
    }

    /// The job that became inactive before this one, with the time.
    pub(crate) fn before(&self, end: Timestamp, id: JobId) -> Option<(Timestamp, JobId)> {
        let this = (end.as_secs().to_bits(), id);
        self.by_end.range(..this).next_back().map(|(end, id)| (time(*end), *id))
    }

    /// The jobs that became inactive at this time or later, the last one first.
    pub(crate) fn since(&self, time: Timestamp) -> impl Iterator<Item = JobId> {
        let first = (time.as_secs().max(0.0).to_bits(), JobId::new(0));
        self.by_end.range(first..).rev().map(|(_, id)| *id)
    }

    /// The jobs beyond the limits, oldest first.
    pub(crate) fn beyond(
        &self,
        now: Timestamp,
        limits: PurgeLimits,
    ) -> impl Iterator<Item = JobId> {
        let excess = limits.count.map_or(0, |count| self.by_end.len().saturating_sub(count));
        let is_old =
            move |end: u64| limits.age.is_some_and(|age| now.as_secs() - f64::from_bits(end) > age);
        let beyond =
            move |&(index, (end, _)): &(usize, &(u64, JobId))| index < excess || is_old(*end);
        self.by_end.iter().enumerate().take_while(beyond).map(|(_, (_, id))| *id)
    }
}

/// The time whose bits are the key of a job.
fn time(end: u64) -> Timestamp {
    Timestamp::from_secs(f64::from_bits(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_beyond_a_limit_come_oldest_first() {
        let at = Timestamp::from_secs;
        let mut inactive = Inactive::default();
        for (id, end) in [(3, 10.0), (1, 30.0), (2, 20.0)] {
            inactive.add(JobId::new(id), at(end));
        }
        let beyond = |age, count| {
            let ids = inactive.beyond(at(40.0), PurgeLimits { age, count });
            ids.map(JobId::as_u64).collect::<Vec<_>>()
        };
        assert_eq!(beyond(None, None), [0; 0]);
        assert_eq!(beyond(None, Some(1)), [3, 2]);
        assert_eq!(beyond(Some(15.0), None), [3, 2]);
        assert_eq!(beyond(Some(25.0), Some(3)), [3]);
        assert_eq!(inactive.newest(), Some((at(30.0), JobId::new(1))));
        assert_eq!(inactive.before(at(30.0), JobId::new(1)), Some((at(20.0), JobId::new(2))));
    }
}
