//! How far the elements of an array have come.

use crate::job::Uid;

/// The elements of a job array, counted by what has become of them.
///
/// ```
/// use jobtap_core::array::Progress;
/// use jobtap_core::job::Uid;
///
/// let progress = Progress { userid: Uid::new(7), waiting: 5, active: 2, completed: 3, failed: 0 };
/// assert!(!progress.is_over() && progress.has_all_completed_so_far());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The user who has submitted the array.
    pub userid: Uid,
    /// Elements that aren't jobs yet.
    pub waiting: usize,
    /// Elements whose jobs are not inactive.
    pub active: usize,
    /// Elements whose jobs have completed.
    pub completed: usize,
    /// Elements whose jobs have failed, were canceled or have reached their time limit, and those that were canceled
    /// before they were jobs.
    pub failed: usize,
}

impl Progress {
    /// Whether all elements have ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.waiting == 0 && self.active == 0
    }

    /// Whether no element has ended otherwise than by completing.
    #[must_use]
    pub const fn has_all_completed_so_far(&self) -> bool {
        self.failed == 0
    }
}
