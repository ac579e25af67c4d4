//! Runs jobtap plugins inside a real Slurm: slurmctld loads them as a job_submit plugin, slurmctld and
//! slurmd as a PrEp plugin.
//!
//! A plugin crate isn't changed for it. A generated crate of the kind `cdylib` links it and names what
//! Slurm calls:
//!
//! ```ignore
//! use limits as _;
//! jobtap_slurm::export_job_submit!("site", ["limits"]); // the file is job_submit_site.so
//! ```
//!
//! | in Slurm | topic | waits |
//! |---|---|---|
//! | `job_submit` | `slurm.job_submit`, then `job.validate` | slurmctld, as long as `[slurm] request-timeout` |
//! | `job_modify` | `slurm.job_modify` | the same |
//! | PrEp: `prolog_slurmctld` | `slurm.prolog_slurmctld` | the job |
//! | PrEp: `epilog_slurmctld` | `slurm.epilog_slurmctld` | the job's end |
//! | PrEp: `prolog`, in slurmd | `slurm.prolog` | the job on this node |
//! | PrEp: `epilog`, in slurmd | `slurm.epilog` | the node |
//!
//! The plugins are called on a thread of their own ([`worker`]). What Slurm passes is read and written
//! through [`structure`], and what its daemons offer is a [`Daemon`]. Only the module `ffi` knows C.
//! It is there with the feature `binding`, for which the headers of Slurm are needed (`build/`). Without
//! the feature this crate is the adapter and its double ([`testing`]), which build anywhere.
//!
//! A loaded file must never be overwritten in place, since the daemon has it mapped: write another file
//! and rename it. The file is never unloaded either, since its threads would lose their code.

mod config;
mod daemon;
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

pub use config::{FILE, REQUEST_TIMEOUT};
pub use daemon::{Daemon, Part, PrepEnd};
pub use registry::{Unknown, linked};
