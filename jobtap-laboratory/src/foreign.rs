//! Lists of jobs of other managers, for fuzzers.

use crate::accounting::Format;

/// How many jobs a list has, and how many lines of it are broken; `None` if it is refused, or is a trace in SWF.
#[must_use]
pub fn list(bytes: &[u8]) -> Option<(usize, usize)> {
    let listed = Format::detect(bytes)?.read(bytes).ok()?;
    Some((listed.jobs.len(), listed.broken.len()))
}
