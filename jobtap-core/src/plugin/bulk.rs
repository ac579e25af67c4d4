//! Processes that belong together, one for each of some ranks: they are started at once, have one time
//! limit, are asked to end together, and are over when the last of them is. Flux calls it bulk
//! execution; its prologs, epilogs and health checks are run so.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::process::{OutputLine, Process, ProcessEnd, ProcessError, ProcessResult, Signals};
use super::remote::{Remote, RemoteHandle, Timer};
use super::waiting::{Answer, Gone, Waiting, oneshot};
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
    timeout: Option<f64>,
    kill_timeout: f64,
}

impl Bulk {
    /// This process for each of the ranks, which it finds in `JOBTAP_RANK`.
    pub fn new(ranks: &Idset, process: Process) -> Self {
        Self { ranks: ranks.clone(), process, timeout: None, kill_timeout: 60.0 }
    }

    /// They are asked to end after this many seconds; never if not said.
    pub fn timeout(self, seconds: f64) -> Self {
        Self { timeout: Some(seconds), ..self }
    }

    /// They are killed this many seconds after they were asked to end; 60 if not said.
    pub fn kill_timeout(self, seconds: f64) -> Self {
        Self { kill_timeout: seconds, ..self }
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
    /// Why they were asked to end, if they were.
    pub stopped: Option<BulkStop>,
    /// The ranks whose process still ran then.
    pub late: Idset,
    /// The ranks whose process was killed, since it had not ended when asked to. Nobody waited for that.
    pub killed: Idset,
}

impl BulkEnd {
    /// The greatest of all statuses; of a process that could not be run, what a shell would give.
    #[must_use]
    pub fn status(&self) -> WaitStatus {
        self.ends.values().map(status).max().unwrap_or_default()
    }

    /// The ranks whose process did not end with exit code 0.
    #[must_use]
    pub fn failed(&self) -> Idset {
        let failed = self.ends.iter().filter(|(_, end)| !status(end).is_success());
        failed.map(|(rank, _)| *rank).collect()
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
    end: Waiting<BulkEnd>,
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
        (&mut self.end).await
    }
}

impl Drop for BulkChild {
    fn drop(&mut self) {
        self.control.kill();
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
    active: BTreeMap<u32, Signals>,
    end: BulkEnd,
    kill_timeout: f64,
    deadline: Option<Timestamp>,
    timer: Option<Timer>,
    answer: Option<Answer<BulkEnd>>,
}

impl State {
    fn active(&self) -> Idset {
        self.active.keys().copied().collect()
    }
}

impl BulkControl {
    /// How many processes there are, or were.
    #[must_use]
    pub fn total(&self) -> usize {
        self.lock().total
    }

    /// The ranks whose process still runs.
    #[must_use]
    pub fn active(&self) -> Idset {
        self.lock().active()
    }

    /// Why they were asked to end, if they were.
    #[must_use]
    pub fn stopped(&self) -> Option<BulkStop> {
        self.lock().end.stopped
    }

    /// Until when they may run, or, once they were asked to end, when they will be killed.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.lock().deadline
    }

    /// Asks those that still run to end, by SIGTERM. No effect when they were asked before.
    pub fn stop(&self) {
        self.ask(BulkStop::Asked);
    }

    fn ask(&self, why: BulkStop) {
        let mut state = self.lock();
        if state.end.stopped.is_some() || state.active.is_empty() {
            return;
        }
        state.end.stopped = Some(why);
        state.end.late = state.active();
        state.active.values().for_each(|process| process.send(Signal::TERM.number()));
        let seconds = state.kill_timeout;
        self.arm(&mut state, seconds, BulkControl::kill);
    }

    fn arm(&self, state: &mut State, seconds: f64, then: fn(&Self)) {
        let (told, control) = (self.clone(), self.clone());
        let due = move |at| {
            let mut state = told.lock();
            state.deadline = Some(at).filter(|_| !state.active.is_empty());
        };
        let timer = self.remote.after(seconds, due, move || then(&control));
        if let Some(before) = state.timer.replace(timer) {
            before.cancel();
        }
    }

    fn kill(&self) {
        let mut state = self.lock();
        for (rank, process) in std::mem::take(&mut state.active) {
            process.send(Signal::KILL.number());
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
        } else if state.active.remove(&rank).is_some() {
            state.end.ends.insert(rank, end);
            Self::finish(state);
        }
    }

    /// When none runs any more, says so to the one who waits.
    fn finish(mut state: MutexGuard<'_, State>) {
        if !state.active.is_empty() {
            return;
        }
        state.deadline = None;
        if let Some(timer) = state.timer.take() {
            timer.cancel();
        }
        if let Some(answer) = state.answer.take() {
            let end = state.end.clone();
            // It wakes somebody who may look here.
            drop(state);
            answer.send(end);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (answer, end) = oneshot();
        let state = State {
            total: bulk.ranks.len(),
            active: BTreeMap::new(),
            end: BulkEnd::default(),
            kill_timeout: bulk.kill_timeout,
            deadline: None,
            timer: None,
            answer: Some(answer),
        };
        let state = Arc::new(Mutex::new(state));
        let control = BulkControl { state, remote: self.handle().clone() };
        let mut state = control.lock();
        for rank in bulk.ranks.iter() {
            let process = bulk.process.clone().env("JOBTAP_RANK", rank.to_string());
            let mut line = line.clone();
            let mut child = self.start_process_with(process, move |told| line(rank, told));
            state.active.insert(rank, child.signals());
            let control = control.clone();
            self.spawn(async move {
                let end = child.wait().await;
                control.ended(rank, end);
            });
        }
        if let Some(seconds) = bulk.timeout {
            control.arm(&mut state, seconds, |control| control.ask(BulkStop::TimedOut));
        }
        BulkControl::finish(state);
        BulkChild { control, end }
    }
}
