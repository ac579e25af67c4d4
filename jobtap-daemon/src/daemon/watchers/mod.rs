//! Those who watch jobs, and hear of what the committing thread has made durable. `hub` has the watchers of single
//! jobs, `journal` those of all jobs.

pub(super) mod hub;
pub(super) mod journal;
