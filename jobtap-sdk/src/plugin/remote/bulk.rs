//! Bulk execution: one process for each of some ranks, with one time limit, terminated together. Flux
//! runs prologs, epilogs and health checks in this way.
//!
//! The manager may not have room for all of them at once, and queues the others. So the time limit of a
//! process counts from its own start, and a process that never started says nothing about its rank.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;

use super::handle::Remote;
use super::process::Signals;
use super::timers::Timer;
use crate::host::errors::failure::Gone;
use crate::host::{
    LineSink, OutputLine, Process, ProcessEnd, ProcessError, ProcessResult, RemoteHandle,
};
use crate::job::{Signal, Timestamp, WaitStatus};
use crate::plugin::cx::arguments::IsSeconds;
use crate::resource::Idset;

/// A process for each of some ranks, [on its node](Process::on_rank).
///
/// ```
/// # use jobtap_core::prelude::*;
/// use jobtap_core::plugin::Bulk;
///
/// #[derive(Default)]
/// struct Checks;
///
/// #[jobtap_plugin(name = "checks")]
/// impl Checks {
///     #[on("job.state.run")]
///     async fn check(r: ResourceSet, remote: Remote<Self>) -> Result<(), PrologFailed> {
///         let bulk = Bulk::new(&r.ranks(), Process::new("check-node")).timeout(30.0);
///         let end = remote.start_bulk(bulk, |_, _| {}).wait().await?;
///         match end.status().is_success() && end.stopped.is_none() {
///             true => Ok(()),
///             false => Err(PrologFailed::new(format!("check-node: {}", r.place(&end.failed())))),
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Bulk {
    ranks: Idset,
    process: Process,
    limits: Limits,
}

#[derive(Debug, Clone, PartialEq)]
struct Limits {
    timeout: Option<f64>,
    kill_timeout: f64,
    give_up_when_late: bool,
}

impl Bulk {
    /// Runs this process for each of the ranks; its environment variable `JOBTAP_RANK` contains the rank.
    pub fn new(ranks: &Idset, process: Process) -> Self {
        let limits = Limits { timeout: None, kill_timeout: 60.0, give_up_when_late: false };
        Self { ranks: ranks.clone(), process, limits }
    }

    /// Terminates each process this many seconds after its own start, however long it was queued. Without
    /// it there is no time limit.
    pub fn timeout(mut self, seconds: impl IsSeconds) -> Self {
        self.limits.timeout = Some(seconds.into_secs());
        self
    }

    /// Kills each process this many seconds after it was terminated; the default is 60.
    pub fn kill_timeout(mut self, seconds: impl IsSeconds) -> Self {
        self.limits.kill_timeout = seconds.into_secs();
        self
    }

    /// Once one process exceeds the time limit, starts no more queued ones. Use it where one timeout makes
    /// the whole fail, as in a prolog: otherwise each rank that hangs delays it by another time limit.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # use jobtap_core::plugin::Bulk;
    /// fn checks(ranks: &Idset) -> Bulk {
    ///     Bulk::new(ranks, Process::new("check-node")).timeout(30.0).give_up_when_late()
    /// }
    /// ```
    #[must_use]
    pub fn give_up_when_late(mut self) -> Self {
        self.limits.give_up_when_late = true;
        self
    }
}

/// Why processes were terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkStop {
    /// By [`BulkControl::stop`].
    Requested,
    /// One exceeded the time limit.
    TimedOut,
}

/// How the processes of a [`Bulk`] ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BulkEnd {
    /// How each process ended, by rank.
    pub ends: BTreeMap<u32, ProcessResult>,
    /// Why processes were terminated, if any were; the first reason if there were two.
    pub stopped: Option<BulkStop>,
    /// The ranks whose process was terminated for that reason while it ran.
    pub late: Idset,
    /// The ranks whose process was terminated before it started. It counts as ended by SIGTERM, but
    /// neither as late nor as failed.
    pub not_started: Idset,
    /// The ranks whose process was killed, since it did not end after SIGTERM. Nothing waits for a killed
    /// process to end.
    pub killed: Idset,
}

impl BulkEnd {
    /// The greatest of all statuses. A process that could not be run counts with the status that a shell
    /// would report: 126 or 127.
    #[must_use]
    pub fn status(&self) -> WaitStatus {
        self.ends.values().map(status).max().unwrap_or_default()
    }

    /// The ranks whose process did not end with exit code 0, without those of `not_started`.
    #[must_use]
    pub fn failed(&self) -> Idset {
        let failed = self.ends.iter().filter(|(_, end)| !status(end).is_success());
        failed.map(|(rank, _)| *rank).filter(|rank| !self.not_started.contains(*rank)).collect()
    }

    /// The ranks whose process could not be run, and why.
    pub fn errors(&self) -> impl Iterator<Item = (u32, &ProcessError)> {
        self.ends.iter().filter_map(|(rank, end)| Some((*rank, end.as_ref().err()?)))
    }
}

fn status(end: &ProcessResult) -> WaitStatus {
    match end {
        Ok(end) => end.status,
        Err(error) => error.status().unwrap_or_default(),
    }
}

/// The running processes of a [`Bulk`]. Dropping it kills them.
#[derive(Debug)]
#[must_use = "dropping it kills the processes"]
pub struct BulkChild {
    control: BulkControl,
    end: oneshot::Receiver<BulkEnd>,
}

impl BulkChild {
    /// A handle that inspects and terminates the processes while this one waits.
    pub fn control(&self) -> BulkControl {
        self.control.clone()
    }

    /// Waits until all processes have ended. The future can be dropped, and the method called again.
    ///
    /// # Errors
    /// When the plugin was removed or the manager stopped.
    pub async fn wait(&mut self) -> Result<BulkEnd, Gone> {
        self.control.remote.wait(&mut self.end).await.map_err(|_| Gone)
    }
}

impl Drop for BulkChild {
    fn drop(&mut self) {
        let left = self.control.active();
        self.control.kill(&left);
    }
}

/// Inspects the processes of a [`Bulk`] and terminates them; [`BulkChild::control`] returns it. Dropping
/// it does nothing.
#[derive(Clone)]
pub struct BulkControl {
    state: Arc<Mutex<State>>,
    remote: RemoteHandle,
}

struct State {
    total: usize,
    limits: Limits,
    /// The processes that have not ended.
    active: BTreeMap<u32, Active>,
    end: BulkEnd,
    waiter: Option<oneshot::Sender<BulkEnd>>,
}

struct Active {
    process: Signals,
    phase: Phase,
    deadline: Option<Timestamp>,
    timer: Option<Timer>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Queued,
    /// Terminated before it started.
    Dequeued,
    Running,
    /// Terminated while it ran.
    Terminated,
}

impl State {
    fn ranks(&self, wanted: impl Fn(Phase) -> bool) -> Idset {
        let ranks = self.active.iter().filter(|(_, active)| wanted(active.phase));
        ranks.map(|(rank, _)| *rank).collect()
    }
}

impl BulkControl {
    /// The number of processes, including those that have ended.
    #[must_use]
    pub fn total(&self) -> usize {
        self.lock().total
    }

    /// The ranks whose process has not ended.
    #[must_use]
    pub fn active(&self) -> Idset {
        self.lock().ranks(|_| true)
    }

    /// The ranks whose process is queued: it starts when the manager has room for one more.
    #[must_use]
    pub fn queued(&self) -> Idset {
        self.lock().ranks(|phase| matches!(phase, Phase::Queued | Phase::Dequeued))
    }

    /// Why processes were terminated, if any were; the first reason if there were two.
    #[must_use]
    pub fn stopped(&self) -> Option<BulkStop> {
        self.lock().end.stopped
    }

    /// When the next process will be terminated, or killed if it was terminated already.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        let state = self.lock();
        let deadlines = state.active.values().filter_map(|active| active.deadline);
        deadlines.min_by(|a, b| a.as_secs().total_cmp(&b.as_secs()))
    }

    /// Terminates all processes by SIGTERM, and starts none of the queued ones. No effect on a process that
    /// was terminated before.
    pub fn stop(&self) {
        let mut state = self.lock();
        let first = state.end.stopped.is_none();
        for rank in state.ranks(|_| true).iter() {
            self.terminate(&mut state, rank, BulkStop::Requested);
        }
        // If no process could be terminated, no reason is recorded, and none is late.
        if first && state.end.stopped.is_some() {
            state.end.late = state.ranks(|phase| phase == Phase::Terminated);
        }
    }

    fn started(&self, rank: u32) {
        let mut state = self.lock();
        let seconds = state.limits.timeout;
        if let Some(active) = state.active.get_mut(&rank)
            && active.phase == Phase::Queued
        {
            active.phase = Phase::Running;
            if let Some(seconds) = seconds {
                active.arm(self, rank, seconds, Self::timed_out);
            }
        }
    }

    fn timed_out(&self, rank: u32) {
        let mut state = self.lock();
        if !self.terminate(&mut state, rank, BulkStop::TimedOut) {
            return;
        }
        if state.end.stopped == Some(BulkStop::TimedOut) {
            state.end.late.insert(rank);
        }
        if state.limits.give_up_when_late {
            for rank in state.ranks(|phase| phase == Phase::Queued).iter() {
                self.terminate(&mut state, rank, BulkStop::TimedOut);
            }
        }
    }

    /// Terminates one process, unless it was terminated before.
    fn terminate(&self, state: &mut State, rank: u32, why: BulkStop) -> bool {
        let seconds = state.limits.kill_timeout;
        let Some(active) = state.active.get_mut(&rank) else { return false };
        active.phase = match active.phase {
            Phase::Queued => Phase::Dequeued,
            Phase::Running => Phase::Terminated,
            Phase::Dequeued | Phase::Terminated => return false,
        };
        active.process.send(Signal::TERM.number());
        active.arm(self, rank, seconds, |control, rank| control.kill(&Idset::from(rank)));
        state.end.stopped.get_or_insert(why);
        true
    }

    fn kill(&self, ranks: &Idset) {
        let mut state = self.lock();
        for rank in ranks.iter() {
            let Some(active) = state.active.remove(&rank) else { continue };
            // The end of the process is recorded here, without waiting for it: one that hangs in the kernel
            // doesn't end by SIGKILL either.
            active.process.send(Signal::KILL.number());
            active.disarm();
            let status = WaitStatus::from_signal(Signal::KILL.number());
            let end = ProcessEnd { status, stdout: Vec::new(), stderr: Vec::new() };
            state.end.ends.insert(rank, Ok(end));
            state.end.killed.insert(rank);
        }
        Self::finish(state);
    }

    fn ended(&self, rank: u32, end: ProcessResult) {
        let mut state = self.lock();
        if let Err(ProcessError::Gone(_)) = end {
            // The waiter gets `Gone` too. The lock is released first, since the waiter may take it.
            let waiter = state.waiter.take();
            drop(state);
            drop(waiter);
        } else if let Some(active) = state.active.remove(&rank) {
            if active.phase == Phase::Dequeued {
                state.end.not_started.insert(rank);
            }
            active.disarm();
            state.end.ends.insert(rank, end);
            Self::finish(state);
        }
    }

    /// Wakes the waiter when no process is left.
    fn finish(mut state: MutexGuard<'_, State>) {
        if !state.active.is_empty() {
            return;
        }
        if let Some(waiter) = state.waiter.take() {
            let end = state.end.clone();
            // Released before the waiter is woken, since the waiter may take the lock.
            drop(state);
            let _ = waiter.send(end);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Active {
    fn arm(&mut self, control: &BulkControl, rank: u32, seconds: f64, then: fn(&BulkControl, u32)) {
        let (noted, control) = (control.clone(), control.clone());
        let due = move |at| {
            if let Some(active) = noted.lock().active.get_mut(&rank) {
                active.deadline = Some(at);
            }
        };
        let remote = control.remote.clone();
        let timer = remote.after(seconds, due, move || then(&control, rank));
        let timer = Timer::new(timer, remote);
        if let Some(before) = self.timer.replace(timer) {
            before.cancel();
        }
    }

    fn disarm(self) {
        if let Some(timer) = self.timer {
            timer.cancel();
        }
    }
}

impl fmt::Debug for BulkControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkControl").field("active", &self.active()).finish_non_exhaustive()
    }
}

impl<P: 'static> Remote<P> {
    /// Starts a process for each rank of a [`Bulk`], as far as the manager has room, and calls `line` with
    /// the rank and each line that its process prints, off the manager's thread.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # use jobtap_core::plugin::Bulk;
    /// # struct Checks;
    /// # async fn example(ranks: Idset, remote: Remote<Checks>) {
    /// let log = remote.clone();
    /// let bulk = Bulk::new(&ranks, Process::new("check-node"));
    /// let mut child = remote.start_bulk(bulk, move |rank, line| {
    ///     log.run(move |_, cx| cx.log(Level::Info, format!("rank {rank}: {}", line.text)));
    /// });
    /// let _ = child.wait().await;
    /// # }
    /// ```
    pub fn start_bulk(
        &self,
        bulk: Bulk,
        line: impl FnMut(u32, OutputLine) + Clone + Send + 'static,
    ) -> BulkChild {
        let (waiter, end) = oneshot::channel();
        let state = State {
            total: bulk.ranks.len(),
            limits: bulk.limits,
            active: BTreeMap::new(),
            end: BulkEnd::default(),
            waiter: Some(waiter),
        };
        let state = Arc::new(Mutex::new(state));
        let control = BulkControl { state, remote: self.handle().clone() };
        // Locked until all are registered: otherwise a process that ends early would find no others and
        // finish the whole.
        let mut state = control.lock();
        for rank in bulk.ranks.iter() {
            let process = bulk.process.clone().on_rank(rank);
            let (mut line, starting) = (line.clone(), control.clone());
            let lines = LineSink::new(move |text| line(rank, text));
            let started = Box::new(move || starting.started(rank));
            let mut child = self.start(process, Some(lines), Some(started));
            // The child itself moves into the future that waits; signals go through this handle.
            let process = child.signals();
            let active = Active { process, phase: Phase::Queued, deadline: None, timer: None };
            state.active.insert(rank, active);
            let control = control.clone();
            self.spawn(async move {
                let end = child.wait().await;
                control.ended(rank, end);
            });
        }
        // Finishes at once if there are no ranks.
        BulkControl::finish(state);
        BulkChild { control, end }
    }
}
