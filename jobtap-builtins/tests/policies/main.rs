//! The policies that come with jobtap: each as users see it, and what must hold when they are loaded
//! together.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod allocation_plan;
mod begin_time;
mod crashes;
mod dependency_after;
mod dependency_dataflow;
mod dependency_singleton;
mod durations;
mod fairshare;
mod history;
mod housekeeping;
mod licenses;
mod limit_duration;
mod limit_job_size;
mod limits;
mod policies_together;
mod post_event;
mod preempt_notice;
mod prep_script;
mod replay;
mod shadow;
mod slurm;
mod update_queue;
mod workload;
