//! How much time of the manager's thread a shadow may take.
//!
//! A callback can't be interrupted. So a shadow has an account: it grows with time, and each call is charged to
//! it. A shadow that has used up its account is stopped.

use crate::job::Timestamp;

/// The fraction of the time that a shadow may use in the long run.
pub(crate) const SHARE: f64 = 0.1;

/// The milliseconds that it may use beyond that.
pub(crate) const CREDIT: f64 = 1000.0;

/// The account of one shadow.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Milliseconds that are left.
    left: f64,
    at: Timestamp,
    /// Milliseconds used since it was loaded.
    used: u64,
}

impl Budget {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { left: CREDIT, at: now, used: 0 }
    }

    /// Charges a call. Returns whether anything is left.
    pub(crate) fn charge(&mut self, now: Timestamp, milliseconds: u64) -> bool {
        // The clock may be set back.
        let passed = (now - self.at).max(0.0) * 1000.0;
        self.at = now;
        self.left = (self.left + passed * SHARE).min(CREDIT) - milliseconds as f64;
        self.used += milliseconds;
        self.left >= 0.0
    }

    /// Notes the time of a call that is not charged.
    pub(crate) fn note(&mut self, milliseconds: u64) {
        self.used += milliseconds;
    }

    /// Seconds used since it was loaded.
    pub(crate) fn used(&self) -> f64 {
        self.used as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_time_is_never_too_much() {
        let mut budget = Budget::new(Timestamp::from_secs(0.0));
        for second in 1..1000 {
            assert!(budget.charge(Timestamp::from_secs(f64::from(second)), 100));
        }
        assert_eq!(budget.used(), 99.9);
    }

    #[test]
    fn more_than_that_uses_up_the_credit() {
        let mut budget = Budget::new(Timestamp::from_secs(0.0));
        let calls =
            (1..).take_while(|second| budget.charge(Timestamp::from_secs(f64::from(*second)), 200));
        assert_eq!(calls.count(), 9);
    }

    #[test]
    fn a_long_pause_gives_no_more_than_the_credit() {
        let mut budget = Budget::new(Timestamp::from_secs(0.0));
        assert!(budget.charge(Timestamp::from_secs(1e6), 1000));
        assert!(!budget.charge(Timestamp::from_secs(1e6), 1));
    }
}
