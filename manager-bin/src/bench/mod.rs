//! `jobtap bench`: what a job costs in time and memory on the site's own machine, and on that of a developer.
//!
//! The command prints figures of this binary, or of two binaries side by side. `docs/src/performance.md` says what
//! each figure means.
//!
//! | file | what it does |
//! |---|---|
//! | `measures` | the table of measurements, their sizes, and the room that they need |
//! | `runner` | makes the measurements, each in a process of its own, and joins their rounds |
//! | `pair` | runs two binaries in turns and compares their figures |
//! | `process` | the processes that measure, and the manager that they measure |
//! | `figures` | what is found, and its JSON form |
//! | `connection`, `cpu`, `offline`, `fill`, `plugins` | what several measurements use |
//! | the others | one measurement each |

mod callbacks;
mod clients;
mod connection;
mod cpu;
pub(crate) mod figures;
mod fill;
pub(crate) mod measures;
mod memory;
mod offline;
pub(crate) mod pair;
mod plugins;
pub(crate) mod process;
mod queue;
mod restart;
pub(crate) mod roles;
mod run;
pub(crate) mod runner;
mod stages;
mod submit;
mod throughput;

use jobtap_core::engine::{RequestError, StartError as EngineError};
use jobtap_core::host::RegistryError;
use jobtap_core::jobspec::{Jobspec, JobspecBuilder, JobspecError};
use serde_json::{Value, json};

use crate::client::{ClientError, RpcError};
use crate::daemon::StartError;
use crate::daemon::config::ConfigError;
use crate::daemon::resources::hostname;
use crate::daemon::statedir::StateDirError;
use crate::store::{KeyError, StoreError};

/// Cores of the host that the simulated jobs run on.
const CORES: u32 = 64;

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
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
    /// The system refuses something, such as a process or a file.
    #[error("the system refuses what the measurement needs: {0}")]
    System(#[from] std::io::Error),
    /// The number of jobs differs from what was submitted.
    #[error("{found} jobs are {what} instead of {expected}")]
    Lost {
        /// Their state.
        what: &'static str,
        /// The expected number.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl BenchError {
    fn other(text: impl Into<String>) -> Self {
        Self::Other(text.into())
    }
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

/// Returns the configuration of this host with pretended cores.
fn one_host() -> Value {
    cluster(&hostname())
}

/// Returns the configuration of these hosts, each with pretended cores.
fn cluster(hosts: &str) -> Value {
    let hosts = json!({ "hosts": hosts, "cores": format!("0-{}", CORES - 1) });
    json!({ "resource": { "noverify": true, "config": [hosts] } })
}

/// Returns the jobspec of [`document`].
fn jobspec(run_duration: f64, cores: u64, number: u64) -> Result<Jobspec, JobspecError> {
    Jobspec::from_value(document(run_duration, cores, number))
}

/// Returns a simulated job of so many cores that runs this long; with zero, until it is cancelled. `number` makes
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

/// Returns the resident memory of a process in bytes. `process` is its id, or `self`.
///
/// # Errors
/// When the system doesn't report it.
fn resident_of(process: &str) -> std::io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm"))?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages =
        pages.ok_or_else(|| std::io::Error::other(format!("/proc/{process}/statm: {text}")))?;
    Ok(pages * rustix::param::page_size() as u64)
}
