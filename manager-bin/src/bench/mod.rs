//! `jobtap bench`: what a job costs in time and memory on the site's own machine.
//!
//! | part | what is measured |
//! |---|---|
//! | [`throughput`] | from submission over the socket to INACTIVE, every event durable |
//! | [`memory`] | what a pending job takes in the manager's memory |
//! | [`restart`] | how long a start takes with many jobs in the store |

pub mod memory;
pub mod offline;
pub mod restart;
pub mod throughput;

use jobtap_core::engine::{RequestError, StartError as EngineError};
use jobtap_core::host::RegistryError;
use jobtap_core::jobspec::{Jobspec, JobspecBuilder, JobspecError};
use serde_json::{Value, json};

use crate::client::{ClientError, RpcError};
use crate::daemon::StartError;
use crate::daemon::config::ConfigError;
use crate::daemon::statedir::StateDirError;
use crate::store::{KeyError, StoreError};

/// Cores of the host that the simulated jobs run on.
const CORES: u32 = 64;

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The state directory can't be made.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// A plugin refuses the benchmark's configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The manager doesn't start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The orders of the linked plugins contradict each other.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The engine doesn't start.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The manager can't be connected to.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A plugin refuses a job of the benchmark.
    #[error("a job of the benchmark was refused: {0}")]
    Refused(String),
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store can't hold a record.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The benchmark's jobspec is malformed.
    #[error(transparent)]
    Jobspec(#[from] JobspecError),
    /// The system doesn't report what the process uses.
    #[error("can't read what the process uses: {0}")]
    Usage(#[from] std::io::Error),
    /// After a restart the number of jobs differs.
    #[error("{what}: {found} jobs instead of {expected}")]
    Lost {
        /// What was counted.
        what: &'static str,
        /// The expected number.
        expected: u64,
        /// The number found.
        found: u64,
    },
}

impl From<RpcError> for BenchError {
    fn from(error: RpcError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<RequestError> for BenchError {
    fn from(error: RequestError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// Returns the configuration of one host with pretended cores.
fn config(host: &str) -> Value {
    let hosts = json!({ "hosts": host, "cores": format!("0-{}", CORES - 1) });
    json!({ "resource": { "noverify": true, "config": [hosts] } })
}

/// Returns the jobspec of [`document`].
fn jobspec(run_duration: f64, cores: u64, number: u64) -> Result<Jobspec, JobspecError> {
    Jobspec::from_value(document(run_duration, cores, number))
}

/// Returns a simulated job of one core that runs this long; with zero, until it is cancelled. `number` makes
/// its text different from others, as those of users are.
fn document(run_duration: f64, cores: u64, number: u64) -> Value {
    let builder = JobspecBuilder::new(["app".to_owned(), format!("--input=case-{number}.dat")])
        .ntasks(cores)
        .duration(run_duration * 60.0)
        .cwd("/home/user/project/runs");
    let mut value = builder.to_value();
    if let Some(system) = value.pointer_mut("/attributes/system").and_then(Value::as_object_mut) {
        system.insert(
            "exec".to_owned(),
            json!({ "test": { "run_duration": format!("{run_duration}s") } }),
        );
        let environment =
            (0..40).map(|n| (format!("VARIABLE_{n}"), "/a/value/of/usual/length".into()));
        system.insert("environment".to_owned(), Value::Object(environment.collect()));
    }
    value
}

/// Returns the resident memory of this process in bytes.
///
/// # Errors
/// When the system doesn't report it.
fn resident() -> std::io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| std::io::Error::other(format!("/proc/self/statm: {text}")))?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// Returns the processor time that this process has used, in seconds.
///
/// # Errors
/// When the system doesn't report it.
fn cpu_seconds() -> std::io::Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let unreadable = || std::io::Error::other(format!("/proc/self/stat: {text}"));
    // The name, in parentheses, may contain spaces.
    let (_, fields) = text.rsplit_once(") ").ok_or_else(unreadable)?;
    let ticks = fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>());
    let ticks: u64 = ticks.sum::<Result<u64, _>>().map_err(|_| unreadable())?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
