//! The asynchronous handlers that are at work on a job.

use thin_vec::ThinVec;

use crate::host::{AbortHandle, PluginKey, RemoteWork, WorkKind};
use crate::job::State;

/// What asynchronous handlers do for a job, and which of them want to know when it ends.
#[derive(Debug, Default)]
pub(crate) struct AsyncWork {
    pub(crate) running: ThinVec<Running>,
    /// Callbacks for the job's first fatal exception, or its end.
    pub(crate) at_end: ThinVec<(PluginKey, RemoteWork)>,
}

impl AsyncWork {
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.at_end.is_empty()
    }
}

/// One asynchronous handler at work.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) plugin: PluginKey,
    /// The description that it has in events, such as that of its prolog.
    pub(crate) what: String,
    pub(crate) kind: WorkKind,
    /// The work goes on even if the job ends first.
    pub(crate) run_on: bool,
    pub(crate) abort: AbortHandle,
}

impl Running {
    /// Whether the job no longer waits for this work once it is in `state`.
    pub(crate) fn is_obsolete(&self, state: State) -> bool {
        match self.kind {
            // A user's update can be validated as long as the job is active.
            WorkKind::Verdict | WorkKind::Epilog => state == State::Inactive,
            WorkKind::Dependency => !matches!(state, State::New | State::Depend),
            WorkKind::Priority => state != State::Priority,
            WorkKind::Prolog => state >= State::Cleanup && !self.run_on,
        }
    }
}
