//! The policy laboratory: traces of jobs, replayed through the plugins and the scheduler of a configuration.
//!
//! The replay itself is `jobtap_core::simulation`, which does no I/O. Here is what surrounds it.
//!
//! | file | what it holds |
//! |---|---|
//! | `source` | traces from files and from the generator |
//! | `accounting` | lists of jobs from Slurm's and Flux's accounting |
//! | `generate` | traces from named distributions |
//! | `machine` | the machine of a simulation |
//! | `run` | one policy on one trace |
//! | `scenario` | failures, maintenance and bursts that are added to a trace |
//! | `diff` | what a change makes worse, by thresholds |
//! | `series` | utilisation and queue length over time |
//! | `summary` | the figures as JSON and for a terminal |
//! | `report` `chart` | the figures as one HTML page with charts |

mod accounting;
mod chart;
pub(crate) mod diff;
pub(crate) mod generate;
pub(crate) mod machine;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod scenario;
mod series;
pub(crate) mod source;
pub(crate) mod summary;

/// Why a simulation can't be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SimulateError {
    /// The trace can't be read.
    #[error("can't read the trace {name}: {reason}")]
    Read {
        /// The file.
        name: String,
        /// The error of the system.
        reason: std::io::Error,
    },
    /// A line of the trace is broken, and `--strict` was given.
    #[error("{name}: line {line}: {reason}")]
    Broken {
        /// The file.
        name: String,
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The trace has no job that can be replayed.
    #[error("{0}: no job can be replayed: {1}")]
    Empty(String, String),
    /// A pipe, and more than one policy.
    #[error("{0} can be read only once, but each policy reads the trace: save it in a file")]
    Once(String),
    /// An option has a value that can't be used.
    #[error("{0}")]
    Option(String),
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
        reason: String,
    },
}
