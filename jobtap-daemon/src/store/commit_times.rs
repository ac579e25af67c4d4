//! How long commits take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in microseconds. Longer commits are in none of them.
const BOUNDS: [u64; 15] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 5_000_000,
];

/// A histogram of the durations of commits since the start.
#[derive(Debug, Default)]
pub struct CommitTimes {
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

impl CommitTimes {
    /// Counts a commit.
    pub(super) fn add(&self, time: Duration) {
        let bucket = BOUNDS.iter().position(|bound| time <= Duration::from_micros(*bound));
        if let Some(bucket) = bucket.and_then(|bucket| self.buckets.get(bucket)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of commits.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The time of all commits together.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    /// The upper bound of each bucket, and the number of commits that took longer than the bound before it.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let bounds = BOUNDS.iter().map(|bound| Duration::from_micros(*bound));
        bounds.zip(self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_counted_in_the_first_bucket_that_holds_it() {
        let times = CommitTimes::default();
        for micros in [50, 51, 100, 10_000_000] {
            times.add(Duration::from_micros(micros));
        }
        let counts: Vec<u64> = times.buckets().map(|(_, count)| count).collect();
        assert_eq!(counts.get(..3), Some([1, 2, 0].as_slice()));
        assert_eq!(counts.iter().sum::<u64>(), 3);
        assert_eq!((times.count(), times.sum()), (4, Duration::from_micros(10_000_201)));
    }
}
