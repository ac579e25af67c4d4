//! Runs jobtap plugins inside a real Slurm: slurmctld loads them as a job_submit plugin, slurmctld and
//! slurmd as a PrEp plugin.
//!
//! A plugin crate needs no changes for this. A generated crate of the type `cdylib` links it and exports the
//! functions that Slurm calls:
//!
//! ```ignore
//! use limits as _;
//! jobtap_slurm::export_job_submit!("site", ["limits"]); // the file is job_submit_site.so
//! ```
//!
//! | in Slurm | topic | what waits |
//! |---|---|---|
//! | `job_submit` | `slurm.job_submit`, then `job.validate` | slurmctld, as long as `[slurm] request-timeout` |
//! | `job_modify` | `slurm.job_modify` | the same |
//! | PrEp: `prolog_slurmctld` | `slurm.prolog_slurmctld` | the job |
//! | PrEp: `epilog_slurmctld` | `slurm.epilog_slurmctld` | the job's end |
//! | PrEp: `prolog`, in slurmd | `slurm.prolog` | the job on this node |
//! | PrEp: `epilog`, in slurmd | `slurm.epilog` | the node |
//!
//! The plugins are called on a thread of their own ([`worker`]). The adapter reads and writes Slurm's
//! structures through [`structure`], and calls its daemons through [`Daemon`]. Only the module `ffi` deals
//! with C. It is compiled with the feature `binding`, which requires Slurm's headers (`build/`). Without
//! the feature this crate is the adapter and a double of Slurm ([`testing`]), which build anywhere.
//!
//! A loaded file must never be overwritten in place, since the daemon has it mapped: write another file
//! and rename it. The daemon never really unloads the file, since its threads may still run its code.

mod config;
mod daemon;
pub mod installed;
mod job;
pub mod job_submit;
pub mod prep;
mod registry;
pub mod structure;
pub mod testing;
pub mod worker;

#[cfg(feature = "binding")]
mod export;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod ffi;

pub use config::{ConfigError, ConfigFault, FILE, REQUEST_TIMEOUT};
pub use daemon::{Daemon, Part, PrepEnd};
pub use registry::{Unknown, linked};
