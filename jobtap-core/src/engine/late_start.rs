//! When a job ends that started late: its nodes are its own before its tasks run, and a slow prolog is
//! not to eat its time.

use serde_json::Value;

use super::exec_config::ExecConfig;
use crate::resource::ResourceSet;

/// When the time of a job is up (UNIX seconds), which `started` then: what `resources` say, or later by
/// the whole delay if that is more than `exec.max-start-delay-percent` of the time between. None for a
/// job without an end. `config` is the configuration of the manager that runs the job.
///
/// # Errors
/// `[exec]` has a key that can't be used; the text names it.
///
/// ```
/// use jobtap_core::engine::end_of_started;
/// use jobtap_core::resource::ResourceSet;
/// use serde_json::json;
///
/// let mut resources = ResourceSet::default();
/// resources.set_times(100.0, 200.0).unwrap();
/// assert_eq!(end_of_started(&resources, 125.0, &json!({})), Ok(Some(200.0)));
/// assert_eq!(end_of_started(&resources, 130.0, &json!({})), Ok(Some(230.0)));
/// ```
pub fn end_of_started(
    resources: &ResourceSet,
    started: f64,
    config: &Value,
) -> Result<Option<f64>, String> {
    let most = ExecConfig::read(config)?.max_start_delay;
    Ok(end(resources, started, most))
}

/// The same; `most` is the part of the job's time that a start may be late without a later end.
pub(super) fn end(resources: &ResourceSet, started: f64, most: f64) -> Option<f64> {
    let expiration = resources.expiration()?;
    let Some(from) = resources.starttime() else {
        return Some(expiration);
    };
    let delay = started - from;
    let late = delay > (expiration - from) * most;
    Some(if late { expiration + delay } else { expiration })
}
