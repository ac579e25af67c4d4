//! What a list of jobs becomes, whatever its format is.

use std::collections::BTreeMap;

use jobtap_core::simulation::TraceJob;

/// The jobs of a list, with what could not be mapped.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// The jobs. Their times are UNIX times; unknown values are -1.
    pub(crate) jobs: Vec<TraceJob>,
    /// Jobs that never started.
    pub(crate) never_ran: u64,
    /// Broken lines, or jobs of a dump, each with its place and what is wrong with it.
    pub(crate) broken: Vec<String>,
    /// What is not replayed as it was, a sentence each.
    pub(crate) notes: Vec<String>,
}

/// Numbers for users who are known only by name.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: BTreeMap<String, u32>,
    /// How many jobs got a number.
    pub(super) given: u64,
}

impl Names {
    /// The first number. On most systems, the ids of real users are lower.
    pub(super) const FIRST: u32 = 100_001;

    pub(super) fn number(&mut self, name: &str) -> u32 {
        self.given += 1;
        let next = Self::FIRST + u32::try_from(self.known.len()).unwrap_or(0);
        *self.known.entry(name.to_owned()).or_insert(next)
    }
}
