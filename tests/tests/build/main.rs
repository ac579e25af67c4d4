//! `jobtap build` and `jobtap new`: a site that names its plugins in a manifest gets one manager binary
//! with just these plugins, in the order that was declared, and can make the same binary again. What
//! can't be built is refused with the reason before anything is compiled.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod managers;
mod manifest;
mod new_crates;
mod refusals;
mod registry;
mod slurm;
