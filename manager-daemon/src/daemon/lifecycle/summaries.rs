//! Reads the index of jobs for a start: which jobs are inactive, and which have to be read whole.
//!
//! A summary takes longer to read than to find in the store or to give to the engine. So one thread goes through the
//! index, several read the summaries, and the engine's own thread takes them, all at once and in the order of the ids.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use jobtap_core::engine::InactiveJob;
use jobtap_core::job::JobId;

use super::StartError;
use crate::daemon::writes::index;
use crate::store::{Store, StoreError};

/// How many rows go from one thread to another together.
const GROUP: usize = 512;
/// How many groups wait in front of each thread, so that none waits for a slow group of another one.
const WAITING: usize = 2;
/// The most threads that read summaries. Then the engine's thread and that of the store are the slower ones.
const MOST_READERS: usize = 4;

/// What the index says of a job.
pub(super) enum Indexed {
    /// It is inactive, and this is its summary.
    Inactive(InactiveJob),
    /// It is active, or its summary can't be read.
    Whole(JobId),
}

/// A row of the index: a job and its summary, which is empty while the job is active.
type Row = (JobId, Box<[u8]>);

/// Goes through the index, and calls `take` for each job in the order of the ids.
pub(super) fn each(store: &dyn Store, mut take: impl FnMut(Indexed)) -> Result<(), StartError> {
    let readers = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST_READERS);
    thread::scope(|scope| {
        let (mut rows, mut read) = (Vec::new(), Vec::new());
        for _ in 0..readers {
            let (send_rows, incoming) = sync_channel::<Vec<Row>>(WAITING);
            let (outgoing, receive) = sync_channel(WAITING);
            let reader = move || read_groups(&incoming, &outgoing);
            thread::Builder::new().name("summaries".into()).spawn_scoped(scope, reader)?;
            rows.push(send_rows);
            read.push(receive);
        }
        let index = move || deal(store, &rows);
        let index = thread::Builder::new().name("index".into()).spawn_scoped(scope, index)?;
        // The groups come from the readers in the order in which they were dealt. The first reader without another one
        // has had the last turn.
        for group in read.iter().cycle().map_while(|reader| reader.recv().ok()) {
            group.into_iter().for_each(&mut take);
        }
        // A reader that is still waiting for this thread would prevent the other one from ending.
        drop(read);
        match index.join() {
            Ok(gone_through) => Ok(gone_through?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Gives the rows of the index to the readers in turns, in groups.
fn deal(store: &dyn Store, readers: &[SyncSender<Vec<Row>>]) -> Result<(), StoreError> {
    let mut turns = readers.iter().cycle();
    let mut send = |group| match turns.next().map(|reader| reader.send(group)) {
        Some(Ok(())) => ControlFlow::Continue(()),
        // Nothing takes the jobs any more.
        Some(Err(_)) | None => ControlFlow::Break(()),
    };
    let mut group = Vec::with_capacity(GROUP);
    store.scan_values(index::JOBS, &mut |name, summary| {
        let Some(id) = index::job(name) else { return ControlFlow::Continue(()) };
        group.push((id, summary.into()));
        if group.len() < GROUP {
            return ControlFlow::Continue(());
        }
        send(std::mem::replace(&mut group, Vec::with_capacity(GROUP)))
    })?;
    let _ = send(group);
    Ok(())
}

fn read_groups(incoming: &Receiver<Vec<Row>>, outgoing: &SyncSender<Vec<Indexed>>) {
    for group in incoming {
        let group = group.into_iter().map(|(id, summary)| read(id, &summary)).collect();
        if outgoing.send(group).is_err() {
            return;
        }
    }
}

fn read(id: JobId, summary: &[u8]) -> Indexed {
    let summary = std::str::from_utf8(summary).unwrap_or_default();
    match InactiveJob::read(id, summary) {
        Ok(job) => Indexed::Inactive(job),
        Err(_) => Indexed::Whole(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;

    const SUMMARY: &str = r#"{"form":1,"userid":1000,"urgency":16,"flags":0,"priority":16,"t_submit":1.5,"times":[1.5,1.5,1.5,1.5,2.5,2.5,2.5],"lines":10,"exec_lines":4,"events":{"known":3}}"#;

    fn store_with(jobs: u64, summary: impl Fn(u64) -> String) -> MemoryStore {
        let store = MemoryStore::default();
        let row = |id| index::put(JobId::new(id), summary(id)).unwrap();
        store.commit((1..=jobs).map(row).collect()).unwrap();
        store
    }

    fn found(store: &dyn Store) -> (Vec<JobId>, Vec<JobId>) {
        let (mut all, mut whole) = (Vec::new(), Vec::new());
        each(store, |job| match job {
            Indexed::Inactive(job) => all.push(job.id()),
            Indexed::Whole(id) => {
                all.push(id);
                whole.push(id);
            }
        })
        .unwrap();
        (all, whole)
    }

    #[test]
    fn jobs_come_in_the_order_of_their_ids_whatever_thread_has_read_them() {
        let groups = 2 * MOST_READERS as u64 * WAITING as u64 + 1;
        for jobs in [0, 1, GROUP as u64, groups * GROUP as u64 + 7] {
            // The first groups take longer to read.
            let padding = |id| " ".repeat(if id < 1000 { 10_000 } else { 0 });
            let store = store_with(jobs, |id| format!("{SUMMARY}{}", padding(id)));
            let expected: Vec<JobId> = (1..=jobs).map(JobId::new).collect();
            assert_eq!(found(&store), (expected, Vec::new()));
        }
    }

    #[test]
    fn active_jobs_and_those_whose_summary_is_unreadable_are_read_whole() {
        let store = store_with(9, |id| match id {
            3 => String::new(),
            5 => "{".to_owned(),
            7 => SUMMARY.replace("\"form\":1", "\"form\":99"),
            _ => SUMMARY.to_owned(),
        });
        let (all, whole) = found(&store);
        assert_eq!(all.len(), 9);
        assert_eq!(whole, [3, 5, 7].map(JobId::new));
    }

    #[test]
    fn a_start_that_fails_for_a_job_ends_the_threads() {
        let store = store_with(100 * GROUP as u64, |_| SUMMARY.to_owned());
        let start = || each(&store, |_| panic!("the engine failed"));
        // It would wait for its threads forever if one of them waited for it.
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(start)).is_err());
    }
}
