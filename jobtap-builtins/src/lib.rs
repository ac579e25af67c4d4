//! The plugins that come with every jobtap manager, written against the public SDK.
//!
//! `use jobtap_builtins as _;` links them. Those whose names begin with a dot are loaded with the
//! manager and called before all others, so that a site's plugin has the last word; the rest waits
//! until it is loaded by its name.

mod alloc_bypass;
mod alloc_check;
mod begin_time;
mod dependency_after;
mod dependency_dataflow;
mod dependency_singleton;
mod history;
mod limit_duration;
mod limit_job_size;
mod post_event;
mod priority_default;
mod slice;
mod submit_hold;
mod update_duration;
mod update_queue;
mod validate_duration;

pub use alloc_bypass::AllocBypass;
pub use alloc_check::AllocCheck;
pub use begin_time::BeginTime;
pub use dependency_after::DependencyAfter;
pub use dependency_dataflow::DependencyDataflow;
pub use dependency_singleton::DependencySingleton;
pub use history::History;
pub use limit_duration::LimitDuration;
pub use limit_job_size::LimitJobSize;
pub use post_event::PostEvent;
pub use priority_default::PriorityDefault;
pub use submit_hold::SubmitHold;
pub use update_duration::UpdateDuration;
pub use update_queue::UpdateQueue;
pub use validate_duration::ValidateDuration;
