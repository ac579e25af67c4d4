//! The policy laboratory: jobs of a trace, or those that a manager has recorded, are put through the plugins and the
//! scheduler of a configuration, and the results are compared.
//!
//! What `jobtap simulate`, `jobtap policy diff` and `jobtap replay` do, without their command line. The simulation and
//! the replay themselves are in `jobtap_core`, which does no I/O. This crate contains what surrounds them.
//!
//! | file | what it holds |
//! |---|---|
//! | `policy` | a configuration to try |
//! | `source` | traces from files and from the generator |
//! | `accounting` | lists of jobs from Slurm's and Flux's accounting |
//! | `recorded` | the jobs in a dump or a state directory |
//! | `generate` | traces from named distributions |
//! | `machine` | the machine of a simulation |
//! | `wait` | how long allocations on demand wait |
//! | `scenario` | failures, maintenance and bursts that are added to a trace |
//! | `run` | one policy on one trace |
//! | `replay` | recorded jobs, given to one plugin |
//! | `diff` | what a change makes worse than thresholds allow |
//! | `series` | utilization and queue length over time |
//! | `summary` | the figures as JSON and for a terminal |
//! | `report` `chart` | the figures as one HTML page with charts |
//! | `error` | why a simulation can't be made |
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use jobtap_core::simulation::Rules;
//! use jobtap_laboratory::{Experiment, Origin, Policy, QueueWait, Scenario, Summary};
//!
//! let experiment = Experiment {
//!     origin: Origin::Generated(Box::new("jobs=100,seed=7".parse()?)),
//!     rules: Rules::default(),
//!     strict: false,
//!     shape: Some("4x8".parse()?),
//!     scenario: Scenario::default(),
//!     queue_wait: QueueWait::None,
//!     speed: None,
//! };
//! let policy = Policy::read(&[], &[])?;
//! let run = experiment.run(&policy, &AtomicBool::new(false), |_| {})?;
//! let summary = Summary::from_runs(experiment.origin.name(), &[run]);
//! assert_eq!(summary.policies[0].metrics.submitted, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accounting;
mod chart;
mod diff;
mod error;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod foreign;
mod generate;
mod machine;
mod policy;
mod recorded;
mod replay;
mod report;
mod run;
mod scenario;
mod series;
mod source;
mod summary;
mod wait;

pub use diff::{Difference, Figure, Thresholds, Violation};
pub use error::{LineFault, ListFault, ScenarioFault, SimulateError};
pub use generate::{LawError, ValueFault, Workload, WorkloadError};
pub use machine::{NoShape, Shape};
pub use policy::Policy;
pub use recorded::RecordedError;
pub use replay::{ReplayError, replay};
pub use report::report_page;
pub use run::{Experiment, PolicyRun, Progress};
pub use scenario::Scenario;
pub use series::Series;
pub use source::Origin;
pub use summary::{PluginSummary, PolicySummary, Summary};
pub use wait::{NoQueueWait, QueueWait};
