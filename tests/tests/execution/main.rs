//! How jobs are executed: their tasks, the limits of their host, and managers that run as jobs.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod attach;
mod batch;
mod exec_config;
mod nested;
mod open_files;
mod shell_options;
mod short_jobs;
mod tasks;
