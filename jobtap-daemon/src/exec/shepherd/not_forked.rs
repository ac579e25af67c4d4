//! A task whose process was not started.

use std::io;

/// Why the process of a task wasn't started.
pub(super) enum NotForked {
    /// The forker has died before it could start the process.
    Again,
    /// The forker has died while it started the process. It may have run, so it isn't started again.
    Lost,
    /// The system refused to start the process, or to execute its program.
    Refused(io::Error),
}
