//! Why a measurement, or a comparison of two binaries, can't be made.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use jobtap_core::engine::{RequestError, StartError as EngineError};
use jobtap_core::host::RegistryError;
use jobtap_core::jobspec::JobspecError;

use super::figures::{VERSION, bytes, count};
use crate::client::{ClientError, RpcError};
use crate::daemon::StartError;
use crate::daemon::config::ConfigError;
use crate::daemon::statedir::StateDirError;
use crate::exec::nodes::{IdentityError, NodeError};
use crate::files::TemporaryDirError;
use crate::store::{KeyError, StoreError};

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The identity of an instance of several nodes can't be made.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Nodes can't be played.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The state directory can't be made.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// The directory of the measurements can't be made.
    #[error(transparent)]
    Directory(#[from] TemporaryDirError),
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
    /// A client's request is refused; most likely a plugin refuses a job of the benchmark.
    #[error("a job of the benchmark was refused: {0}")]
    Rpc(#[from] RpcError),
    /// The engine refuses a request.
    #[error("a job of the benchmark was refused: {0}")]
    Request(#[from] RequestError),
    /// The manager answers with this line, which refuses a request.
    #[error("a job of the benchmark was refused: {0}")]
    Answer(String),
    /// The engine doesn't answer a submission.
    #[error("a submission was not answered")]
    NoAnswer,
    /// The manager ends the connection.
    #[error("the manager has closed the connection")]
    Closed,
    /// A message between the processes can't be written or read.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A job that was measured lacks an event.
    #[error("a job that was measured has no event {0}")]
    NoEvent(&'static str),
    /// The request of a submission, in which ids are replaced, has none of them.
    #[error("the template of submissions is malformed")]
    Template,
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
    System(#[from] io::Error),
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
    /// The shadow whose calls are measured was stopped, for this reason.
    #[error("the shadow was stopped: {0}")]
    ShadowStopped(String),
    /// A thread of the measurement has panicked.
    #[error("{0} has panicked")]
    Panicked(&'static str),
    /// The manager can't go on, in its own words.
    #[error("{0}")]
    Manager(String),
    /// The manager doesn't become ready. It has written the reason to standard error.
    #[error("the manager that is measured ended: {0}")]
    NotReady(ExitStatus),
    /// The manager doesn't stop when it is asked to.
    #[error("the manager that was measured didn't end; it is killed")]
    NoEnd,
    /// The process that fills the store fails. It has written the reason to standard error.
    #[error("the store could not be filled: {0}")]
    NotFilled(ExitStatus),
    /// The arguments of a process are not those of one of the kinds.
    #[error("usage: {0}")]
    Usage(String),
    /// The measurement that a process is to make is not in the table.
    #[error("there is no measurement {name} of {jobs} jobs")]
    NoMeasurement {
        /// Its name.
        name: String,
        /// The number of jobs, as it was given.
        jobs: String,
    },
    /// The process of a measurement fails.
    #[error("{measurement} of {} jobs: {}", count(*jobs), said.as_deref().unwrap_or("its process was ended"))]
    Failed {
        /// The name of the measurement.
        measurement: &'static str,
        /// The number of jobs.
        jobs: u64,
        /// What it printed to standard error, if anything.
        said: Option<String>,
    },
    /// No socket can be made in the directory for temporary files.
    #[error(
        "the path {} is too long for the socket of a manager: set TMPDIR to a directory with a shorter path",
        .0.display()
    )]
    LongPath(PathBuf),
    /// The measurement would fill the disk.
    #[error(
        "{measurement} of {} jobs needs about {} in {}, which has {} free: set TMPDIR to another directory, \
         or measure fewer --jobs",
        count(*jobs), bytes(*needed), place.display(), bytes(*free)
    )]
    NoDisk {
        /// The name of the measurement.
        measurement: &'static str,
        /// The number of jobs.
        jobs: u64,
        /// The bytes that it needs.
        needed: u64,
        /// Where it needs them.
        place: PathBuf,
        /// The bytes that are free there.
        free: u64,
    },
    /// The measurement would fill the memory.
    #[error(
        "{measurement} of {} jobs needs about {} of memory, and {} is available: measure fewer --jobs",
        count(*jobs), bytes(*needed), bytes(*available)
    )]
    NoMemory {
        /// The name of the measurement.
        measurement: &'static str,
        /// The number of jobs.
        jobs: u64,
        /// The bytes that it needs.
        needed: u64,
        /// The bytes that are available.
        available: u64,
    },
    /// A binary that is compared can't be run.
    #[error("can't run {}: {error}", binary.display())]
    NotRun {
        /// The binary.
        binary: PathBuf,
        /// Why not.
        error: Box<BenchError>,
    },
    /// This binary has measured nothing.
    #[error(transparent)]
    NoReport(#[from] NoReport),
}

/// Why the output of a binary is no report of this form.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoReport {
    /// The binary failed; the last line that it printed to stderr.
    #[error("{0}")]
    Failed(String),
    #[error("it failed without a message")]
    FailedSilently,
    #[error("it prints another form of figures: {0}")]
    Unreadable(serde_json::Error),
    #[error("it prints form {0} of figures, and this is form {VERSION}")]
    OtherForm(u32),
}
