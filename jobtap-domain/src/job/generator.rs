//! Issues job ids (RFC 19).
//!
//! The caller passes the time, so that an instance in virtual time issues the same ids in every run.

use super::JobId;

/// The number of ids that can be issued per millisecond.
const IDS_PER_MS: u64 = 1024;

/// The first timestamp that is too large for an id.
const END_OF_TIME: u64 = 1 << 40;

/// Issues the job ids of one instance, as its only generator (generator id 0).
///
/// Ids increase strictly, even across restarts and when the clock is set back.
///
/// ```
/// use jobtap_core::job::{IdGenerator, JobId};
///
/// let mut ids = IdGenerator::new(None);
/// assert_eq!(ids.next(0)?, JobId::new(16777216));
/// assert_eq!(ids.next(0)?, JobId::new(16777217));
/// # Ok::<(), jobtap_core::job::IdsExhausted>(())
/// ```
#[derive(Clone, Debug)]
pub struct IdGenerator {
    offset: u64,
    timestamp: u64,
    sequence: u64,
}

impl IdGenerator {
    /// A generator for an instance whose highest id so far is `max_jobid`; `None` for a new instance.
    #[must_use]
    pub fn new(max_jobid: Option<JobId>) -> Self {
        let offset = max_jobid.map_or(0, JobId::timestamp_ms) + 1;
        Self { offset, timestamp: offset, sequence: 0 }
    }

    /// The next id, where `now` is the number of milliseconds since the instance started.
    ///
    /// When the ids of a millisecond are used up, ids of the next one are issued early.
    ///
    /// # Errors
    /// [`IdsExhausted`] if the time no longer fits into an id, 34.8 years after the first start.
    pub fn next(&mut self, now: u64) -> Result<JobId, IdsExhausted> {
        let clock = self.offset.saturating_add(now);
        let (timestamp, sequence) = if clock > self.timestamp {
            (clock, 0)
        } else if self.sequence == IDS_PER_MS {
            (self.timestamp + 1, 0)
        } else {
            (self.timestamp, self.sequence)
        };
        if timestamp >= END_OF_TIME {
            return Err(IdsExhausted);
        }
        self.timestamp = timestamp;
        self.sequence = sequence + 1;
        Ok(JobId::new(timestamp << JobId::TIMESTAMP_SHIFT | sequence))
    }
}

/// The instance is so old that its time no longer fits into a job id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no job ids are left: the instance's id epoch has ended; start with a new state directory")]
pub struct IdsExhausted;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_new_instance_starts_at_the_first_millisecond() {
        let mut ids = IdGenerator::new(None);
        assert_eq!(ids.next(0), Ok(JobId::new(16777216)));
    }

    #[test]
    fn a_restart_continues_above_the_highest_id() {
        let highest = JobId::new(481 << 24 | 16383 << 10 | 1023);
        let mut ids = IdGenerator::new(Some(highest));
        assert_eq!(ids.next(0), Ok(JobId::new(482 << 24)));
        assert_eq!(ids.next(7), Ok(JobId::new(489 << 24)));
    }

    #[test]
    fn a_full_millisecond_uses_ids_of_the_next() {
        let mut ids = IdGenerator::new(None);
        let issued: Vec<_> = (0..1025).map(|_| ids.next(4).unwrap().as_u64()).collect();
        assert_eq!(issued[0], 5 << 24);
        assert_eq!(issued[1023], 5 << 24 | 1023);
        assert_eq!(issued[1024], 6 << 24);
        assert_eq!(ids.next(5), Ok(JobId::new(6 << 24 | 1)));
        assert_eq!(ids.next(6), Ok(JobId::new(7 << 24)));
    }

    #[test]
    fn ids_increase_when_the_clock_is_set_back() {
        let mut ids = IdGenerator::new(None);
        assert_eq!(ids.next(100), Ok(JobId::new(101 << 24)));
        assert_eq!(ids.next(3), Ok(JobId::new(101 << 24 | 1)));
    }

    #[test]
    fn the_end_of_the_epoch_is_an_error_without_effect() {
        let mut ids = IdGenerator::new(None);
        assert_eq!(ids.next(u64::MAX), Err(IdsExhausted));
        assert_eq!(ids.next(0), Ok(JobId::new(1 << 24)));
        assert_eq!(IdGenerator::new(Some(JobId::new(u64::MAX))).next(0), Err(IdsExhausted));
        let last = END_OF_TIME - 2;
        for _ in 0..IDS_PER_MS {
            ids.next(last).unwrap();
        }
        assert_eq!(ids.next(last), Err(IdsExhausted));
        assert_eq!(ids.next(0), Err(IdsExhausted));
    }

    proptest! {
        #[test]
        fn ids_increase_over_clock_jumps_and_restarts(
            times in prop::collection::vec((0..5000u64, any::<bool>()), 1..200),
        ) {
            let mut ids = IdGenerator::new(None);
            let mut highest = None;
            for (now, restart) in times {
                if restart {
                    ids = IdGenerator::new(highest);
                }
                let id = ids.next(now).unwrap();
                prop_assert!(Some(id) > highest);
                highest = Some(id);
            }
        }
    }
}
