//! The scripts that clean the nodes of one job, and which of them are done.

use std::collections::BTreeMap;

use jobtap_core::job::{WaitStatus, signal_text};
use jobtap_core::plugin::Signals;
use jobtap_core::prelude::*;
use serde_json::{Value, json};

use super::conf::Release;

/// See the module.
#[derive(Debug)]
pub(super) struct Run {
    started: Timestamp,
    kept: Retained,
    pending: BTreeMap<u32, Signals>,
    failed: BTreeMap<u32, WaitStatus>,
    release: Release,
    /// The first batch is being waited for.
    gathers: bool,
}

/// What follows from the end of a rank's script.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Nothing,
    /// To wait these seconds for a batch.
    Gather(f64),
    /// It was the last one.
    Complete,
}

impl Run {
    pub(super) fn new(
        started: Timestamp,
        kept: Retained,
        pending: BTreeMap<u32, Signals>,
        release: Release,
    ) -> Self {
        Self { started, kept, pending, failed: BTreeMap::new(), release, gathers: false }
    }

    /// A rank's script has ended; `status` if it had one.
    pub(super) fn ended(&mut self, rank: u32, status: Option<WaitStatus>) -> Next {
        self.pending.remove(&rank);
        if let Some(status) = status.filter(|status| !status.is_success()) {
            self.failed.insert(rank, status);
        }
        if self.pending.is_empty() {
            return Next::Complete;
        }
        match self.release {
            Release::Each => self.kept.free(&Idset::from(rank)),
            Release::After(seconds) if !self.gathers => {
                self.gathers = true;
                return Next::Gather(seconds);
            }
            Release::After(_) | Release::Together => {}
        }
        Next::Nothing
    }

    /// The time of the first batch is over: from now on each rank goes back at once.
    pub(super) fn gathered(&mut self) {
        let done = self.kept.resources().ranks().difference(&self.pending());
        self.kept.free(&done);
        self.release = Release::Each;
    }

    /// Sends a signal to the scripts of some ranks, or of all.
    pub(super) fn signal(&self, signum: i32, ranks: Option<&Idset>) {
        let chosen = |rank: u32| ranks.is_none_or(|ranks| ranks.contains(rank));
        let chosen = self.pending.iter().filter(|(rank, _)| chosen(**rank));
        chosen.for_each(|(_, script)| script.send(signum));
    }

    /// Which scripts failed, and how, if any did.
    pub(super) fn failure(&self) -> Option<(Idset, String)> {
        let mut how = self.failed.values().map(|status| match status.signaled() {
            Some(signal) => signal_text(signal),
            None => "nonzero exit code".to_owned(),
        });
        let first = how.next()?;
        let one = how.all(|other| other == first);
        let how = if one { first } else { "multiple failure modes".to_owned() };
        Some((self.failed.keys().copied().collect(), how))
    }

    fn pending(&self) -> Idset {
        self.pending.keys().copied().collect()
    }

    /// As Flux tells it.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "t_start": self.started.as_secs(),
            "pending": self.pending().to_string(),
            "allocated": self.kept.resources().ranks().to_string(),
        })
    }
}
