//! What Ctrl-C means: it goes to the commands, and to this process itself if they don't end.

use std::time::{Duration, Instant};

/// How soon one interrupt has to follow another to be meant for this process.
const SOON: Duration = Duration::from_secs(1);

/// What follows from an interrupt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The commands are interrupted.
    Pass,
    /// The user reads how to leave.
    Warn(String),
    /// This process ends.
    Leave,
}

/// The interrupts so far.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    last: Option<Instant>,
    /// How many came soon after another.
    quick: u8,
}

impl Interrupts {
    /// An interrupt at this time.
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
