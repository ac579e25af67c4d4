//! What holds a job on behalf of plugins: open prologs and epilogs, and asynchronous handlers at work.

use crate::host::{AbortHandle, Hold, Perilog, PluginKey};
use crate::job::State;

/// A prolog or epilog, and the plugin that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) plugin: PluginKey,
    pub(super) bracket: Perilog,
    pub(super) description: Box<str>,
}

/// The work of an asynchronous handler on the job.
#[derive(Debug)]
pub(super) struct Working {
    pub(super) plugin: PluginKey,
    pub(super) what: String,
    pub(super) hold: Hold,
    pub(super) run_on: bool,
    pub(super) abort: AbortHandle,
}

impl Working {
    /// Nothing waits for it any more, now that the job is in this state.
    pub(super) fn is_void(&self, state: State) -> bool {
        match self.hold {
            // The answer to an update is waited for until the job is over.
            Hold::Verdict | Hold::Epilog => state == State::Inactive,
            Hold::Dependency => !matches!(state, State::New | State::Depend),
            Hold::Priority => state != State::Priority,
            Hold::Prolog => state >= State::Cleanup && !self.run_on,
        }
    }
}

/// The words for prologs and epilogs.
pub(super) trait Words {
    fn start(self) -> &'static str;
    fn finish(self) -> &'static str;
}

impl Words for Perilog {
    fn start(self) -> &'static str {
        match self {
            Perilog::Prolog => "prolog-start",
            Perilog::Epilog => "epilog-start",
        }
    }

    fn finish(self) -> &'static str {
        match self {
            Perilog::Prolog => "prolog-finish",
            Perilog::Epilog => "epilog-finish",
        }
    }
}
