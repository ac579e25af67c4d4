//! The policy laboratory: traces of jobs, replayed through the plugins and the scheduler of a configuration.
//!
//! The replay itself is `jobtap_core::simulation`, which does no I/O. This module contains what surrounds it.
//!
//! | file | what it holds |
//! |---|---|
//! | `source` | traces from files and from the generator |
//! | `accounting` | lists of jobs from Slurm's and Flux's accounting |
//! | `generate` | traces from named distributions |
//! | `machine` | the machine of a simulation |
//! | `run` | one policy on one trace |
//! | `scenario` | failures, maintenance and bursts that are added to a trace |
//! | `diff` | what a change makes worse than thresholds allow |
//! | `series` | utilization and queue length over time |
//! | `summary` | the figures as JSON and for a terminal |
//! | `report` `chart` | the figures as one HTML page with charts |
//! | `error` | why a simulation can't be made |

mod accounting;
mod chart;
pub(crate) mod diff;
pub(crate) mod error;
pub(crate) mod generate;
pub(crate) mod machine;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod scenario;
mod series;
pub(crate) mod source;
pub(crate) mod summary;
