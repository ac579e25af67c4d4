//! Prologs and epilogs of plugins: how they start, change their owner, and finish.

use crate::host::PluginKey;
use crate::job::JobId;
use crate::jobs::{Jobs, PerilogEvents as _};
use crate::plugin::{Exception, Perilog};
use crate::turn::Turn;

/// How a prolog or epilog ends.
pub(crate) struct PerilogEnd<'a> {
    pub(crate) kind: Perilog,
    pub(crate) description: &'a str,
    pub(crate) status: i32,
    /// Why the job ends with it.
    pub(crate) failure: Option<String>,
}

impl<'a> PerilogEnd<'a> {
    /// It has failed; with `failure` the job ends.
    pub(crate) fn failed(kind: Perilog, description: &'a str, failure: Option<String>) -> Self {
        Self { kind, description, status: 1, failure }
    }
}

/// Starts a prolog or epilog, or takes over one that was open at the last restart.
pub(super) fn start(
    turn: &mut Turn,
    jobs: &mut Jobs,
    plugin: PluginKey,
    job: JobId,
    kind: Perilog,
    description: &str,
) {
    let orphan = jobs.get(job).is_some_and(|r| r.perilogs.is_orphan(kind, description));
    own(jobs, plugin, job, kind, description);
    if !orphan {
        jobs.post(turn, job, kind.start_event(description));
    }
}

/// Makes a plugin the owner of a prolog or epilog, which it will finish.
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

/// Ends a plugin's ownership of a prolog or epilog; returns whether the plugin was its owner.
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

/// Finishes a prolog or epilog, if the plugin owns it.
pub(super) fn finish_own(
    turn: &mut Turn,
    jobs: &mut Jobs,
    plugin: PluginKey,
    job: JobId,
    end: PerilogEnd<'_>,
) {
    if disown(jobs, plugin, job, end.kind, end.description) {
        finish(turn, jobs, job, end);
    }
}

/// Finishes a prolog or epilog.
pub(crate) fn finish(turn: &mut Turn, jobs: &mut Jobs, job: JobId, end: PerilogEnd<'_>) {
    let PerilogEnd { kind, description, status, failure } = end;
    if let Some(note) = failure {
        // The exception comes first: once its last prolog is finished the job would start.
        jobs.raise(turn, job, &Exception::fatal(kind.word(), note));
    }
    if let Some(record) = jobs.get_mut(job) {
        record.perilogs.close(kind, description);
    }
    jobs.post(turn, job, kind.finish_event(description, status));
}

/// Fails the open prologs and epilogs of plugins that were removed or faulted.
pub(crate) fn fail_all_of(turn: &mut Turn, jobs: &mut Jobs, job: JobId, closed: &[PluginKey]) {
    let Some(record) = jobs.get_mut(job) else {
        return;
    };
    for lost in record.perilogs.disown_all(closed) {
        let note = format!("{} {}: its plugin was removed", lost.kind.word(), lost.description);
        let end = PerilogEnd::failed(lost.kind, &lost.description, Some(note));
        finish(turn, jobs, job, end);
    }
}
