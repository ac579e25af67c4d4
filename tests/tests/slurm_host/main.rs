//! Plugins inside a real slurmctld and slurmd: the file is built from a plugin crate as it is, and loaded.
#![allow(clippy::unwrap_used)]

mod built;
mod job_submit;
mod prep;
