//! Joins the stored part of an eventlog with new events, so that a watcher sees each line once.
//!
//! A watcher is registered first and reads the store afterwards. Events that became durable in between are both in the
//! store and among the new events. They are recognized by their numbers in the log.

/// How many lines of one log a watcher has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Position {
    next: u64,
}

/// What to do with a new event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It was shown already.
    Seen,
    /// It is the next line.
    Show,
    /// Lines before it are missing: read the store again.
    Behind,
}

impl Position {
    /// The number of lines shown.
    pub(super) fn shown(self) -> u64 {
        self.next
    }

    /// The lines of the stored log that are not shown yet. They count as shown from now on.
    pub(super) fn take_new<'a>(&mut self, stored: &'a str) -> Vec<&'a str> {
        let mut lines = Vec::new();
        for (number, line) in (0u64..).zip(stored.split_inclusive('\n')) {
            if number >= self.next {
                lines.push(line);
                self.next = number + 1;
            }
        }
        lines
    }

    /// What to do with the new event of this number. [`Step::Show`] counts it as shown.
    pub(super) fn accept(&mut self, seq: u64) -> Step {
        match seq.cmp(&self.next) {
            std::cmp::Ordering::Less => Step::Seen,
            std::cmp::Ordering::Greater => Step::Behind,
            std::cmp::Ordering::Equal => {
                self.next += 1;
                Step::Show
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// `stored` lines are in the store when it is read; live events come from `subscribed` on.
        #[test]
        fn every_line_is_shown_once_and_in_order(total in 0u64..40, stored in 0u64..40, subscribed in 0u64..40) {
            let stored = stored.min(total);
            let subscribed = subscribed.min(stored);
            let text: String = (0..stored).map(|n| format!("{n}\n")).collect();
            let mut position = Position::default();
            let mut shown: Vec<u64> =
                position.take_new(&text).into_iter().map(|line| line.trim().parse().unwrap()).collect();
            for seq in subscribed..total {
                match position.accept(seq) {
                    Step::Show => shown.push(seq),
                    Step::Seen => prop_assert!(seq < stored),
                    Step::Behind => prop_assert!(false, "no gap can arise"),
                }
            }
            prop_assert_eq!(shown, (0..total).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_gap_is_noticed_and_filled_from_the_store() {
        let mut position = Position::default();
        assert_eq!(position.take_new("a\n"), ["a\n"]);
        assert_eq!(position.accept(2), Step::Behind);
        assert_eq!(position.take_new("a\nb\nc\n"), ["b\n", "c\n"]);
        assert_eq!(position.accept(2), Step::Seen);
        assert_eq!(position.accept(3), Step::Show);
    }
}
