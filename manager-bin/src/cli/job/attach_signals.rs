//! The signals of a client that is attached to a job, and what two of them in a row mean.

use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A second Ctrl-C within this time counts as the second of two.
const WINDOW: Duration = Duration::from_secs(2);

pub(super) const SIGINT: i32 = 2;
pub(super) const SIGTSTP: i32 = 20;

/// Signals that are passed on to the job.
const FORWARDED: [SignalKind; 5] = [
    SignalKind::hangup(),
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
    SignalKind::alarm(),
    SignalKind::terminate(),
];

/// Catches the signals that concern the job from now on. A client that only reads catches none: signals
/// end it as any program.
pub(super) fn catch(read_only: bool) -> std::io::Result<UnboundedReceiver<i32>> {
    let (sender, receiver) = unbounded_channel();
    if read_only {
        tokio::spawn(async move { sender.closed().await });
        return Ok(receiver);
    }
    let own = [SignalKind::interrupt(), SignalKind::from_raw(SIGTSTP)];
    for kind in own.into_iter().chain(FORWARDED) {
        let mut signals = signal(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() && sender.send(kind.as_raw_value()).is_ok() {}
        });
    }
    Ok(receiver)
}

/// What Ctrl-C does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Interrupt {
    /// The first one warns, the second cancels the job (`attach`).
    WarnFirst,
    /// The first one cancels the job, the second detaches (`run`, whose job is the user's own).
    CancelFirst,
}

/// What to do upon a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Say what a second one would do.
    Warn,
    /// Cancel the job.
    Cancel,
    /// Leave the job alone.
    Detach,
    /// Stop this process, as Ctrl-Z does.
    Suspend,
    /// Pass it on to the job.
    Forward(i32),
}

/// Remembers the last Ctrl-C.
#[derive(Debug)]
pub(super) struct Keys {
    mode: Interrupt,
    last: Option<Instant>,
}

impl Keys {
    pub(super) fn new(mode: Interrupt) -> Self {
        Self { mode, last: None }
    }

    /// What to do upon this signal at this time.
    pub(super) fn press(&mut self, signal: i32, now: Instant) -> Reaction {
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
            (other, _) => Reaction::Forward(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_only_looks_on_has_no_signals_to_hear_of() {
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
        let mut keys = Keys::new(Interrupt::WarnFirst);
        assert_eq!(keys.press(SIGINT, start), Reaction::Warn);
        assert_eq!(keys.press(SIGINT, late), Reaction::Warn);
        assert_eq!(keys.press(SIGINT, late), Reaction::Cancel);
        let mut keys = Keys::new(Interrupt::CancelFirst);
        assert_eq!(keys.press(SIGINT, start), Reaction::Cancel);
        assert_eq!(keys.press(SIGINT, start), Reaction::Detach);
    }

    #[test]
    fn ctrl_z_detaches_only_after_ctrl_c() {
        let now = Instant::now();
        let mut keys = Keys::new(Interrupt::WarnFirst);
        assert_eq!(keys.press(SIGTSTP, now), Reaction::Suspend);
        keys.press(SIGINT, now);
        assert_eq!(keys.press(SIGTSTP, now), Reaction::Detach);
        assert_eq!(keys.press(15, now), Reaction::Forward(15));
    }
}
