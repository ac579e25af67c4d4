//! What the jobs of a simulation wait for, as job seconds for each word.
//!
//! The engine is asked at equal distances of virtual time, which grow with the simulation, so that a trace of a year takes
//! little longer than one of a day. Nothing changes between two events, so one answer stands for all moments between them.

use crate::engine::{Engine, WaitsFor};

/// The first distance between two moments, in seconds.
const DISTANCE: f64 = 60.0;

/// After this many answers the distance is doubled.
const ANSWERS: u32 = 64;

/// The job seconds so far.
#[derive(Debug)]
pub(super) struct Waits {
    next: f64,
    distance: f64,
    answers: u32,
    seconds: Vec<(WaitsFor, f64)>,
}

impl Default for Waits {
    fn default() -> Self {
        Self { next: DISTANCE, distance: DISTANCE, answers: 0, seconds: Vec::new() }
    }
}

impl Waits {
    /// Notes what jobs wait for up to this moment, before which nothing will change.
    pub(super) fn pass(&mut self, engine: &Engine, until: f64) {
        if until < self.next {
            return;
        }
        let moments = ((until - self.next) / self.distance).floor() + 1.0;
        let mut count = engine.begin_waits(None);
        while engine.count_waits(&mut count, usize::MAX) {}
        for (what, jobs) in count.counts() {
            let seconds = jobs as f64 * moments * self.distance;
            match self.seconds.iter_mut().find(|(known, _)| *known == what) {
                Some((_, all)) => *all += seconds,
                None => self.seconds.push((what, seconds)),
            }
        }
        self.next += moments * self.distance;
        self.answers += 1;
        if self.answers == ANSWERS {
            self.answers = 0;
            self.distance *= 2.0;
        }
    }

    /// The job seconds of each word, the most first.
    pub(super) fn into_seconds(mut self) -> Vec<(&'static str, f64)> {
        self.seconds.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        self.seconds.into_iter().map(|(what, seconds)| (what.word(), seconds)).collect()
    }
}
