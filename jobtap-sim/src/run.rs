//! Runs of the simulator: by a seed, or by a schedule that was made shorter.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{Duration, Instant};

use crate::dice::Dice;
use crate::oracle::Violation;
use crate::profile::Profile;
use crate::world::World;

/// What a run has come to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was broken, if anything was.
    pub violation: Option<Violation>,
    /// A number that stands for all that has happened.
    pub digest: u64,
    /// How many faults there were.
    pub faults: u64,
    /// How many jobs were made durable.
    pub jobs: usize,
    /// How many checks were made, by rule.
    pub checks: BTreeMap<&'static str, u64>,
    /// The step at which it broke.
    pub at: usize,
    /// The last events.
    pub trace: Vec<String>,
}

/// The steps of a seed, by their numbers.
#[must_use]
pub fn schedule(seed: u64, steps: usize) -> Vec<(usize, u64)> {
    let mut dice = Dice::new(seed);
    (0..steps).map(|step| (step, dice.roll())).collect()
}

/// Runs a schedule of a seed.
#[must_use]
pub fn run(seed: u64, schedule: &[(usize, u64)]) -> Outcome {
    quiet();
    let mut outcome = Outcome::default();
    let mut world = None;
    let made = catch_unwind(AssertUnwindSafe(|| {
        let world = world.insert(World::new(Profile::of_seed(seed))?);
        for (at, word) in schedule {
            outcome.at = *at;
            world.step(*word)?;
        }
        outcome.at = schedule.last().map_or(0, |(at, _)| at + 1);
        world.end()
    }));
    outcome.violation = match made {
        Ok(Ok(())) => None,
        Ok(Err(violation)) => Some(violation),
        Err(panic) => {
            let text = jobtap_core::host::panic_text(&*panic);
            Some(Violation { rule: "panics", text })
        }
    };
    if let Some(world) = world {
        outcome.digest = world.digest();
        outcome.faults = world.faults;
        outcome.jobs = world.oracle.jobs().len();
        outcome.checks = world.oracle.checks.clone();
        outcome.trace = world.trace().map(str::to_owned).collect();
    }
    outcome
}

/// Makes a schedule that breaks a rule shorter, as far as this time allows.
#[must_use]
pub fn shrink(
    seed: u64,
    schedule: &[(usize, u64)],
    rule: &str,
    time: Duration,
) -> Vec<(usize, u64)> {
    let until = Instant::now() + time;
    let breaks = |schedule: &[(usize, u64)]| {
        run(seed, schedule).violation.is_some_and(|violation| violation.rule == rule)
    };
    let mut best = schedule.to_vec();
    let mut chunk = best.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        let mut is_shorter = false;
        while at < best.len() {
            if Instant::now() > until {
                return best;
            }
            let end = (at + chunk).min(best.len());
            let shorter: Vec<_> = best
                .iter()
                .enumerate()
                .filter(|(i, _)| !(at..end).contains(i))
                .map(|(_, s)| *s)
                .collect();
            if breaks(&shorter) {
                best = shorter;
                is_shorter = true;
            } else {
                at = end;
            }
        }
        if chunk == 1 && !is_shorter {
            break;
        }
        chunk = if chunk == 1 { 1 } else { chunk / 2 };
    }
    best
}

/// Keeps the messages of panics out of the output: those on purpose are many, and others are reported.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload_as_str() != Some("hostile") {
                usual(info);
            }
        }));
    });
}
