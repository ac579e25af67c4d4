//! What the launcher of an allocation sends, for fuzzers.

pub use super::launcher::foreign::launcher;
