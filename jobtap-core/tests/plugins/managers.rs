//! Managers with one plugin, and what happened to a job there.

use jobtap_core::job::JobId;
use jobtap_core::plugin::Plugin;
use jobtap_core::testing::TestManager;

use crate::common::ByUrgency;

/// Starts a manager with this plugin and one that sets priorities.
pub(crate) fn with<P: Plugin>() -> TestManager {
    TestManager::new().plugin::<ByUrgency>().plugin::<P>().start()
}

/// The notes of the job's exceptions.
pub(crate) fn notes(m: &TestManager, id: JobId) -> Vec<String> {
    let log = m.eventlog(id).into_iter();
    let notes = log.filter(|entry| entry.name == "exception");
    notes.map(|entry| entry.context.unwrap()["note"].as_str().unwrap().to_owned()).collect()
}
