//! Slurm's interfaces in a real manager, and beside a real Slurm: the same script and the same request are
//! given to a slurmctld and to our manager, which must answer alike.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod differential;
mod observed;
mod ours;
mod pairs;
mod prologs;
mod requests;
