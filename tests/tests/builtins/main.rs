//! The builtins that run scripts, signal jobs or keep usage do so with real processes, and what they
//! promise holds when the manager is killed in the middle.
#![allow(clippy::unwrap_used)]

mod housekeeping;
mod perilog;
mod policies;
mod prep_script;
