//! Meters the calls of each handler: counts, and a histogram of durations of sampled calls.
//!
//! Reading a precise clock twice takes several times as long as an empty handler. So each call reads
//! the host's coarse clock, a number in memory, to find handlers that exceed their time budget, and
//! only one call in [`SAMPLE`] is timed precisely.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::calls::{CallNumber, Calls, PresentCall};
use crate::job::JobId;

/// One call in this many is timed precisely.
pub const SAMPLE: u64 = 64;

/// The number of buckets of the histogram. Bucket `n` counts durations from 2^n ns to below 2^(n+1) ns.
pub const BUCKETS: usize = 40;

/// The host's clocks for metering. The clocks of the default stand still.
#[derive(Clone)]
pub struct Ticks {
    coarse: Arc<AtomicU64>,
    precise: fn() -> u64,
    calls: Calls,
}

impl Ticks {
    /// The host keeps `coarse` at about the present time in milliseconds; `precise` reads the time in
    /// nanoseconds. The origin of both is arbitrary.
    pub fn new(coarse: Arc<AtomicU64>, precise: fn() -> u64) -> Self {
        Self { coarse, precise, calls: Calls::default() }
    }

    /// The coarse clock, in milliseconds.
    pub fn coarse(&self) -> u64 {
        self.coarse.load(Ordering::Relaxed)
    }

    /// The callback that is under way.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    pub(in crate::host) fn precise(&self) -> u64 {
        (self.precise)()
    }
}

impl Default for Ticks {
    fn default() -> Self {
        Self::new(Arc::default(), || 0)
    }
}

impl fmt::Debug for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticks").field("coarse", &self.coarse()).finish_non_exhaustive()
    }
}

/// Counts of one handler.
#[derive(Debug)]
pub(in crate::host) struct Meter {
    number: CallNumber,
    calls: Cell<u64>,
    errors: Cell<u64>,
    panics: Cell<u64>,
    samples: [Cell<u32>; BUCKETS],
}

/// A call that is being metered.
#[derive(Debug)]
pub(in crate::host) struct Running {
    coarse: u64,
    precise: Option<u64>,
    before: PresentCall,
}

impl Meter {
    pub(in crate::host) fn new(number: CallNumber) -> Self {
        Self {
            number,
            calls: Cell::new(0),
            errors: Cell::new(0),
            panics: Cell::new(0),
            samples: [const { Cell::new(0) }; BUCKETS],
        }
    }

    #[inline]
    pub(in crate::host) fn start(&self, ticks: &Ticks, job: Option<JobId>) -> Running {
        let calls = self.calls.get();
        self.calls.set(calls + 1);
        let precise = calls.is_multiple_of(SAMPLE).then(|| ticks.precise());
        let before = ticks.calls.begin(self.number, calls, job);
        Running { coarse: ticks.coarse(), precise, before }
    }

    /// Ends a call. Returns the milliseconds that it took by the coarse clock.
    #[inline]
    pub(in crate::host) fn stop(&self, running: &Running, ticks: &Ticks) -> u64 {
        ticks.calls.end(running.before);
        if let Some(start) = running.precise {
            self.sample(ticks.precise().saturating_sub(start));
        }
        ticks.coarse().saturating_sub(running.coarse)
    }

    pub(in crate::host) fn error(&self) {
        self.errors.set(self.errors.get() + 1);
    }

    pub(in crate::host) fn panic(&self) {
        self.panics.set(self.panics.get() + 1);
    }

    #[cold]
    fn sample(&self, nanoseconds: u64) {
        // Saturating, since a site's manager may run for years.
        if let Some(count) = self.samples.get(bucket_of(nanoseconds)) {
            count.set(count.get().saturating_add(1));
        }
    }

    pub(in crate::host) fn stats(&self, topic: String, method: &'static str) -> HandlerStats {
        HandlerStats {
            topic,
            method,
            calls: self.calls.get(),
            errors: self.errors.get(),
            panics: self.panics.get(),
            samples: self.samples.iter().map(Cell::get).collect(),
        }
    }
}

fn bucket_of(nanoseconds: u64) -> usize {
    (nanoseconds.max(1).ilog2() as usize).min(BUCKETS - 1)
}

/// Counts of the polls of a plugin's futures, by their topics. They are polled on other threads.
#[derive(Debug, Default)]
pub(in crate::host) struct Polls(Mutex<BTreeMap<&'static str, Polled>>);

#[derive(Debug)]
struct Polled {
    polls: u64,
    samples: [u32; BUCKETS],
}

impl Polls {
    /// Notes a poll that took this long.
    pub(in crate::host) fn note(&self, topic: &'static str, nanoseconds: u64) {
        let mut polls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Polled { polls: 0, samples: [0; BUCKETS] };
        let polled = polls.entry(topic).or_insert_with(new);
        polled.polls += 1;
        if let Some(count) = polled.samples.get_mut(bucket_of(nanoseconds)) {
            *count = count.saturating_add(1);
        }
    }

    pub(in crate::host) fn stats(&self) -> Vec<HandlerStats> {
        let polls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = |(topic, polled): (&&'static str, &Polled)| HandlerStats {
            topic: (*topic).to_owned(),
            method: "polls",
            calls: polled.polls,
            errors: 0,
            panics: 0,
            samples: polled.samples.to_vec(),
        };
        polls.iter().map(stats).collect()
    }
}

/// The calls of a handler since its plugin was loaded, for `jobtap plugin stats`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerStats {
    /// The topic.
    pub topic: String,
    /// The method's name.
    pub method: &'static str,
    /// How many calls there were.
    pub calls: u64,
    /// How many calls returned an error, including refusals.
    pub errors: u64,
    /// How many calls panicked.
    pub panics: u64,
    /// The number of timed calls in each bucket: see [`BUCKETS`].
    pub samples: Vec<u32>,
}

impl HandlerStats {
    /// The histogram without empty buckets: the upper bound of each bucket in nanoseconds, and the number
    /// of timed calls in it.
    ///
    /// ```
    /// # use jobtap_core::host::HandlerStats;
    /// fn slow(stats: &HandlerStats) -> u32 {
    ///     let over_a_millisecond = stats.histogram().filter(|(below, _)| *below > 2_000_000);
    ///     over_a_millisecond.map(|(_, calls)| calls).sum()
    /// }
    /// ```
    pub fn histogram(&self) -> impl Iterator<Item = (u64, u32)> {
        let buckets = self.samples.iter().enumerate();
        let timed = buckets.filter(|(_, calls)| **calls > 0);
        timed.map(|(bucket, calls)| (1 << (bucket + 1), *calls))
    }

    /// The upper bound in nanoseconds of the bucket that contains this quantile of the timed calls, such as
    /// 0.5 for the median; `None` when no call was timed.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let total: u64 = self.samples.iter().map(|count| u64::from(*count)).sum();
        if total == 0 {
            return None;
        }
        // At least one call, at most all of them.
        let wanted = ((total as f64 * part).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        let bucket = self.samples.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        })?;
        Some(1 << (bucket + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_sixty_four_is_timed() {
        let ticks = Ticks::new(Arc::default(), || 1000);
        let meter = Meter::new(Calls::default().number("a", "job.new"));
        for _ in 0..129 {
            let running = meter.start(&ticks, None);
            meter.stop(&running, &ticks);
        }
        let stats = meter.stats("job.new".to_owned(), "seen");
        assert_eq!(stats.calls, 129);
        assert_eq!(stats.samples.iter().sum::<u32>(), 3);
    }

    #[test]
    fn quantiles_are_bounds_of_buckets() {
        let meter = Meter::new(Calls::default().number("a", "job.new"));
        for nanoseconds in [10, 10, 10, 5000] {
            meter.sample(nanoseconds);
        }
        let stats = meter.stats(String::new(), "");
        assert_eq!(stats.quantile(0.5), Some(16));
        assert_eq!(stats.quantile(1.0), Some(8192));
        assert_eq!(stats.histogram().collect::<Vec<_>>(), [(16, 3), (8192, 1)]);
        let meter = Meter::new(Calls::default().number("a", "job.new"));
        assert_eq!(meter.stats(String::new(), "").quantile(0.5), None);
    }

    #[test]
    fn the_coarse_clock_tells_how_long_a_call_took() {
        let coarse = Arc::new(AtomicU64::new(5));
        let ticks = Ticks::new(Arc::clone(&coarse), || 0);
        let meter = Meter::new(Calls::default().number("a", "job.new"));
        let running = meter.start(&ticks, None);
        coarse.store(255, Ordering::Relaxed);
        assert_eq!(meter.stop(&running, &ticks), 250);
    }
}
