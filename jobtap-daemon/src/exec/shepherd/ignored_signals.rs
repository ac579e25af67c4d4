//! The signals that the jobs of a manager must not inherit as ignored.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Catches the signals that may have been ignored when the manager was started, by `nohup` or by a shell that puts it
/// in the background. A process inherits ignored signals but not caught ones, so jobs get the default action of each
/// signal. The shepherd itself does nothing on these signals.
pub(super) fn catch_ignored() -> io::Result<Vec<Signal>> {
    let kinds = [
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        SignalKind::alarm(),
    ];
    kinds.into_iter().map(signal).collect()
}
