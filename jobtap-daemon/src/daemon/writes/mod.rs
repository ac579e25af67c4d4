//! From a turn of the engine to a batch of the store, and what is done once the batch is durable.

pub(super) mod effects;
pub(super) mod index;
mod resubmit;

use std::sync::Arc;

use jobtap_core::engine::Write;
use jobtap_core::job::JobId;

use self::effects::Effector;
use super::engine::{After, Turn};
use crate::store::{Batch, Committer, Key, KeyError, Op, shared};

/// Queues a turn. Its effects are carried out when its writes and all earlier ones are durable. `idle` says that the
/// engine has nothing else to do: then the calling thread, which is the engine's, commits the turn if nothing else is
/// being committed.
pub(super) fn queue_turn(committer: &Committer, effector: &Arc<Effector>, turn: Turn, idle: bool) {
    effector.journal.count(turn.unpublished);
    let purged: Vec<JobId> = turn.writes.iter().filter_map(purged).collect();
    let changes = !turn.writes.is_empty();
    let to = Arc::clone(effector);
    let then = move |after| {
        if changes {
            to.hub.committed();
        }
        purged.into_iter().for_each(|id| to.records.remove_files(id));
        to.run(after);
    };
    if let Err(error) = queue_writes(committer, turn, idle, then) {
        // A key that the store cannot hold can only come from a plugin's name. Going on without the write would
        // acknowledge what is not stored.
        effector.failure.report(format!("an event can't be stored: {error}"));
    }
}

/// Queues the writes of a turn, after which `then` is called. A turn without writes waits, too: what was
/// read in it may show earlier writes that are not durable yet.
fn queue_writes(
    committer: &Committer,
    turn: Turn,
    idle: bool,
    then: impl FnOnce(Vec<After>) + Send + 'static,
) -> Result<(), KeyError> {
    let mut ops = Vec::with_capacity(turn.writes.len() + turn.ops.len());
    for write in turn.writes {
        push_ops(write, &mut ops)?;
    }
    ops.extend(turn.ops);
    let after = turn.after;
    let batch = Batch { ops, then: Box::new(move || then(after)) };
    match idle {
        true => committer.commit_or_submit(batch),
        false => committer.submit(batch),
    }
    Ok(())
}

fn purged(write: &Write) -> Option<JobId> {
    match write {
        Write::Remove { id } => Some(*id),
        _ => None,
    }
}

/// Queues a function to be called after everything that was queued before it.
pub(super) fn after_earlier(committer: &Committer, what: impl FnOnce() + Send + 'static) {
    committer.submit(Batch { ops: Vec::new(), then: Box::new(what) });
}

/// Adds the store's operations for this write.
///
/// # Errors
/// A key that the store cannot hold.
pub fn push_ops(write: Write, ops: &mut Vec<Op>) -> Result<(), KeyError> {
    let op = match write {
        Write::Append { id, log, seq, lines } => {
            Op::Append { key: Key::job(id.as_u64(), log.key())?, seq, value: lines }
        }
        Write::Put { id, key, value } => {
            Op::Put { key: Key::job(id.as_u64(), &key)?, value: value.into_bytes() }
        }
        Write::Share { id, key, with } => Op::Put {
            key: Key::job(id.as_u64(), key)?,
            value: shared::refer_to(&with).into_bytes(),
        },
        Write::Accepted { id } => index::put(id, String::new())?,
        Write::Inactive { id, summary } => index::put(id, summary)?,
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::store::Store;
    use crate::store::memory::MemoryStore;

    #[test]
    fn an_answer_waits_until_all_that_it_may_show_is_durable() {
        let store = Arc::new(MemoryStore::default());
        let committer = Committer::start(Arc::clone(&store) as Arc<dyn Store>, |_| ()).unwrap();
        // Declared after the committer, and so dropped before it: in a failing test, the commit goes on before the
        // committer waits for it.
        let hold = store.block_commit();
        let (tell, told) = mpsc::channel();
        let write = Write::PutInstance { key: "key".to_owned(), value: "value".to_owned() };
        let submit = |number, turn| {
            let tell = tell.clone();
            queue_writes(&committer, turn, false, move |_| tell.send(number).unwrap()).unwrap();
        };
        submit(0, Turn { writes: vec![write], ..Turn::default() });
        hold.wait_for_commit();
        submit(1, Turn::default());
        let early = told.try_recv();
        assert!(early.is_err(), "answered before the write was durable: {early:?}");
        hold.release();
        drop(tell);
        committer.close();
        assert_eq!(told.iter().collect::<Vec<_>>(), [0, 1]);
    }
}
