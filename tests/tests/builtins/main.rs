//! The builtins that run scripts, signal jobs or record usage, with real processes. What they promise also holds when
//! the manager is killed in between.
#![allow(clippy::unwrap_used)]

mod housekeeping;
mod perilog;
mod policies;
mod prep_script;
