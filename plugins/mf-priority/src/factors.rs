//! What a priority is computed from.

use jobtap_core::prelude::*;
use schemars::JsonSchema;

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

/// Weights in the place of flux-accounting's.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OwnWeights {
    /// Of the fair share of the association.
    fairshare: Option<i64>,
    /// Of the priority of the job's queue.
    queue: Option<i64>,
    /// Of the priority of the bank.
    bank: Option<i64>,
    /// Of each step of urgency above or below the default.
    urgency: Option<i64>,
}

impl OwnWeights {
    /// These, and the others where there is none.
    pub(crate) fn before(&self, others: &Weights) -> Weights {
        Weights {
            fairshare: self.fairshare.unwrap_or(others.fairshare),
            queue: self.queue.unwrap_or(others.queue),
            bank: self.bank.unwrap_or(others.bank),
            urgency: self.urgency.unwrap_or(others.urgency),
        }
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
