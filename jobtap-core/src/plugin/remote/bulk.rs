//! Processes that belong together, one for each of some ranks: they are started at once, have the same time
//! limit, are asked to end together, and are over when the last of them is. Flux calls it bulk
//! execution; its prologs, epilogs and health checks are run so.
//!
//! The manager may not have room for all of them at once. So each one's time counts from its own beginning,
//! and one that never began says nothing of its rank.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;

use super::handle::{Remote, Timer};
use super::process::Signals;
use crate::host::failure::Gone;
use crate::host::{
    LineSink, OutputLine, Process, ProcessEnd, ProcessError, ProcessResult, RemoteHandle,
};
use crate::job::{Signal, Timestamp, WaitStatus};
use crate::resource::Idset;

/// What is to be run for each of some ranks, on the manager's host as every [`Process`].
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
    /// This process for each of the ranks, which it finds in `JOBTAP_RANK`.
    pub fn new(ranks: &Idset, process: Process) -> Self {
        let limits = Limits { timeout: None, kill_timeout: 60.0, give_up_when_late: false };
        Self { ranks: ranks.clone(), process, limits }
    }

    /// Each is asked to end this many seconds after its own process began, however long it waited for its
    /// turn; never if not said.
    pub fn timeout(mut self, seconds: f64) -> Self {
        self.limits.timeout = Some(seconds);
        self
    }

    /// They are killed this many seconds after they were asked to end; 60 if not said.
    pub fn kill_timeout(mut self, seconds: f64) -> Self {
        self.limits.kill_timeout = seconds;
        self
    }

    /// Once the time of one is over, those that still wait for their turn are not begun any more. For
    /// something that has failed as a whole then, so that ranks that hang don't keep it for hours.
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

/// Why processes were asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkStop {
    /// By [`BulkControl::stop`].
    Asked,
    /// They took too long.
    TimedOut,
}

/// How the processes of a [`Bulk`] ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BulkEnd {
    /// Each one's end.
    pub ends: BTreeMap<u32, ProcessResult>,
    /// Why they were asked to end, if they were; the first reason if there were two.
    pub stopped: Option<BulkStop>,
    /// The ranks whose process was asked to end for that reason while it ran.
    pub late: Idset,
    /// The ranks whose process was asked to end before it began. They count as ended by SIGTERM, but
    /// neither as late nor as failed.
    pub unbegun: Idset,
    /// The ranks whose process was killed, since it had not ended when asked to. Nobody waited for that.
    pub killed: Idset,
}

impl BulkEnd {
    /// The greatest of all statuses; of a process that could not be run, what a shell would give.
    #[must_use]
    pub fn status(&self) -> WaitStatus {
        self.ends.values().map(status).max().unwrap_or_default()
    }

    /// The ranks whose process began, or should have, and did not end with exit code 0.
    #[must_use]
    pub fn failed(&self) -> Idset {
        let failed = self.ends.iter().filter(|(_, end)| !status(end).is_success());
        failed.map(|(rank, _)| *rank).filter(|rank| !self.unbegun.contains(*rank)).collect()
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
    /// What looks at them and ends them, to be kept apart from what waits for them.
    pub fn control(&self) -> BulkControl {
        self.control.clone()
    }

    /// Waits until all have ended. May be given up and called again.
    ///
    /// # Errors
    /// When the plugin was unloaded.
    pub async fn wait(&mut self) -> Result<BulkEnd, Gone> {
        (&mut self.end).await.map_err(|_| Gone)
    }
}

impl Drop for BulkChild {
    fn drop(&mut self) {
        let left = self.control.active();
        self.control.kill(&left);
    }
}

/// Looks at the processes of a [`Bulk`] and ends them; got from [`BulkChild::control`]. Dropping it does
/// nothing.
#[derive(Clone)]
pub struct BulkControl {
    state: Arc<Mutex<State>>,
    remote: RemoteHandle,
}

struct State {
    total: usize,
    limits: Limits,
    /// What has not ended.
    active: BTreeMap<u32, Active>,
    end: BulkEnd,
    answer: Option<oneshot::Sender<BulkEnd>>,
}

struct Active {
    process: Signals,
    phase: Phase,
    deadline: Option<Timestamp>,
    timer: Option<Timer>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Waits,
    /// Asked to end while it waited.
    GivenUp,
    Runs,
    /// Asked to end while it ran.
    Asked,
}

impl State {
    fn ranks(&self, wanted: impl Fn(Phase) -> bool) -> Idset {
        let ranks = self.active.iter().filter(|(_, active)| wanted(active.phase));
        ranks.map(|(rank, _)| *rank).collect()
    }
}

impl BulkControl {
    /// How many processes there are, or were.
    #[must_use]
    pub fn total(&self) -> usize {
        self.lock().total
    }

    /// The ranks whose process has not ended.
    #[must_use]
    pub fn active(&self) -> Idset {
        self.lock().ranks(|_| true)
    }

    /// Those of them whose process has not begun: it waits until the manager has room for one more.
    #[must_use]
    pub fn waiting(&self) -> Idset {
        self.lock().ranks(|phase| matches!(phase, Phase::Waits | Phase::GivenUp))
    }

    /// Why they were asked to end, if they were; the first reason if there were two.
    #[must_use]
    pub fn stopped(&self) -> Option<BulkStop> {
        self.lock().end.stopped
    }

    /// When the next one will be asked to end, or, if it was, be killed.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        let state = self.lock();
        let deadlines = state.active.values().filter_map(|active| active.deadline);
        deadlines.min_by(|a, b| a.as_secs().total_cmp(&b.as_secs()))
    }

    /// Asks those that have not ended to do so, by SIGTERM, and begins none any more. No effect on what
    /// was asked before.
    pub fn stop(&self) {
        let mut state = self.lock();
        let first = state.end.stopped.is_none();
        for rank in state.ranks(|_| true).iter() {
            self.ask(&mut state, rank, BulkStop::Asked);
        }
        if first && state.end.stopped.is_some() {
            state.end.late = state.ranks(|phase| phase == Phase::Asked);
        }
    }

    fn begun(&self, rank: u32) {
        let mut state = self.lock();
        let seconds = state.limits.timeout;
        if let Some(active) = state.active.get_mut(&rank)
            && active.phase == Phase::Waits
        {
            active.phase = Phase::Runs;
            if let Some(seconds) = seconds {
                active.arm(self, rank, seconds, Self::timed_out);
            }
        }
    }

    fn timed_out(&self, rank: u32) {
        let mut state = self.lock();
        if !self.ask(&mut state, rank, BulkStop::TimedOut) {
            return;
        }
        if state.end.stopped == Some(BulkStop::TimedOut) {
            state.end.late.insert(rank);
        }
        if state.limits.give_up_when_late {
            for rank in state.ranks(|phase| phase == Phase::Waits).iter() {
                self.ask(&mut state, rank, BulkStop::TimedOut);
            }
        }
    }

    /// Asks one to end, unless it was asked before.
    fn ask(&self, state: &mut State, rank: u32, why: BulkStop) -> bool {
        let seconds = state.limits.kill_timeout;
        let Some(active) = state.active.get_mut(&rank) else { return false };
        active.phase = match active.phase {
            Phase::Waits => Phase::GivenUp,
            Phase::Runs => Phase::Asked,
            Phase::GivenUp | Phase::Asked => return false,
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
            // Whoever waits learns the same, and may look here.
            let answer = state.answer.take();
            drop(state);
            drop(answer);
        } else if let Some(active) = state.active.remove(&rank) {
            if active.phase == Phase::GivenUp {
                state.end.unbegun.insert(rank);
            }
            active.disarm();
            state.end.ends.insert(rank, end);
            Self::finish(state);
        }
    }

    /// When none runs any more, says so to the one who waits.
    fn finish(mut state: MutexGuard<'_, State>) {
        if !state.active.is_empty() {
            return;
        }
        if let Some(answer) = state.answer.take() {
            let end = state.end.clone();
            // It wakes somebody who may look here.
            drop(state);
            let _ = answer.send(end);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Active {
    fn arm(&mut self, control: &BulkControl, rank: u32, seconds: f64, then: fn(&BulkControl, u32)) {
        let (told, control) = (control.clone(), control.clone());
        let due = move |at| {
            if let Some(active) = told.lock().active.get_mut(&rank) {
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
    /// Starts a process for each rank of a [`Bulk`]. `line` is called with the rank and each line that
    /// its process prints, off the manager's thread.
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
        let (answer, end) = oneshot::channel();
        let state = State {
            total: bulk.ranks.len(),
            limits: bulk.limits,
            active: BTreeMap::new(),
            end: BulkEnd::default(),
            answer: Some(answer),
        };
        let state = Arc::new(Mutex::new(state));
        let control = BulkControl { state, remote: self.handle().clone() };
        let mut state = control.lock();
        for rank in bulk.ranks.iter() {
            let process = bulk.process.clone().env("JOBTAP_RANK", rank.to_string());
            let (mut line, begins) = (line.clone(), control.clone());
            let lines = LineSink::new(move |told| line(rank, told));
            let begun = Box::new(move || begins.begun(rank));
            let mut child = self.start(process, Some(lines), Some(begun));
            let process = child.signals();
            let active = Active { process, phase: Phase::Waits, deadline: None, timer: None };
            state.active.insert(rank, active);
            let control = control.clone();
            self.spawn(async move {
                let end = child.wait().await;
                control.ended(rank, end);
            });
        }
        BulkControl::finish(state);
        BulkChild { control, end }
    }
}
