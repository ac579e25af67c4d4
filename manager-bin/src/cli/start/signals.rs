//! The signals that a manager handles while it runs.
//!
//! Handlers are installed once, before the manager can be found, and stay until it ends. A signal without a
//! handler would end the process without an orderly end; one that comes during a restart in place would be
//! lost if they were installed again.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// One stream for each signal. A signal that arrives between two waits is kept for the next one.
pub(super) struct Signals {
    /// SIGTERM.
    pub(super) terminate: Signal,
    /// SIGALRM, as a job gets it whose time is up.
    pub(super) alarm: Signal,
    /// SIGINT.
    pub(super) interrupt: Signal,
    /// SIGHUP.
    pub(super) hangup: Signal,
}

impl Signals {
    /// From now on none of them ends the process by itself.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            alarm: signal(SignalKind::alarm())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}
