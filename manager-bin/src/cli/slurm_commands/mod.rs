//! Slurm's commands by Slurm's names, for scripts, prologs and epilogs that call them.
//!
//! | file | what it holds |
//! |---|---|
//! | `squeue`, `sinfo`, `scancel`, `scontrol`, `sacct` | a command each; `sbatch` and `srun` are a folder of their own |
//! | `install` | wrappers with these names |
//! | `fields` | the output formats of the listings |
//! | `job_line`, `nodes` | jobs and nodes in Slurm's words |
//! | `show` | what `scontrol show` prints |
//! | `names` | lists of names in options, and what else the commands have in common |

mod fields;
#[cfg(feature = "fuzz")]
pub(in crate::cli) mod foreign;
#[cfg(feature = "builtins")]
pub(super) mod install;
mod job_line;
mod names;
mod nodes;
pub(super) mod sacct;
pub(super) mod scancel;
pub(super) mod scontrol;
mod show;
pub(super) mod sinfo;
pub(super) mod squeue;
