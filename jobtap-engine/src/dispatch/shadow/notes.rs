//! What is noted about a shadow: the differences from the live plugins, and what either asks for outside of dispatches.

use crate::agenda::Queued;
use crate::host::PluginKey;
use crate::job::{JobId, Timestamp};
use crate::jobs::Jobs;
use crate::shadows::Shadows;
use crate::shadows::compare::{Difference, Side};
use crate::transcript::{Action, Kind, Transcript};

/// Records differences.
pub(super) fn record(
    now: Timestamp,
    jobs: &Jobs,
    shadows: &mut Shadows,
    key: PluginKey,
    topic: &str,
    found: Vec<Difference>,
) {
    for difference in found {
        let user = difference.job.and_then(|id| jobs.job(id)).map(|job| job.userid());
        let Some(shadow) = shadows.get_mut(key) else { return };
        if let Some(id) = difference.job {
            let on_job = shadow.on_job(id);
            let is_first = !std::mem::replace(&mut on_job.differs, true);
            shadow.findings.jobs += u64::from(is_first);
        }
        shadow.findings.add(topic, user, now, difference);
    }
}

/// Notes what the live plugin of this name asks for outside of a dispatch.
pub(crate) fn note_live(
    now: Timestamp,
    jobs: &Jobs,
    shadows: &mut Shadows,
    name: &str,
    commands: &[Queued],
) {
    let Some(key) = shadows.find(name).map(|shadow| shadow.key()) else { return };
    let mut transcript = Transcript::default();
    commands.iter().for_each(|queued| transcript.add_command(&queued.command));
    note(now, jobs, shadows, key, Side::Live, transcript.actions);
}

/// Notes what one side asks for.
pub(super) fn note(
    now: Timestamp,
    jobs: &Jobs,
    shadows: &mut Shadows,
    key: PluginKey,
    side: Side,
    actions: Vec<Action>,
) {
    for action in actions {
        // Not the responses of services: only the live plugin responds to a request.
        if action.kind == Kind::Reply {
            continue;
        }
        let Some(shadow) = shadows.get_mut(key) else { return };
        // A shadow doesn't know about a job that it has refused.
        if action.job.is_some_and(|id| shadow.has_refused(id)) {
            continue;
        }
        let found = shadow.later.add(side, action, now);
        record(now, jobs, shadows, key, "later", found.into_iter().collect());
    }
}

/// Records what only one side has asked for about a job that has ended.
pub(crate) fn settle(now: Timestamp, jobs: &Jobs, shadows: &mut Shadows, id: JobId) {
    let keys: Vec<PluginKey> = shadows.iter().map(|shadow| shadow.key()).collect();
    for key in keys {
        let Some(shadow) = shadows.get_mut(key) else { continue };
        let found = shadow.later.settle(id);
        record(now, jobs, shadows, key, "later", found);
    }
}
