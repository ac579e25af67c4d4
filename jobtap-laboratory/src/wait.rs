//! How long the job manager outside lets an allocation wait that a simulated elastic instance asks for.

use std::str::FromStr;

use chacha20::ChaCha8Rng;
use rand::SeedableRng;
use rand_distr::{Distribution, Exp};

/// A model of the wait in the queue of the job manager outside.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum QueueWait {
    /// Allocations start at once.
    #[default]
    None,
    /// Each waits for so many seconds.
    Fixed(f64),
    /// The waits are distributed exponentially. The same seed gives the same waits.
    Exponential {
        /// In seconds.
        mean: f64,
        /// Of the random numbers.
        seed: u64,
    },
}

/// A text that is no model of a wait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no wait: use fixed:SECONDS, exponential:MEAN or exponential:MEAN:SEED, with times in seconds"
)]
pub struct NoQueueWait(String);

impl FromStr for QueueWait {
    type Err = NoQueueWait;

    fn from_str(text: &str) -> Result<Self, NoQueueWait> {
        let wrong = || NoQueueWait(text.to_owned());
        let seconds = |text: &str| {
            let seconds = text.parse::<f64>().ok();
            seconds.filter(|seconds| *seconds >= 0.0 && seconds.is_finite()).ok_or_else(wrong)
        };
        let mean = |text: &str| {
            seconds(text).and_then(|mean| if mean > 0.0 { Ok(mean) } else { Err(wrong()) })
        };
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["fixed", time] => Ok(Self::Fixed(seconds(time)?)),
            ["exponential", time] => Ok(Self::Exponential { mean: mean(time)?, seed: 1 }),
            ["exponential", time, seed] => {
                let seed = seed.parse().map_err(|_| wrong())?;
                Ok(Self::Exponential { mean: mean(time)?, seed })
            }
            _ => Err(wrong()),
        }
    }
}

impl QueueWait {
    /// The waits of one allocation after the other, in seconds.
    pub(crate) fn waits(self) -> Box<dyn FnMut() -> f64> {
        let (mean, seed) = match self {
            Self::None => return Box::new(|| 0.0),
            Self::Fixed(seconds) => return Box::new(move || seconds),
            Self::Exponential { mean, seed } => (mean, seed),
        };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        match Exp::new(1.0 / mean) {
            Ok(law) => Box::new(move || law.sample(&mut random)),
            // The mean is above zero.
            Err(_) => Box::new(move || mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_fixed_or_exponential() {
        let read = |text: &str| text.parse::<QueueWait>();
        assert_eq!(read("fixed:60"), Ok(QueueWait::Fixed(60.0)));
        assert_eq!(read("exponential:600"), Ok(QueueWait::Exponential { mean: 600.0, seed: 1 }));
        assert_eq!(read("exponential:600:7"), Ok(QueueWait::Exponential { mean: 600.0, seed: 7 }));
        for wrong in
            ["", "60", "fixed", "fixed:-1", "fixed:inf", "exponential:0", "exponential:1:x", "a:1"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_waits() {
        let waits = |seed| {
            let mut next = QueueWait::Exponential { mean: 100.0, seed }.waits();
            (0..1000).map(|_| next()).collect::<Vec<f64>>()
        };
        assert_eq!(waits(3), waits(3));
        assert_ne!(waits(3), waits(4));
        let mean = waits(3).iter().sum::<f64>() / 1000.0;
        assert!((90.0..110.0).contains(&mean), "{mean}");
    }
}
