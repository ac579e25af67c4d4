//! The two streams that a task writes.

use serde::{Deserialize, Serialize};

/// One of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub(super) const BOTH: [Self; 2] = [Self::Stdout, Self::Stderr];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}
