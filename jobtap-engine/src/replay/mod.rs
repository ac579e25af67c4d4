//! Replay of recorded jobs: the eventlogs of real jobs lead the engine's jobs from event to event, the loaded
//! plugins are called as they were then, and what one of them answers is compared with what was recorded.
//!
//! Nothing that a plugin asks for changes a job, since the record says what happened next. So the plugin sees
//! the jobs as they were, and no difference hides the next one.
//!
//! An eventlog doesn't say which plugin has asked for something. So all configured plugins are called, and what another
//! one asks for is not held against the plugin that is reported.
//!
//! | file | what it holds |
//! |---|---|
//! | `api` | what a replay takes and returns |
//! | `record` | what plugins can have asked for, as the events of a job record it |
//! | `ledger` | what was asked for, compared with what was recorded |
//! | `log` | the eventlog of a job, and how far it was replayed |
//! | `driver` | what a replay works on |
//! | `call` | one call of a handler |
//! | `topics` | one event, and the topics to which it leads |
//! | `run` | the time, and the events in their order |

mod api;
mod call;
mod driver;
mod ledger;
mod log;
mod record;
mod run;
mod topics;

pub use self::api::{RecordedJob, ReplayComparison, ReplayOptions, Replayed, ReplayedAnswer};

use self::driver::Driver;
use super::Setup;
use super::api::StartError;

/// Replays the recorded jobs to the plugin of this name, which is loaded if the configuration doesn't load it.
///
/// # Errors
/// When the configuration has a mistake, or a plugin can't be loaded; the text names it.
pub fn replay(
    setup: Setup,
    plugin: &str,
    jobs: Vec<RecordedJob>,
    options: ReplayOptions,
) -> Result<Replayed, StartError> {
    Ok(Driver::start(setup, plugin, jobs)?.run(options))
}
