//! Processes that plugins run beside jobs, such as the script of a prolog. They run as the manager's
//! user on the manager's host, and are killed when their plugin is removed.

use std::sync::atomic::{AtomicU64, Ordering};

use futures_channel::oneshot;

use super::handle::Remote;
use crate::host::errors::failure::Gone;
use crate::host::off_thread::process::Started;
use crate::host::{
    Command, LineSink, OutputLine, Process, ProcessAnswer, ProcessCommand, ProcessKey,
    ProcessResult, RemoteHandle,
};
use crate::plugin::cx::jobs::JobRef;
use crate::resource::ResourceSet;

impl Process {
    /// Sets the environment variables that describe a job to its prologs and epilogs, as in Flux:
    /// `FLUX_JOB_ID`, `FLUX_JOB_RANKS` and `FLUX_JOB_USERID`, and the same three as `JOBTAP_JOB_*`.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn check(job: &Job) -> Process {
    ///     Process::new("/usr/sbin/check-nodes").for_job(job)
    /// }
    /// ```
    pub fn for_job<'a>(mut self, job: impl Into<JobRef<'a>>) -> Self {
        let job = job.into();
        let ranks = job.resources().map(ResourceSet::ranks).unwrap_or_default();
        let (id, user) = (job.id().to_string(), job.userid().to_string());
        for (name, value) in [("ID", id), ("RANKS", ranks.to_string()), ("USERID", user)] {
            self = self.env(format!("FLUX_JOB_{name}"), value.clone());
            self = self.env(format!("JOBTAP_JOB_{name}"), value);
        }
        self
    }
}

/// A running process of a plugin. Dropping it kills the process with all processes that it has started.
#[derive(Debug)]
#[must_use = "dropping it kills the process"]
pub struct Child {
    key: ProcessKey,
    remote: RemoteHandle,
    end: oneshot::Receiver<ProcessResult>,
    ended: bool,
}

const SIGKILL: i32 = 9;

impl<P: 'static> Remote<P> {
    /// Starts a process. [`Child::wait`] returns its output;
    /// [`start_process_with`](Self::start_process_with) passes on each line as it is printed.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # struct Backup;
    /// # async fn example(remote: Remote<Backup>) {
    /// let mut child = remote.start_process(Process::new("backup").arg("--all"));
    /// if remote.timeout(60.0, child.wait()).await.is_err() {
    ///     child.signal(15);
    /// }
    /// # }
    /// ```
    pub fn start_process(&self, process: Process) -> Child {
        self.start(process, None, None)
    }

    /// Starts a process and calls `line` with each line that it prints, off the manager's thread. To log
    /// from there, use [`Remote::run`]. [`Child::wait`] returns the output, too.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # struct Scratch;
    /// # async fn example(remote: Remote<Scratch>) {
    /// let log = remote.clone();
    /// let mut child = remote.start_process_with(Process::new("make-scratch"), move |line| {
    ///     log.run(move |_, cx| cx.log(Level::Info, line.text));
    /// });
    /// let _ = child.wait().await;
    /// # }
    /// ```
    pub fn start_process_with(
        &self,
        process: Process,
        line: impl FnMut(OutputLine) + Send + 'static,
    ) -> Child {
        self.start(process, Some(LineSink::new(line)), None)
    }

    pub(super) fn start(
        &self,
        process: Process,
        lines: Option<LineSink>,
        started: Option<Started>,
    ) -> Child {
        // Chosen here and not by the host, so that a signal can be sent before the host has started the
        // process.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let key = ProcessKey(NEXT.fetch_add(1, Ordering::Relaxed));
        let (sender, end) = oneshot::channel();
        let answer = ProcessAnswer { end: sender, started };
        let run = ProcessCommand::Run { key, process, lines, answer };
        self.handle().commands(vec![Command::Process(run)]);
        Child { key, remote: self.handle().clone(), end, ended: false }
    }

    /// Runs a process and waits for its end.
    ///
    /// # Errors
    /// When the process can't be started, or the plugin was removed. A process that exits with a status
    /// other than 0 is not an error here: see [`ProcessEnd::status`](crate::plugin::ProcessEnd::status).
    pub async fn run_process(&self, process: Process) -> ProcessResult {
        self.start_process(process).wait().await
    }
}

/// Sends signals to a process independently of the [`Child`] that waits for its end;
/// [`Child::signals`] returns it. Dropping it does nothing.
///
/// ```
/// # use jobtap_core::prelude::*;
/// use jobtap_core::plugin::Signals;
///
/// struct Backup { running: Option<Signals> }
///
/// impl Backup {
///     fn start(&mut self, remote: Remote<Self>) {
///         let mut child = remote.start_process(Process::new("backup"));
///         self.running = Some(child.signals());
///         remote.clone().spawn(async move {
///             let _ = child.wait().await;
///             remote.run(|backup, _| backup.running = None);
///         });
///     }
///
///     fn stop(&self) {
///         self.running.iter().for_each(|running| running.send(15));
///     }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Signals {
    key: ProcessKey,
    remote: RemoteHandle,
}

impl Signals {
    /// Sends a signal, by its number, to the process and all processes that it has started. No effect
    /// once it has ended.
    pub fn send(&self, signum: i32) {
        let signal = ProcessCommand::Signal { key: self.key, signum };
        self.remote.commands(vec![Command::Process(signal)]);
    }
}

impl Child {
    /// Sends a signal, by its number, to the process and all processes that it has started.
    pub fn signal(&self, signum: i32) {
        self.signals().send(signum);
    }

    /// A handle that sends signals while this one waits.
    pub fn signals(&self) -> Signals {
        Signals { key: self.key, remote: self.remote.clone() }
    }

    /// Waits for the end of the process. The future can be dropped, and the method called again.
    ///
    /// # Errors
    /// When the process could not be started, or the plugin was removed.
    pub async fn wait(&mut self) -> ProcessResult {
        let result = self.remote.wait(&mut self.end).await;
        // After the await: a future that is dropped before must leave the process to `Drop`.
        self.ended = true;
        result.map_err(|_| Gone)?
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended {
            self.signal(SIGKILL);
        }
    }
}
