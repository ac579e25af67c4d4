//! Threads that wait in place of the shepherd's, which serves the jobs of all users and must not wait for any of them.
//!
//! Each user has threads of their own, and few: a user who lets them all wait delays only their own jobs. A thread is
//! started when there is work for it and all others are busy, and ends when it had no work for a while.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// The maximum number of threads for one user: of jobs that let a thread wait, so many harm no other job of the user.
const MOST_THREADS: usize = 32;

/// How long a thread without work is kept.
const IDLE: Duration = Duration::from_secs(10);

/// The pause before the system is asked again for a thread that it has refused.
const RETRY: Duration = Duration::from_millis(100);

type Work = Box<dyn FnOnce() + Send>;

/// The threads of all users.
#[derive(Default)]
pub(super) struct AllHelpers(HashMap<u32, Arc<Helpers>>);

impl AllHelpers {
    /// Those for the jobs of a user.
    pub(super) fn get(&mut self, userid: u32) -> &Arc<Helpers> {
        self.0.entry(userid).or_default()
    }
}

/// The threads of one user.
#[derive(Default)]
pub(super) struct Helpers {
    state: Mutex<State>,
    /// There is work.
    wake: Condvar,
}

#[derive(Default)]
struct State {
    work: VecDeque<Work>,
    threads: usize,
    idle: usize,
}

impl Helpers {
    /// Does `work` on one of the threads. If the caller stops waiting, the work is done nevertheless.
    ///
    /// # Errors
    /// The work has panicked.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (sender, mut result) = oneshot::channel();
        self.begin(move || drop(sender.send(work())));
        loop {
            match timeout(RETRY, &mut result).await {
                Ok(result) => return result.map_err(io::Error::other),
                Err(_) => self.start_missing_threads(),
            }
        }
    }

    /// Does `work` on one of the threads, as soon as there is one for it.
    pub(super) fn begin(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        self.state().work.push_back(Box::new(work));
        self.wake.notify_one();
        self.start_missing_threads();
    }

    fn start_missing_threads(self: &Arc<Self>) {
        let mut state = self.state();
        while state.work.len() > state.idle && state.threads < MOST_THREADS {
            let helpers = Arc::clone(self);
            // The system may have no thread at the moment: `run` asks again.
            if Builder::new().name("helper".to_owned()).spawn(move || helpers.serve()).is_err() {
                return;
            }
            state.threads += 1;
            state.idle += 1;
        }
    }

    /// The life of one thread.
    fn serve(&self) {
        let mut state = self.state();
        loop {
            let Some(work) = state.work.pop_front() else {
                let (woken, waited) =
                    self.wake.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
                state = woken;
                if waited.timed_out() && state.work.is_empty() {
                    state.idle -= 1;
                    state.threads -= 1;
                    return;
                }
                continue;
            };
            state.idle -= 1;
            drop(state);
            work();
            state = self.state();
            state.idle += 1;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No lock is held while work is done, so that it is whole even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn work_is_done_while_other_work_waits() {
        let mut all = AllHelpers::default();
        let (hold, held) = channel::<()>();
        all.get(1).begin(move || assert!(held.recv().is_err()));
        assert_eq!(all.get(1).run(|| 7).await.unwrap(), 7);
        drop(hold);
    }

    #[tokio::test]
    async fn a_user_who_lets_all_threads_wait_has_no_other() {
        let mut all = AllHelpers::default();
        let holds: Vec<_> = (0..MOST_THREADS)
            .map(|_| {
                let (hold, held) = channel::<()>();
                all.get(1).begin(move || assert!(held.recv().is_err()));
                hold
            })
            .collect();
        assert!(timeout(RETRY * 3, all.get(1).run(|| ())).await.is_err());
        assert_eq!(all.get(1).state().threads, MOST_THREADS);
        assert_eq!(all.get(2).run(|| 7).await.unwrap(), 7);
        drop(holds);
        assert_eq!(all.get(1).run(|| 8).await.unwrap(), 8);
    }
}
