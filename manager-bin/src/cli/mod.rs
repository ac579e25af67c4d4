//! The commands: a file per command, and what several of them share.

mod format;
mod ids;
mod job_fields;
mod job_json;
mod job_row;
#[cfg(test)]
mod job_row_tests;
mod jobs;
mod jobs_fetch;
mod jobs_query;
#[cfg(test)]
mod jobs_tests;
mod message;
mod named_formats;
mod users;
mod when;
