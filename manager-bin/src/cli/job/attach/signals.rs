//! The signals of a client that is attached to a job, and the meaning of two Ctrl-C in a row.

use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The time within which a second Ctrl-C or a Ctrl-Z after Ctrl-C has its special meaning.
const WINDOW: Duration = Duration::from_secs(2);

const SIGHUP: i32 = 1;
pub(super) const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
pub(super) const SIGTSTP: i32 = 20;
/// The size of the terminal has changed.
const SIGWINCH: i32 = 28;

/// Signals that are forwarded to the job.
const FORWARDED: [SignalKind; 5] = [
    SignalKind::hangup(),
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
    SignalKind::alarm(),
    SignalKind::terminate(),
];

/// Catches the signals that concern the job from now on. With `read_only` none are caught: they terminate this client
/// like any other program.
pub(super) fn catch(read_only: bool) -> std::io::Result<UnboundedReceiver<i32>> {
    let (sender, receiver) = unbounded_channel();
    if read_only {
        // A dropped sender would make the receiver return `None` at once.
        tokio::spawn(async move { sender.closed().await });
        return Ok(receiver);
    }
    let own = [SIGINT, SIGTSTP, SIGWINCH].map(SignalKind::from_raw);
    for kind in own.into_iter().chain(FORWARDED) {
        let mut signals = signal(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() && sender.send(kind.as_raw_value()).is_ok() {}
        });
    }
    Ok(receiver)
}

/// Whether users who send this signal expect it to end a waiting program.
pub(super) fn ends(signal: i32) -> bool {
    [SIGHUP, SIGINT, SIGTERM].contains(&signal)
}

/// The exit code of a program that a signal has ended, as shells report it.
pub(super) fn code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// The meaning of Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Interrupt {
    /// The first one warns, the second cancels the job: for `attach`.
    WarnFirst,
    /// The first one cancels the job, the second detaches: for `run`, which has submitted the job itself.
    CancelFirst,
}

/// How the client reacts to a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Print what a second Ctrl-C would do.
    Warn,
    /// Cancel the job.
    Cancel,
    /// Exit, and let the job continue.
    Detach,
    /// Stop this process, as Ctrl-Z does.
    Suspend,
    /// Give the job's terminals the size of this one, if keys are passed on to them.
    Resize,
    /// Send the signal to the job.
    Forward(i32),
}

/// Remembers the last Ctrl-C.
#[derive(Debug)]
pub(super) struct CtrlC {
    mode: Interrupt,
    last: Option<Instant>,
}

impl CtrlC {
    pub(super) fn new(mode: Interrupt) -> Self {
        Self { mode, last: None }
    }

    /// The reaction to a signal at the time `now`.
    pub(super) fn react(&mut self, signal: i32, now: Instant) -> Reaction {
        let again = self.last.is_some_and(|last| now.duration_since(last) <= WINDOW);
        match (signal, self.mode) {
            (SIGINT, mode) => {
                self.last = Some(now);
                match (mode, again) {
                    (Interrupt::WarnFirst, false) => Reaction::Warn,
                    (Interrupt::WarnFirst, true) | (Interrupt::CancelFirst, false) => {
                        Reaction::Cancel
                    }
                    (Interrupt::CancelFirst, true) => Reaction::Detach,
                }
            }
            (SIGTSTP, _) if again => Reaction::Detach,
            (SIGTSTP, _) => Reaction::Suspend,
            (SIGWINCH, _) => Reaction::Resize,
            (other, _) => Reaction::Forward(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_catches_no_signals() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut signals = catch(true).unwrap();
            tokio::task::yield_now().await;
            assert!(signals.try_recv().is_err());
            assert!(!signals.is_closed());
        });
    }

    #[test]
    fn attach_warns_first_and_run_cancels_first() {
        let start = Instant::now();
        let late = start + WINDOW + Duration::from_millis(1);
        let mut ctrl_c = CtrlC::new(Interrupt::WarnFirst);
        assert_eq!(ctrl_c.react(SIGINT, start), Reaction::Warn);
        assert_eq!(ctrl_c.react(SIGINT, late), Reaction::Warn);
        assert_eq!(ctrl_c.react(SIGINT, late), Reaction::Cancel);
        let mut ctrl_c = CtrlC::new(Interrupt::CancelFirst);
        assert_eq!(ctrl_c.react(SIGINT, start), Reaction::Cancel);
        assert_eq!(ctrl_c.react(SIGINT, start), Reaction::Detach);
    }

    #[test]
    fn ctrl_z_detaches_only_after_ctrl_c() {
        let now = Instant::now();
        let mut ctrl_c = CtrlC::new(Interrupt::WarnFirst);
        assert_eq!(ctrl_c.react(SIGTSTP, now), Reaction::Suspend);
        ctrl_c.react(SIGINT, now);
        assert_eq!(ctrl_c.react(SIGTSTP, now), Reaction::Detach);
        assert_eq!(ctrl_c.react(15, now), Reaction::Forward(15));
    }
}
