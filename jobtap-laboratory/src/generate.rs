//! Traces from named distributions. The same seed gives the same jobs on every machine.

use std::fmt;
use std::str::FromStr;

use chacha20::ChaCha8Rng;
use jobtap_core::simulation::TraceJob;
use jobtap_core::suggest::nearest;
use rand::{RngExt, SeedableRng};
use rand_distr::{
    Distribution, Exp, ExpError, Gamma, GammaError, LogNormal, NormalError, Pareto, ParetoError,
    Weibull, WeibullError, Zipf, ZipfError,
};
use thiserror::Error;

/// The workload that `--generate` describes: `KEY=VALUE,..`.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    jobs: u64,
    seed: u64,
    /// Seconds between submissions.
    arrival: Law,
    /// Run times in seconds.
    run: Law,
    /// Cores.
    size: Law,
    /// Numbers of users.
    user: Law,
    /// Time limits, as multiples of run times.
    limit: Law,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            jobs: 10_000,
            seed: 1,
            arrival: Law::Exponential { mean: 60.0 },
            run: Law::LogNormal { mu: 6.0, sigma: 1.5 },
            size: Law::Powers { low: 0, high: 4 },
            user: Law::Zipf { numbers: 20.0, exponent: 1.0 },
            limit: Law::Uniform { low: 1.0, high: 3.0 },
        }
    }
}

impl Workload {
    /// How the text of a workload is written, for a help text.
    pub const HELP: &str = "\
Keys: jobs, seed, arrival (seconds between submissions), run (seconds), size (cores), user, limit (times the run
time). Distributions: fixed:X, uniform:LOW:HIGH, exponential:MEAN, lognormal:MU:SIGMA, weibull:SCALE:SHAPE,
gamma:SHAPE:SCALE, pareto:SCALE:SHAPE, zipf:N:EXPONENT, powers:LOW:HIGH (2^LOW to 2^HIGH).
Default: jobs=10000,seed=1,arrival=exponential:60,run=lognormal:6:1.5,size=powers:0:4,user=zipf:20:1,
limit=uniform:1:3";
}

/// The most jobs of a workload: what a simulation does in a few hours.
const MOST_JOBS: u64 = 1_000_000_000;

/// A text that describes no workload.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// A part has no key.
    #[error("'{0}' is not KEY=VALUE")]
    NoPair(String),
    /// No key is like this one.
    #[error("unknown key '{0}'")]
    UnknownKey(String),
    /// A key that is like a known one.
    #[error("unknown key '{key}': did you mean {meant}?")]
    MisspelledKey {
        /// What was written.
        key: String,
        /// The known key.
        meant: &'static str,
    },
    /// More jobs than can be simulated.
    #[error("jobs={0}: at most {MOST_JOBS} are possible")]
    TooManyJobs(u64),
    /// The value of a key.
    #[error("{key}={value}: {fault}")]
    Value {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What is wrong with it.
        fault: ValueFault,
    },
}

/// A text that is no value of a key.
#[derive(Debug, Error)]
pub enum ValueFault {
    /// The key takes a number.
    #[error("not a whole number")]
    NoNumber,
    /// The key takes a distribution.
    #[error(transparent)]
    Law(#[from] LawError),
}

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let mut workload = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) =
                part.split_once('=').ok_or_else(|| WorkloadError::NoPair(part.to_owned()))?;
            let wrong = |fault| {
                let (key, value) = (key.to_owned(), value.to_owned());
                WorkloadError::Value { key, value, fault }
            };
            let number = || value.parse().map_err(|_| wrong(ValueFault::NoNumber));
            let law = || value.parse().map_err(|error| wrong(ValueFault::Law(error)));
            match key {
                "jobs" => match number()? {
                    jobs if jobs > MOST_JOBS => {
                        return Err(WorkloadError::TooManyJobs(jobs));
                    }
                    jobs => workload.jobs = jobs,
                },
                "seed" => workload.seed = number()?,
                "arrival" => workload.arrival = law()?,
                "run" => workload.run = law()?,
                "size" => workload.size = law()?,
                "user" => workload.user = law()?,
                "limit" => workload.limit = law()?,
                _ => {
                    let keys = ["jobs", "seed", "arrival", "run", "size", "user", "limit"];
                    let key = key.to_owned();
                    return Err(match nearest(&key, keys) {
                        Some(meant) => WorkloadError::MisspelledKey { key, meant },
                        None => WorkloadError::UnknownKey(key),
                    });
                }
            }
        }
        Ok(workload)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { jobs, seed, arrival, run, size, user, limit } = self;
        write!(
            f,
            "jobs={jobs},seed={seed},arrival={arrival},run={run},size={size},user={user},limit={limit}"
        )
    }
}

/// A distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Law {
    Fixed { value: f64 },
    Uniform { low: f64, high: f64 },
    Exponential { mean: f64 },
    LogNormal { mu: f64, sigma: f64 },
    Weibull { scale: f64, shape: f64 },
    Gamma { shape: f64, scale: f64 },
    Pareto { scale: f64, shape: f64 },
    Zipf { numbers: f64, exponent: f64 },
    Powers { low: u32, high: u32 },
}

/// A text that is no distribution.
#[derive(Debug, Error)]
pub enum LawError {
    /// No distribution has this name and this number of parameters.
    #[error("no known distribution with so many parameters, see --help")]
    Unknown,
    /// A parameter that can't be read.
    #[error("a parameter is no number")]
    NoNumber,
    /// A parameter with which there is no such distribution.
    #[error("a parameter is out of range")]
    OutOfRange,
    /// The parameters of `exponential`.
    #[error(transparent)]
    Exponential(#[from] ExpError),
    /// The parameters of `lognormal`.
    #[error(transparent)]
    LogNormal(#[from] NormalError),
    /// The parameters of `weibull`.
    #[error(transparent)]
    Weibull(#[from] WeibullError),
    /// The parameters of `gamma`.
    #[error(transparent)]
    Gamma(#[from] GammaError),
    /// The parameters of `pareto`.
    #[error(transparent)]
    Pareto(#[from] ParetoError),
    /// The parameters of `zipf`.
    #[error(transparent)]
    Zipf(#[from] ZipfError),
}

impl FromStr for Law {
    type Err = LawError;

    fn from_str(text: &str) -> Result<Self, LawError> {
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let numbers = words.map(str::parse::<f64>).collect::<Result<Vec<_>, _>>();
        let numbers = numbers.map_err(|_| LawError::NoNumber)?;
        let law = match (name, numbers.as_slice()) {
            ("fixed", &[value]) => Self::Fixed { value },
            ("uniform", &[low, high]) => Self::Uniform { low, high },
            ("exponential", &[mean]) => Self::Exponential { mean },
            ("lognormal", &[mu, sigma]) => Self::LogNormal { mu, sigma },
            ("weibull", &[scale, shape]) => Self::Weibull { scale, shape },
            ("gamma", &[shape, scale]) => Self::Gamma { shape, scale },
            ("pareto", &[scale, shape]) => Self::Pareto { scale, shape },
            ("zipf", &[numbers, exponent]) => Self::Zipf { numbers, exponent },
            ("powers", &[low, high]) if low >= 0.0 && low <= high && high <= 32.0 => {
                Self::Powers { low: low as u32, high: high as u32 }
            }
            _ => return Err(LawError::Unknown),
        };
        law.sampler().map(|_| law)
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed { value } => write!(f, "fixed:{value}"),
            Self::Uniform { low, high } => write!(f, "uniform:{low}:{high}"),
            Self::Exponential { mean } => write!(f, "exponential:{mean}"),
            Self::LogNormal { mu, sigma } => write!(f, "lognormal:{mu}:{sigma}"),
            Self::Weibull { scale, shape } => write!(f, "weibull:{scale}:{shape}"),
            Self::Gamma { shape, scale } => write!(f, "gamma:{shape}:{scale}"),
            Self::Pareto { scale, shape } => write!(f, "pareto:{scale}:{shape}"),
            Self::Zipf { numbers, exponent } => write!(f, "zipf:{numbers}:{exponent}"),
            Self::Powers { low, high } => write!(f, "powers:{low}:{high}"),
        }
    }
}

/// A distribution, ready to draw from.
#[derive(Debug, Clone)]
enum Sampler {
    Fixed(f64),
    Uniform(f64, f64),
    Exponential(Exp<f64>),
    LogNormal(LogNormal<f64>),
    Weibull(Weibull<f64>),
    Gamma(Gamma<f64>),
    Pareto(Pareto<f64>),
    Zipf(Zipf<f64>),
    Powers(u32, u32),
}

impl Law {
    /// # Errors
    /// A parameter is out of range.
    fn sampler(self) -> Result<Sampler, LawError> {
        Ok(match self {
            Self::Fixed { value } if value >= 0.0 && value.is_finite() => Sampler::Fixed(value),
            Self::Uniform { low, high } if 0.0 <= low && low <= high && high.is_finite() => {
                Sampler::Uniform(low, high)
            }
            Self::Exponential { mean } if mean > 0.0 => {
                Sampler::Exponential(Exp::new(mean.recip())?)
            }
            Self::LogNormal { mu, sigma } if sigma >= 0.0 => {
                Sampler::LogNormal(LogNormal::new(mu, sigma)?)
            }
            Self::Weibull { scale, shape } => Sampler::Weibull(Weibull::new(scale, shape)?),
            Self::Gamma { shape, scale } => Sampler::Gamma(Gamma::new(shape, scale)?),
            Self::Pareto { scale, shape } => Sampler::Pareto(Pareto::new(scale, shape)?),
            Self::Zipf { numbers, exponent } => Sampler::Zipf(Zipf::new(numbers, exponent)?),
            Self::Powers { low, high } => Sampler::Powers(low, high),
            _ => return Err(LawError::OutOfRange),
        })
    }
}

impl Sampler {
    fn draw(&self, random: &mut ChaCha8Rng) -> f64 {
        let value = match self {
            Self::Fixed(value) => *value,
            Self::Uniform(low, high) => random.random::<f64>().mul_add(high - low, *low),
            Self::Exponential(law) => law.sample(random),
            Self::LogNormal(law) => law.sample(random),
            Self::Weibull(law) => law.sample(random),
            Self::Gamma(law) => law.sample(random),
            Self::Pareto(law) => law.sample(random),
            Self::Zipf(law) => law.sample(random),
            Self::Powers(low, high) => 2f64.powi(random.random_range(*low..=*high).cast_signed()),
        };
        // At most a century: heavy tails are unbounded, but job ids are not.
        value.clamp(0.0, 3e9)
    }
}

impl Workload {
    /// Starts to generate the workload.
    pub fn start(&self) -> Generator {
        // The parameters were checked when they were parsed; the defaults are in range.
        let sampler = |law: Law| law.sampler().unwrap_or(Sampler::Fixed(1.0));
        Generator {
            jobs: self.jobs,
            made: 0,
            now: 0.0,
            random: ChaCha8Rng::seed_from_u64(self.seed),
            arrival: sampler(self.arrival),
            run: sampler(self.run),
            size: sampler(self.size),
            user: sampler(self.user),
            limit: sampler(self.limit),
        }
    }
}

/// A workload that is being generated.
#[derive(Debug)]
pub struct Generator {
    jobs: u64,
    made: u64,
    now: f64,
    random: ChaCha8Rng,
    arrival: Sampler,
    run: Sampler,
    size: Sampler,
    user: Sampler,
    limit: Sampler,
}

impl Generator {
    /// The number of jobs of the workload.
    pub fn jobs(&self) -> u64 {
        self.jobs
    }

    /// The next job.
    pub fn next(&mut self) -> Option<TraceJob> {
        if self.made == self.jobs {
            return None;
        }
        self.made += 1;
        let random = &mut self.random;
        self.now += self.arrival.draw(random);
        let run_time = self.run.draw(random).round().max(1.0);
        let cores = self.size.draw(random).round().max(1.0) as u64;
        let user = self.user.draw(random).round() as u32;
        let limit = (run_time * self.limit.draw(random)).ceil().max(1.0);
        Some(TraceJob {
            submit: self.now.round(),
            cores,
            user,
            time_limit: Some(limit),
            ..TraceJob::new(self.made, run_time)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(text: &str) -> Vec<TraceJob> {
        let mut generator = text.parse::<Workload>().unwrap().start();
        std::iter::from_fn(|| generator.next()).collect()
    }

    #[test]
    fn a_workload_that_would_never_end_is_refused() {
        let refused = |text: &str| text.parse::<Workload>().unwrap_err().to_string();
        assert_eq!(
            refused("jobs=18446744073709551615"),
            "jobs=18446744073709551615: at most 1000000000 are possible"
        );
        assert_eq!(
            refused("jobs=99999999999999999999"),
            "jobs=99999999999999999999: not a whole number"
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_jobs() {
        let text = "jobs=200,run=weibull:100:0.7,size=powers:0:5,user=zipf:9:1.2,arrival=gamma:2:3";
        assert_eq!(jobs(text), jobs(text));
        assert_ne!(jobs(text), jobs(&format!("{text},seed=2")));
        // The same on every machine.
        let first = jobs("jobs=3,seed=7");
        let short: Vec<_> =
            first.iter().map(|job| (job.submit, job.run_time, job.cores, job.user)).collect();
        assert_eq!(short, [(9.0, 51.0, 2, 1), (28.0, 152.0, 16, 1), (35.0, 330.0, 2, 6)]);
    }

    #[test]
    fn distributions_have_their_means() {
        let of = |law: &str| {
            let sampler = law.parse::<Law>().unwrap().sampler().unwrap();
            let mut random = ChaCha8Rng::seed_from_u64(3);
            (0..40_000).map(|_| sampler.draw(&mut random)).sum::<f64>() / 40_000.0
        };
        for (law, mean) in [
            ("fixed:5", 5.0),
            ("uniform:10:30", 20.0),
            ("exponential:60", 60.0),
            ("lognormal:2:0.5", (2.0f64 + 0.125).exp()),
            ("weibull:50:2", 44.311),
            ("gamma:2:30", 60.0),
            ("pareto:10:3", 15.0),
            ("powers:0:3", 3.75),
        ] {
            let found = of(law);
            assert!((found / mean - 1.0).abs() < 0.05, "{law}: {found} instead of {mean}");
        }
    }

    #[test]
    fn a_description_with_a_mistake_is_refused() {
        let error = |text: &str| text.parse::<Workload>().unwrap_err().to_string();
        assert_eq!(error("job=3"), "unknown key 'job': did you mean jobs?");
        assert_eq!(error("jobs=many"), "jobs=many: not a whole number");
        assert_eq!(error("run"), "'run' is not KEY=VALUE");
        assert!(error("run=normal:1:2").contains("no known distribution"));
        assert!(error("run=uniform:3:2").contains("out of range"));
        assert!(error("run=uniform:x:2").contains("no number"));
        assert_eq!(error("run=lognormal:1:-2"), "run=lognormal:1:-2: a parameter is out of range");
    }

    #[test]
    fn a_description_is_printed_as_it_is_read() {
        let text = "jobs=5,seed=9,arrival=exponential:10,run=pareto:3:2,size=fixed:2,user=fixed:1,limit=uniform:1:2";
        assert_eq!(text.parse::<Workload>().unwrap().to_string(), text);
    }
}
