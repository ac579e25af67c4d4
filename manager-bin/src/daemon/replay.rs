//! Stored jobs are replayed on all cores: reading the store is one thread's work, and nearly all
//! the rest of a restart is making sense of each job's texts, which no job needs another for.

use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use jobtap_core::engine::ReplayedJob;
use jobtap_core::job::JobId;

use super::lifecycle::StartError;
use crate::store::{Store, StoreError, StoredJob};

/// Jobs that go to a thread at a time.
const CHUNK: usize = 256;
/// Chunks that may wait for a thread, and for the engine: what bounds the memory.
const AHEAD: usize = 4;
/// More threads than this only wait for the one that reads.
const MAX_THREADS: usize = 8;

/// A job, and why it can't be replayed if so.
pub(super) type Outcome = (JobId, Result<ReplayedJob, String>);

/// Reads the wanted keys of all jobs, replays the jobs with `replay`, and shows them to `each` in
/// order of their ids.
pub(super) fn all(
    store: &dyn Store,
    wanted: &(dyn Fn(&str) -> bool + Sync),
    replay: fn(StoredJob) -> Result<ReplayedJob, String>,
    mut each: impl FnMut(Outcome),
) -> Result<(), StartError> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    thread::scope(|scope| {
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for _ in 0..threads {
            let (input, chunks) = sync_channel(AHEAD);
            let (results, output) = sync_channel(AHEAD);
            spawn(scope, move || replay_chunks(&chunks, &results, replay))?;
            inputs.push(input);
            outputs.push(output);
        }
        let scan = spawn(scope, move || read(store, wanted, &inputs))?;
        // The chunks are dealt out in turn, so taking them in turn keeps the order; the first that
        // doesn't come was never dealt.
        for output in outputs.iter().cycle() {
            let Ok(chunk) = output.recv() else { break };
            chunk.into_iter().for_each(&mut each);
        }
        match scan.join() {
            Ok(read) => Ok(read?),
            Err(panic) => Err(StartError::Broken(super::panic_text(&*panic))),
        }
    })
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<thread::ScopedJoinHandle<'scope, T>> {
    thread::Builder::new().name("replay".to_owned()).spawn_scoped(scope, run)
}

/// Deals out the stored jobs.
fn read(
    store: &dyn Store,
    wanted: &dyn Fn(&str) -> bool,
    inputs: &[SyncSender<Vec<StoredJob>>],
) -> Result<(), StoreError> {
    let mut turns = inputs.iter().cycle();
    let mut deal = |chunk| match turns.next().map(|input| input.send(chunk)) {
        Some(Ok(())) => ControlFlow::Continue(()),
        // The thread has panicked, which ends the start.
        _ => ControlFlow::Break(()),
    };
    let mut chunk = Vec::with_capacity(CHUNK);
    store.scan_jobs(wanted, &mut |job| {
        chunk.push(job);
        if chunk.len() < CHUNK {
            return ControlFlow::Continue(());
        }
        deal(std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK)))
    })?;
    let _ = deal(chunk);
    Ok(())
}

fn replay_chunks(
    chunks: &Receiver<Vec<StoredJob>>,
    results: &SyncSender<Vec<Outcome>>,
    replay: fn(StoredJob) -> Result<ReplayedJob, String>,
) {
    for chunk in chunks {
        let outcome = |job: StoredJob| (JobId::new(job.id), replay(job));
        if results.send(chunk.into_iter().map(outcome).collect()).is_err() {
            return;
        }
    }
}
