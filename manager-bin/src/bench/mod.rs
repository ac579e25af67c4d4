//! What a job costs, measured: the figures that a site asks for before it trusts a manager with a
//! million jobs, on its own machine.
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
    /// No place for the state.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// The benchmark's own configuration is refused, by a plugin that wants another one.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The manager doesn't start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The linked plugins contradict each other.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The engine doesn't start.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// No connection to the manager.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The manager refuses a job, through a plugin that is not content with it.
    #[error("a job of the benchmark was refused: {0}")]
    Refused(String),
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record that the store can't hold.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The benchmark's own jobspec.
    #[error(transparent)]
    Jobspec(#[from] JobspecError),
    /// The system doesn't tell what the process uses.
    #[error("can't read what the process uses: {0}")]
    Usage(#[from] std::io::Error),
    /// After a restart something else was there than before.
    #[error("{what}: {found} jobs instead of {expected}")]
    Lost {
        /// What was counted.
        what: &'static str,
        /// How many there must be.
        expected: u64,
        /// How many there are.
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

/// One host of this name with pretended cores.
fn config(host: &str) -> Value {
    let hosts = json!({ "hosts": host, "cores": format!("0-{}", CORES - 1) });
    json!({ "resource": { "noverify": true, "config": [hosts] } })
}

/// A simulated job of one core that runs this long; zero is until it is cancelled. `number` makes
/// its text one of its own, as those of users are.
fn jobspec(run_duration: f64, cores: u64, number: u64) -> Result<Jobspec, JobspecError> {
    let builder = JobspecBuilder::new(["app".to_owned(), format!("--input=case-{number}.dat")])
        .ntasks(cores)
        .duration(run_duration * 60.0)
        .cwd("/home/user/project/runs");
    let mut value = builder.to_value();
    if let Some(system) = value.pointer_mut("/attributes/system").and_then(Value::as_object_mut) {
        system.insert("exec".to_owned(), json!({ "test": { "run_duration": run_duration } }));
        let environment =
            (0..40).map(|n| (format!("VARIABLE_{n}"), "/a/value/of/usual/length".into()));
        system.insert("environment".to_owned(), Value::Object(environment.collect()));
    }
    Jobspec::from_value(value)
}

/// Bytes of memory that this process has resident.
///
/// # Errors
/// When the system doesn't tell.
fn resident() -> std::io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| std::io::Error::other(format!("/proc/self/statm: {text}")))?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// Seconds of processor time that this process has used.
///
/// # Errors
/// When the system doesn't tell.
fn cpu_seconds() -> std::io::Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let unreadable = || std::io::Error::other(format!("/proc/self/stat: {text}"));
    // The name, in parentheses, may contain spaces.
    let (_, fields) = text.rsplit_once(") ").ok_or_else(unreadable)?;
    let ticks = fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>());
    let ticks: u64 = ticks.sum::<Result<u64, _>>().map_err(|_| unreadable())?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
