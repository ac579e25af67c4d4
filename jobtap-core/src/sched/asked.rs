//! What was asked for before: many equal jobs that wait cost one search of the nodes, not one each.

use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::jobspec::{Counts, Jobspec};

/// More than that are not remembered.
const MOST: usize = 256;

/// Requests, by all that decides which nodes can serve them: the counts and the constraint.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    constraints: FxHashMap<Counts, Vec<Option<Value>>>,
    number: usize,
}

impl Asked {
    /// Whether one like this was noted.
    pub(super) fn has(&self, jobspec: &Jobspec) -> bool {
        let known = self.constraints.get(&jobspec.counts());
        known.is_some_and(|known| known.iter().any(|c| c.as_ref() == jobspec.constraints()))
    }

    /// Notes one.
    pub(super) fn note(&mut self, jobspec: &Jobspec) {
        if self.has(jobspec) {
            return;
        }
        if self.number >= MOST {
            self.clear();
        }
        self.number += 1;
        let known = self.constraints.entry(jobspec.counts()).or_default();
        known.push(jobspec.constraints().cloned());
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.constraints.clear();
        self.number = 0;
    }
}
