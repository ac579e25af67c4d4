//! Maintenance: nodes that are to be empty from one time to another.

use crate::resource::Idset;

/// Nodes that no job may use in a span of time. A job that could still run when it begins doesn't start
/// on these nodes.
///
/// ```
/// use jobtap_core::resource::Idset;
/// use jobtap_core::sched::Maintenance;
///
/// let ranks = Idset::from(0..=3);
/// let maintenance = Maintenance { ranks, from: 1000.0, to: 2000.0 };
/// assert!(!maintenance.concerns(900.0, 100.0));
/// assert!(maintenance.concerns(900.0, 101.0));
/// assert!(maintenance.concerns(900.0, f64::INFINITY));
/// assert!(!maintenance.concerns(2000.0, f64::INFINITY));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Maintenance {
    /// The nodes.
    pub ranks: Idset,
    /// When they are to be empty, UNIX seconds.
    pub from: f64,
    /// When jobs may use them again, UNIX seconds; infinite when that isn't known.
    pub to: f64,
}

impl Maintenance {
    /// Whether a job that starts at a time (UNIX seconds) and ends after so many seconds at the latest
    /// would be in its way. An infinite duration is a job that nothing ends.
    pub fn concerns(&self, start: f64, duration: f64) -> bool {
        start < self.to && start + duration > self.from
    }
}
