//! The signals that a manager handles while it runs.
//!
//! The handlers are installed once, before clients can connect, and remain until the process exits. Without a
//! handler, a signal would kill the manager before it could shut down. If they were installed again at each
//! restart, a signal during the restart would be lost.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A stream for each signal. A signal that arrives between two calls of `recv` isn't lost.
pub(super) struct Signals {
    /// SIGTERM.
    pub(super) terminate: Signal,
    /// SIGALRM, which is sent to jobs that have reached their time limit.
    pub(super) alarm: Signal,
    /// SIGINT.
    pub(super) interrupt: Signal,
    /// SIGHUP.
    pub(super) hangup: Signal,
    /// SIGUSR1 and SIGUSR2, which mean something to jobs.
    pub(super) user1: Signal,
    pub(super) user2: Signal,
}

impl Signals {
    /// Installs the handlers.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            alarm: signal(SignalKind::alarm())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for a signal that ends the manager.
    pub(super) async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.alarm.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
