//! The state of the scripts on the ranks of one job.

use std::collections::BTreeMap;

use jobtap_core::job::{WaitStatus, signal_text};
use jobtap_core::plugin::Signals;
use jobtap_core::prelude::*;
use serde_json::{Value, json};

use super::conf::Release;

/// The scripts on the ranks of one job: which of them are running and which have failed.
#[derive(Debug)]
pub(super) struct Run {
    started: Timestamp,
    retained: Retained,
    pending: BTreeMap<u32, Signals>,
    failed: BTreeMap<u32, WaitStatus>,
    release: Release,
    /// Whether ranks are being gathered for the first release.
    is_gathering: bool,
}

/// What to do after the end of a rank's script.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Nothing,
    /// Wait this many seconds, then call [`Run::gathered`].
    Gather(f64),
    /// All scripts have ended.
    Complete,
}

impl Run {
    pub(super) fn new(
        started: Timestamp,
        retained: Retained,
        pending: BTreeMap<u32, Signals>,
        release: Release,
    ) -> Self {
        Self { started, retained, pending, failed: BTreeMap::new(), release, is_gathering: false }
    }

    /// Records the end of a rank's script; `status` is `None` if the script could not be started.
    pub(super) fn ended(&mut self, rank: u32, status: Option<WaitStatus>) -> Next {
        self.pending.remove(&rank);
        if let Some(status) = status.filter(|status| !status.is_success()) {
            self.failed.insert(rank, status);
        }
        if self.pending.is_empty() {
            return Next::Complete;
        }
        match self.release {
            Release::Each => self.retained.free(&Idset::from(rank)),
            Release::After(seconds) if !self.is_gathering => {
                self.is_gathering = true;
                return Next::Gather(seconds);
            }
            Release::After(_) | Release::Together => {}
        }
        Next::Nothing
    }

    /// Releases the ranks that have been gathered; later ones are released one by one.
    pub(super) fn gathered(&mut self) {
        let done = self.retained.resources().ranks().difference(&self.pending());
        self.retained.free(&done);
        self.release = Release::Each;
    }

    /// Sends a signal to the scripts of these ranks, or of all ranks.
    pub(super) fn signal(&self, signum: i32, ranks: Option<&Idset>) {
        let chosen = |rank: u32| ranks.is_none_or(|ranks| ranks.contains(rank));
        let chosen = self.pending.iter().filter(|(rank, _)| chosen(**rank));
        chosen.for_each(|(_, script)| script.send(signum));
    }

    /// The ranks whose scripts have failed, and a description of the failure; `None` if none has failed.
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

    /// The query data, with the keys of Flux.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "t_start": self.started.as_secs(),
            "pending": self.pending().to_string(),
            "allocated": self.retained.resources().ranks().to_string(),
        })
    }
}
