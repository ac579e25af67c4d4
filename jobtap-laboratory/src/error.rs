//! Why a simulation can't be made. Each text names the file, or the policy.

use std::io;
use std::path::PathBuf;

use jobtap_core::allocation::TableError;
use jobtap_core::engine::StartError;
use jobtap_core::simulation::SwfError;
use jobtap_daemon::daemon::resources::ResourceError;
use jobtap_daemon::linked::LinkedError;
use thiserror::Error;

use crate::recorded::RecordedError;

/// Why a simulation can't be made.
#[derive(Debug, Error)]
pub enum SimulateError {
    /// The trace can't be read.
    #[error("can't read the trace {name}: {reason}")]
    Read {
        /// The file.
        name: String,
        /// The error of the system.
        reason: io::Error,
    },
    /// A line of the trace is broken, and `--strict` was given.
    #[error("{name}: line {line}: {fault}")]
    Broken {
        /// The file.
        name: String,
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        fault: LineFault,
    },
    /// A list or a dump has broken jobs, and `--strict` was given.
    #[error("{name}: {first}")]
    BrokenList {
        /// The file.
        name: String,
        /// The first broken one, with its place.
        first: String,
    },
    /// The file has too many lines without a job to be a trace.
    #[error("{name}: line {line}: {most} lines in a row have no job that can be simulated")]
    Barren {
        /// The file.
        name: String,
        /// The last line that was read, from 1.
        line: u64,
        /// How many lines in a row may have no job.
        most: u64,
    },
    /// The file is no list of jobs.
    #[error("{name}: {fault}")]
    List {
        /// The file.
        name: String,
        /// Why.
        fault: ListFault,
    },
    /// The jobs that a manager has recorded can't be read.
    #[error(transparent)]
    Recorded(#[from] RecordedError),
    /// The trace is empty.
    #[error("{0}: no job can be replayed: it is empty")]
    Empty(String),
    /// The trace has no job that can be replayed.
    #[error("{name}: no job can be replayed: {}", remarks.join("; "))]
    NoJobs {
        /// The file.
        name: String,
        /// What was left out.
        remarks: Vec<String>,
    },
    /// The trace is a pipe, and there is more than one policy.
    #[error("{0} can be read only once, but each policy reads the trace: save it in a file")]
    Once(String),
    /// The file of `--what-if` can't be used.
    #[error("--what-if={}: {fault}", path.display())]
    Scenario {
        /// The file.
        path: PathBuf,
        /// Why.
        fault: ScenarioFault,
    },
    /// The configuration has a mistake in its tables `[[allocation]]`.
    #[error(transparent)]
    Tables(#[from] TableError),
    /// The configuration has a mistake in its resources.
    #[error(transparent)]
    Resources(#[from] ResourceError),
    /// The machine isn't known.
    #[error(
        "the trace doesn't say how large the machine is: use --nodes, or [resource] of the configuration"
    )]
    Machine,
    /// The manager doesn't start with a configuration.
    #[error("{policy}: {reason}")]
    Policy {
        /// Its name.
        policy: String,
        /// Why.
        reason: StartError,
    },
    /// The plugins of this binary can't be used together.
    #[error("{policy}: {reason}")]
    Linked {
        /// The policy.
        policy: String,
        /// Why.
        reason: LinkedError,
    },
}

/// A line that is no job of a trace.
#[derive(Debug, Error)]
pub enum LineFault {
    /// It isn't read to its end.
    #[error("longer than {most} bytes")]
    TooLong {
        /// The longest line that is read.
        most: u64,
    },
    /// It isn't SWF.
    #[error(transparent)]
    Swf(#[from] SwfError),
}

/// A text that is no list of jobs.
#[derive(Debug, Error)]
pub enum ListFault {
    /// It has no heading.
    #[error("it is empty")]
    Empty,
    /// A column that is needed to replay jobs is missing; its possible names.
    #[error("there is no column {}", .0.join(" or "))]
    NoColumn(&'static [&'static str]),
    /// It is what `sacct` prints for people, or for programs of another kind.
    #[error("it is {0} of sacct: write the trace with sacct --parsable2 (-P) and its heading")]
    Form(&'static str),
    /// It isn't the JSON of a list.
    #[error("it is no output of flux jobs --json: {0}")]
    NoJson(serde_json::Error),
}

/// A file that is no scenario.
#[derive(Debug, Error)]
pub enum ScenarioFault {
    /// It can't be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is no TOML, or has an unknown key.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// A burst without cores.
    #[error("a burst needs cores")]
    NoCores,
    /// A burst that is too large.
    #[error("a burst has at most {most} jobs")]
    TooManyJobs {
        /// The most jobs of a burst.
        most: u64,
    },
}
