//! The commands: a file per command, and what several of them share.

mod submit_args;
mod submit_caller;
mod submit_env;
mod submit_rlimit;
mod submit_setattr;
mod submit_values;
mod usage;
