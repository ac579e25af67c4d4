//! An elastic instance: it orders allocations from another job manager, whose nodes join and leave.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod absences;
mod others;
mod rates;
mod site;
mod slurm;
