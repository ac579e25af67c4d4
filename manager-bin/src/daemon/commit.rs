//! From a turn of the engine to a batch of the store.

use std::sync::Arc;

use jobtap_core::engine::Write;
use jobtap_core::job::JobId;

use super::effects::Effector;
use super::engine_thread::Turn;
use super::index;
use crate::store::{Batch, Committer, Key, KeyError, Op};

/// Queues a turn: its effects are run when its writes and all earlier ones are durable.
pub(super) fn submit(committer: &Committer, effector: &Arc<Effector>, turn: Turn) {
    let forgotten: Vec<JobId> = turn.writes.iter().filter_map(forgotten).collect();
    let mut ops = Vec::with_capacity(turn.writes.len() + turn.ops.len());
    for write in turn.writes {
        if let Err(error) = self::ops(write, &mut ops) {
            // A key that the store can't hold comes from a plugin's name at worst; to go on without
            // the write would acknowledge what isn't there.
            effector.failure.report(format!("an event can't be stored: {error}"));
            return;
        }
    }
    ops.extend(turn.ops);
    let effector = Arc::clone(effector);
    let after = turn.after;
    let then = move || {
        forgotten.into_iter().for_each(|id| effector.records.remove_files(id));
        effector.run(after);
    };
    committer.submit(Batch { ops, then: Box::new(then) });
}

fn forgotten(write: &Write) -> Option<JobId> {
    match write {
        Write::Remove { id } => Some(*id),
        _ => None,
    }
}

/// Queues something to be done after everything before it.
pub(super) fn then(committer: &Committer, what: impl FnOnce() + Send + 'static) {
    committer.submit(Batch { ops: Vec::new(), then: Box::new(what) });
}

/// Adds a change as the store takes it.
///
/// # Errors
/// When it is under a name that the store can't hold.
pub(crate) fn ops(write: Write, ops: &mut Vec<Op>) -> Result<(), KeyError> {
    let op = match write {
        Write::Append { id, log, seq, line } => {
            Op::Append { key: Key::job(id.as_u64(), log.key())?, seq, value: line.into_bytes() }
        }
        Write::Put { id, key, value } => {
            Op::Put { key: Key::job(id.as_u64(), &key)?, value: value.into_bytes() }
        }
        Write::Accepted { id } => index::put(id, "")?,
        Write::Over { id, summary } => index::put(id, &summary)?,
        Write::Remove { id } => {
            ops.push(Op::Remove { key: index::key(id)? });
            Op::RemoveJob(id.as_u64())
        }
        Write::AppendInstance { key, seq, line } => {
            Op::Append { key: Key::instance(&key)?, seq, value: line.into_bytes() }
        }
        Write::PutInstance { key, value } => {
            Op::Put { key: Key::instance(&key)?, value: value.into_bytes() }
        }
        Write::RemoveInstance { key } => Op::Remove { key: Key::instance(&key)? },
    };
    ops.push(op);
    Ok(())
}
