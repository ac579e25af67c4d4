//! What is noted of a shadow: the differences from the live plugins, and what either asks for outside of dispatches.

use super::compare::{Difference, Side};
use crate::engine::agenda::Queued;
use crate::engine::core::Core;
use crate::engine::dispatch::answer::{Answer, Kind, Said};
use crate::host::PluginKey;
use crate::job::{JobId, Timestamp};

/// Records differences.
pub(super) fn record(
    core: &mut Core,
    key: PluginKey,
    topic: &str,
    found: Vec<Difference>,
    now: Timestamp,
) {
    for difference in found {
        let user = difference.job.and_then(|id| core.job(id)).map(|job| job.userid);
        let Some(shadow) = core.plugins.shadows.get_mut(key) else { return };
        if let Some(id) = difference.job {
            let on_job = shadow.on_job(id);
            let is_first = !std::mem::replace(&mut on_job.differs, true);
            shadow.record.jobs += u64::from(is_first);
        }
        shadow.record.add(topic, user, now, difference);
    }
}

/// Notes what the live plugin of this name asks for outside of a dispatch.
pub(in crate::engine) fn note_live(core: &mut Core, name: &str, commands: &[Queued]) {
    let Some(key) = core.plugins.shadows.find(name).map(|shadow| shadow.key()) else { return };
    let mut answer = Answer::default();
    commands.iter().for_each(|queued| answer.add_command(&queued.command));
    note(core, key, Side::Live, answer.said);
}

/// Notes what one of both asks for.
pub(super) fn note(core: &mut Core, key: PluginKey, side: Side, said: Vec<Said>) {
    let now = core.clock.now;
    for said in said {
        // The answers of services go to a request, which the live plugin answers.
        if said.kind == Kind::Reply {
            continue;
        }
        let Some(shadow) = core.plugins.shadows.get_mut(key) else { return };
        // A shadow doesn't know of what it has refused.
        if said.job.is_some_and(|id| shadow.has_refused(id)) {
            continue;
        }
        let found = shadow.later.add(side, said, now);
        record(core, key, "later", found.into_iter().collect(), now);
    }
}

/// Compares what is left of a job that has ended.
pub(in crate::engine) fn settle(core: &mut Core, id: JobId) {
    let now = core.clock.now;
    let keys: Vec<PluginKey> = core.plugins.shadows.iter().map(|shadow| shadow.key()).collect();
    for key in keys {
        let Some(shadow) = core.plugins.shadows.get_mut(key) else { continue };
        let found = shadow.later.settle(id);
        record(core, key, "later", found, now);
    }
}
