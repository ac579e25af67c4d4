//! The limits at which a script is stopped.

use std::fmt;
use std::time::{Duration, Instant};

use super::pattern::{Budget, PatternError};

/// The limits of one call of a script.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Instructions of Lua's virtual machine.
    pub instructions: u64,
    /// Wall-clock time, including the commands that the script runs.
    pub time: Duration,
    /// Bytes of memory, including all that the script keeps between calls.
    pub memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { instructions: 200_000_000, time: Duration::from_secs(10), memory: 256 << 20 }
    }
}

/// A limit that a script has reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// It ran this many instructions.
    Instructions(u64),
    /// It took this long.
    Time(Duration),
    /// It used this many bytes of memory.
    Memory(usize),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instructions(count) => write!(f, "stopped after {count} instructions"),
            Self::Time(time) => write!(f, "stopped after {} s", time.as_secs_f64()),
            Self::Memory(bytes) => write!(f, "stopped at {} MiB of memory", bytes >> 20),
        }
    }
}

/// What one call has used of its limits.
#[derive(Debug)]
pub(super) struct Meter {
    limits: Limits,
    used: u64,
    deadline: Instant,
    reached: Option<Limit>,
}

impl Meter {
    pub(super) fn new(limits: Limits) -> Self {
        let now = Instant::now();
        // A limit that the clock can't represent is treated as a year.
        let year = Duration::from_secs(365 * 24 * 3600);
        let deadline = now + limits.time.min(year);
        Self { limits, used: 0, deadline, reached: None }
    }

    /// Accounts for some instructions. Returns the limit once one is reached, and at every later call.
    pub(super) fn spend(&mut self, instructions: u64) -> Option<Limit> {
        self.used = self.used.saturating_add(instructions);
        if self.reached.is_none() {
            if self.used > self.limits.instructions {
                self.reached = Some(Limit::Instructions(self.limits.instructions));
            } else if Instant::now() >= self.deadline {
                self.reached = Some(Limit::Time(self.limits.time));
            }
        }
        self.reached
    }

    pub(super) fn reached(&self) -> Option<Limit> {
        self.reached
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The maximum output of a command, in bytes.
    pub(super) fn output(&self) -> usize {
        self.limits.memory / 4
    }

    /// Notes that memory ran out.
    pub(super) fn out_of_memory(&mut self) {
        self.reached.get_or_insert(Limit::Memory(self.limits.memory));
    }
}

impl Budget for Meter {
    fn spend(&mut self, steps: u64) -> Result<(), PatternError> {
        match Meter::spend(self, steps) {
            None => Ok(()),
            Some(_) => Err(PatternError::Limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_reached_stays_reached() {
        let mut meter = Meter::new(Limits { instructions: 10, ..Limits::default() });
        assert_eq!(meter.spend(10), None);
        assert_eq!(meter.spend(1), Some(Limit::Instructions(10)));
        meter.out_of_memory();
        assert_eq!(meter.reached(), Some(Limit::Instructions(10)));
        assert_eq!(Limit::Instructions(10).to_string(), "stopped after 10 instructions");
    }

    #[test]
    fn time_runs_out_without_instructions() {
        let mut meter = Meter::new(Limits { time: Duration::ZERO, ..Limits::default() });
        assert_eq!(meter.spend(0), Some(Limit::Time(Duration::ZERO)));
        let mut meter = Meter::new(Limits { time: Duration::MAX, ..Limits::default() });
        assert_eq!(meter.spend(0), None);
    }
}
