//! Prologs and epilogs of plugins: how they start, change their owner, and finish.

use crate::engine::core::Core;
use crate::engine::events;
use crate::engine::jobs::{Jobs, PerilogEvents as _};
use crate::host::{Exception, Perilog, PluginKey};
use crate::job::JobId;

/// Starts a prolog or epilog, or takes over one that was open at the last restart.
pub(super) fn start(
    core: &mut Core,
    plugin: PluginKey,
    job: JobId,
    kind: Perilog,
    description: &str,
) {
    let orphan = core.jobs.get(job).is_some_and(|r| r.perilogs.is_orphan(kind, description));
    own(&mut core.jobs, plugin, job, kind, description);
    if !orphan {
        let entry = events::perilog_start(core.clock.now, kind.start_event(), description);
        core.post(job, entry);
    }
}

/// Makes a plugin the one that will finish a prolog or epilog.
pub(super) fn own(
    jobs: &mut Jobs,
    plugin: PluginKey,
    job: JobId,
    kind: Perilog,
    description: &str,
) {
    if let Some(record) = jobs.get_mut(job) {
        record.perilogs.own(plugin, kind, description);
    }
}

/// Ends a plugin's ownership of a prolog or epilog; returns whether it had it.
pub(crate) fn disown(
    jobs: &mut Jobs,
    plugin: PluginKey,
    job: JobId,
    kind: Perilog,
    description: &str,
) -> bool {
    let record = jobs.get_mut(job);
    record.is_some_and(|record| record.perilogs.disown(plugin, kind, description))
}

/// Finishes a prolog or epilog of the plugin itself; nothing happens for another one's.
pub(super) fn finish_own(
    core: &mut Core,
    plugin: PluginKey,
    job: JobId,
    kind: Perilog,
    description: &str,
    status: i32,
    failure: Option<String>,
) {
    if disown(&mut core.jobs, plugin, job, kind, description) {
        finish(core, job, kind, description, status, failure);
    }
}

/// Finishes a prolog or epilog. With `failure` the job ends.
pub(crate) fn finish(
    core: &mut Core,
    job: JobId,
    kind: Perilog,
    description: &str,
    status: i32,
    failure: Option<String>,
) {
    if let Some(note) = failure {
        // The exception comes first: once its last prolog is finished the job would start.
        core.raise(job, &Exception::fatal(kind.word(), note));
    }
    if let Some(record) = core.jobs.get_mut(job) {
        record.perilogs.close(kind, description);
    }
    let entry = events::perilog_finish(core.clock.now, kind.finish_event(), description, status);
    core.post(job, entry);
}

/// Fails the open prologs and epilogs of plugins that were removed or faulted.
pub(crate) fn fail_all_of(core: &mut Core, job: JobId, closed: &[PluginKey]) {
    let Some(record) = core.jobs.get_mut(job) else {
        return;
    };
    for lost in record.perilogs.disown_all(closed) {
        let note = format!("{} {}: its plugin was removed", lost.kind.word(), lost.description);
        finish(core, job, lost.kind, &lost.description, 1, Some(note));
    }
}
