//! What Ctrl-C means: it goes to the commands, and to this process itself if they don't end.

use std::time::{Duration, Instant};

/// Interrupts that follow each other within this time are meant for this process.
const SOON: Duration = Duration::from_secs(1);

/// What to do after an interrupt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Interrupt the commands.
    Pass,
    /// Tell the user how to leave.
    Warn(String),
    /// End this process.
    Leave,
}

/// The interrupts so far.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    last: Option<Instant>,
    /// The number of interrupts in a row that came soon after the one before.
    quick: u8,
}

impl Interrupts {
    /// Returns what to do after an interrupt at the time `now`.
    pub(super) fn next(&mut self, now: Instant) -> Next {
        let last = self.last.replace(now);
        let quick = last.is_some_and(|last| now.duration_since(last) < SOON);
        self.quick = if quick { self.quick.saturating_add(1) } else { 0 };
        match self.quick {
            0 => Next::Pass,
            1 => {
                let seconds = SOON.as_secs_f64();
                Next::Warn(format!(
                    "interrupt (Ctrl+C) one more time within {seconds:.2} sec to exit"
                ))
            }
            _ => Next::Leave,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_of_quick_interrupts_leaves() {
        let mut interrupts = Interrupts::default();
        let start = Instant::now();
        let mut after = |ms| interrupts.next(start + Duration::from_millis(ms));
        assert_eq!(after(0), Next::Pass);
        assert_eq!(after(2000), Next::Pass);
        assert!(matches!(after(2500), Next::Warn(text) if text.contains("within 1.00 sec")));
        assert_eq!(after(4000), Next::Pass);
        assert!(matches!(after(4100), Next::Warn(_)));
        assert_eq!(after(4200), Next::Leave);
    }
}
