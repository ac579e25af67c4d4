//! What a priority is computed from.

use jobtap_core::prelude::*;

/// The weights of the factors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Weights {
    pub(crate) fairshare: i64,
    pub(crate) queue: i64,
    pub(crate) bank: i64,
    pub(crate) urgency: i64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { fairshare: 100_000, queue: 10_000, bank: 0, urgency: 1000 }
    }
}

/// The factors of a priority.
pub(crate) struct Factors {
    pub(crate) fairshare: f64,
    pub(crate) queue: i64,
    pub(crate) bank: f64,
}

impl Factors {
    /// The weighted sum; each step of urgency above or below the default counts as one.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    pub(crate) fn points(&self, weights: &Weights, urgency: Urgency) -> i64 {
        let steps = i64::from(urgency.value()) - i64::from(Urgency::DEFAULT.value());
        let sum = weights.fairshare as f64 * self.fairshare
            + weights.queue as f64 * self.queue as f64
            + weights.bank as f64 * self.bank
            + (weights.urgency.saturating_mul(steps)) as f64;
        // Rounds half away from zero. A conversion of what is too large gives the largest number.
        sum.round() as i64
    }
}
