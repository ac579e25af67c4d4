//! Chance in campaigns of faults, which a seed repeats.

use std::thread::sleep;
use std::time::{Duration, SystemTime};

/// Returns a number that the environment sets for a campaign.
#[track_caller]
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{variable}={text} is not a number"),
    }
}

/// A pseudo-random generator (xorshift) whose sequence a seed repeats.
pub struct Random(u64);

impl Random {
    /// Begins a sequence with the seed of the variable `SEED`, or else of the clock, and prints it.
    #[track_caller]
    #[allow(clippy::print_stdout, reason = "who repeats a campaign needs its seed")]
    pub fn from_seed() -> Self {
        let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seed = number("SEED").unwrap_or(clock.subsec_nanos().into()).max(1);
        println!("SEED={seed}");
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        for shift in [13, -7, 17] {
            self.0 ^= if shift > 0 { self.0 << shift } else { self.0 >> -shift };
        }
        self.0 % limit
    }

    /// One of these.
    #[track_caller]
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        let index = usize::try_from(self.below(choices.len() as u64)).unwrap_or_default();
        match choices.get(index) {
            Some(choice) => *choice,
            None => panic!("there is nothing to choose from"),
        }
    }

    /// Waits for less than so many milliseconds.
    pub fn pause(&mut self, milliseconds: u64) {
        sleep(Duration::from_millis(self.below(milliseconds)));
    }
}
