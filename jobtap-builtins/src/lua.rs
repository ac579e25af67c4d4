//! `lua`: runs a site's `job_submit.lua` as Slurm does.

mod dialect;
mod document;
mod limits;
mod native;
mod pattern;
mod process;
mod script;
pub mod token;

pub use limits::{Limit, Limits};
pub use native::{LogLine, Surroundings};
pub use script::{LoadError, OnError, Options, Script, Verdict, Version};
