//! The number of an allocation.

use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

/// An allocation of an elastic instance. Ids count from 1 and aren't used twice within the state of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AllocationId(pub NonZeroU64);

impl fmt::Display for AllocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
