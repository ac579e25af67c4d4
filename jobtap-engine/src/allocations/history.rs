//! What has happened with a table: requests, refusals, and the core hours that were used. It bounds what is asked for next.

use std::collections::VecDeque;

use crate::job::Timestamp;

const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;

/// The seconds until a table is asked again after a first refusal. Each further one doubles them.
const FIRST_DELAY: f64 = 1.0;

/// The most seconds between two requests after refusals.
const LONGEST_DELAY: f64 = 600.0;

/// The past of a table.
#[derive(Debug, Default)]
pub(super) struct History {
    /// When allocations were asked for.
    pub(super) requests: VecDeque<Timestamp>,
    /// The refusals since a node has last joined. An allocation that ends before a node has joined counts as one.
    pub(super) refusals: u32,
    /// The last one, and when the table may be asked again.
    pub(super) refusal: Option<(String, Timestamp)>,
    uses: VecDeque<Use>,
}

/// An allocation that has ended.
#[derive(Debug)]
struct Use {
    from: Timestamp,
    to: Timestamp,
    cores: u64,
}

impl History {
    /// Notes a refusal. Several within one delay count once: they answer requests that were made together.
    pub(super) fn note_refusal(&mut self, at: Timestamp, reason: &str) {
        let until = match &self.refusal {
            Some((_, until)) if *until > at => *until,
            _ => {
                // Far beyond the exponent at which the delay is the longest.
                let doubled = self.refusals.min(30);
                self.refusals = self.refusals.saturating_add(1);
                at + (FIRST_DELAY * f64::from(1u32 << doubled)).min(LONGEST_DELAY)
            }
        };
        self.refusal = Some((reason.to_owned(), until));
    }

    /// Notes that an allocation has brought a node.
    pub(super) fn note_success(&mut self) {
        self.refusals = 0;
        self.refusal = None;
    }

    /// Notes that an allocation has used so many cores.
    pub(super) fn note_use(&mut self, from: Timestamp, to: Timestamp, cores: u64) {
        self.uses.push_back(Use { from, to, cores });
    }

    /// Forgets what no bound depends on any longer.
    pub(super) fn forget_old(&mut self, now: Timestamp) {
        while self.requests.front().is_some_and(|at| *at <= now - HOUR) {
            self.requests.pop_front();
        }
        self.uses.retain(|used| used.to > now - DAY);
    }

    /// The number of requests in the last hour.
    pub(super) fn requests_in_hour(&self, now: Timestamp) -> u32 {
        let recent = self.requests.iter().filter(|at| **at > now - HOUR).count();
        u32::try_from(recent).unwrap_or(u32::MAX)
    }

    /// When the table may be asked again; `None` if it may be now.
    pub(super) fn next_try(&self, now: Timestamp, requests_per_hour: u32) -> Option<Timestamp> {
        let refused = self.refusal.as_ref().map(|(_, until)| *until);
        let recent = self.requests.iter().filter(|at| **at > now - HOUR);
        // The oldest of as many as an hour may have.
        let busy = recent.rev().nth(requests_per_hour.saturating_sub(1) as usize);
        let busy = busy.map(|at| *at + HOUR);
        let next =
            refused.into_iter().chain(busy).max_by(|a, b| a.as_secs().total_cmp(&b.as_secs()));
        next.filter(|next| *next > now)
    }

    /// The core hours that ended allocations have used in the last 24 hours.
    pub(super) fn core_hours(&self, now: Timestamp) -> f64 {
        let since = now - DAY;
        let within = |used: &Use| {
            let from = used.from.as_secs().max(since.as_secs());
            (used.to.as_secs() - from).max(0.0) * used.cores as f64 / HOUR
        };
        self.uses.iter().map(within).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::from_secs(1e6 + seconds)
    }

    #[test]
    fn the_delay_doubles_up_to_ten_minutes() {
        let mut history = History::default();
        let (mut now, mut delays) = (at(0.0), Vec::new());
        for _ in 0..12 {
            history.note_refusal(now, "no");
            let next = history.next_try(now, 60).unwrap();
            delays.push(next - now);
            now = next;
            assert_eq!(history.next_try(now, 60), None);
        }
        let mut expected: Vec<f64> = (0..10).map(|n| f64::from(1 << n)).collect();
        expected.extend([600.0, 600.0]);
        assert_eq!(delays, expected);
        history.note_success();
        history.note_refusal(now, "no");
        assert_eq!(history.next_try(now, 60), Some(now + 1.0));
    }

    #[test]
    fn refusals_of_requests_that_were_made_together_count_once() {
        let mut history = History::default();
        for _ in 0..20 {
            history.note_refusal(at(0.0), "no");
        }
        assert_eq!((history.refusals, history.next_try(at(0.0), 60)), (1, Some(at(1.0))));
    }

    #[test]
    fn an_hour_has_only_so_many_requests() {
        let mut history = History::default();
        for seconds in [0.0, 10.0, 20.0] {
            assert_eq!(history.next_try(at(seconds), 3), None);
            history.requests.push_back(at(seconds));
        }
        assert_eq!(history.next_try(at(20.0), 3), Some(at(3600.0)));
        assert_eq!(history.next_try(at(20.0), 4), None);
        assert_eq!(history.next_try(at(3600.0), 3), None);
        history.forget_old(at(3600.0));
        assert_eq!(history.requests.len(), 2);
    }

    #[test]
    fn core_hours_count_for_a_day() {
        let mut history = History::default();
        history.note_use(at(0.0), at(7200.0), 10);
        assert_eq!(history.core_hours(at(7200.0)), 20.0);
        assert_eq!(history.core_hours(at(DAY + 3600.0)), 10.0);
        history.forget_old(at(DAY + 7200.0));
        assert_eq!(history.core_hours(at(DAY + 7200.0)), 0.0);
        assert!(history.uses.is_empty());
    }
}
