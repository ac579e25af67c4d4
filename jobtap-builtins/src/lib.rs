//! The plugins that come with every jobtap manager, written against the public SDK.
//!
//! `use jobtap_builtins as _;` links them. Plugins whose names begin with a dot are loaded when the
//! manager starts and are called before all others, so that a site's plugins have the last word. The
//! others are loaded by name, or by having a table in the configuration.

#[cfg(feature = "alloc-bypass")]
mod alloc_bypass;
#[cfg(feature = "alloc-check")]
mod alloc_check;
#[cfg(feature = "allocation-plan")]
mod allocation_plan;
#[cfg(feature = "begin-time")]
mod begin_time;
#[cfg(feature = "dependency-after")]
mod dependency_after;
#[cfg(feature = "dependency-dataflow")]
mod dependency_dataflow;
#[cfg(feature = "dependency-singleton")]
mod dependency_singleton;
#[cfg(feature = "fairshare")]
mod fairshare;
#[cfg(feature = "history")]
mod history;
#[cfg(feature = "housekeeping")]
mod housekeeping;
#[cfg(feature = "licenses")]
mod licenses;
#[cfg(feature = "limit-duration")]
mod limit_duration;
#[cfg(feature = "limit-job-size")]
mod limit_job_size;
#[cfg(feature = "limits")]
mod limits;
#[cfg(feature = "lua")]
pub mod lua;
#[cfg(feature = "perilog")]
mod perilog;
#[cfg(feature = "post-event")]
mod post_event;
#[cfg(feature = "preempt-notice")]
mod preempt_notice;
#[cfg(feature = "prep-script")]
mod prep_script;
#[cfg(feature = "priority-default")]
mod priority_default;
#[cfg(any(feature = "dependency-after", feature = "dependency-dataflow"))]
mod private_mode;
#[cfg(feature = "history")]
mod slice;
mod slurm;
#[cfg(feature = "submit-hold")]
mod submit_hold;
#[cfg(any(feature = "licenses", feature = "limits"))]
// A build with only `licenses` leaves parts of it unused.
#[cfg_attr(not(feature = "limits"), allow(dead_code))]
mod tokens;
#[cfg(any(feature = "housekeeping", feature = "perilog"))]
mod unpack;
#[cfg(feature = "update-duration")]
mod update_duration;
#[cfg(feature = "update-queue")]
mod update_queue;
#[cfg(feature = "validate-duration")]
mod validate_duration;

#[cfg(feature = "alloc-bypass")]
pub use alloc_bypass::AllocBypass;
#[cfg(feature = "alloc-check")]
pub use alloc_check::AllocCheck;
#[cfg(feature = "allocation-plan")]
pub use allocation_plan::AllocationPlan;
#[cfg(feature = "begin-time")]
pub use begin_time::BeginTime;
#[cfg(feature = "dependency-after")]
pub use dependency_after::DependencyAfter;
#[cfg(feature = "dependency-dataflow")]
pub use dependency_dataflow::DependencyDataflow;
#[cfg(feature = "dependency-singleton")]
pub use dependency_singleton::DependencySingleton;
#[cfg(feature = "fairshare")]
pub use fairshare::Fairshare;
#[cfg(feature = "history")]
pub use history::History;
#[cfg(feature = "housekeeping")]
pub use housekeeping::Housekeeping;
#[cfg(feature = "licenses")]
pub use licenses::Licenses;
#[cfg(feature = "limit-duration")]
pub use limit_duration::LimitDuration;
#[cfg(feature = "limit-job-size")]
pub use limit_job_size::LimitJobSize;
#[cfg(feature = "limits")]
pub use limits::Limits;
#[cfg(feature = "lua")]
pub use lua::Lua;
#[cfg(feature = "perilog")]
pub use perilog::Perilog;
#[cfg(feature = "post-event")]
pub use post_event::PostEvent;
#[cfg(feature = "preempt-notice")]
pub use preempt_notice::PreemptNotice;
#[cfg(feature = "prep-script")]
pub use prep_script::PrepScript;
#[cfg(feature = "priority-default")]
pub use priority_default::PriorityDefault;
pub use slurm::*;
#[cfg(feature = "submit-hold")]
pub use submit_hold::SubmitHold;
#[cfg(feature = "update-duration")]
pub use update_duration::UpdateDuration;
#[cfg(feature = "update-queue")]
pub use update_queue::UpdateQueue;
#[cfg(feature = "validate-duration")]
pub use validate_duration::ValidateDuration;
