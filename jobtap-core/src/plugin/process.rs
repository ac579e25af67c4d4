//! Processes that plugins run beside jobs, such as a prolog's script. They run as the manager's user
//! on the manager's host, are waited for without blocking anything, and end with their plugin.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::host::Command;
use super::jobs::JobRef;
use super::remote::{Remote, RemoteHandle};
use super::waiting::{Answer, Gone, Waiting, oneshot};
use crate::job::WaitStatus;
use crate::resource::ResourceSet;

/// A process to run.
///
/// ```
/// # use jobtap_core::prelude::*;
/// #[derive(Default)]
/// struct Scratch;
///
/// #[jobtap_plugin(name = "scratch")]
/// impl Scratch {
///     #[on("job.state.run", timeout = "5m")]
///     async fn make(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
///         let done = remote
///             .run_process(Process::new("/usr/sbin/make-scratch").env("JOB", job.id.to_string()))
///             .await?;
///         done.success().map_err(|how| PrologFailed::new(format!("make-scratch: {how}")))
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The program; without a slash it is searched in the manager's `PATH`.
    pub program: String,
    /// Its arguments, the program's name left out.
    pub args: Vec<String>,
    /// Variables beside those of the manager.
    pub env: BTreeMap<String, String>,
    /// Where it runs; the manager's directory if not said.
    pub cwd: Option<PathBuf>,
    /// Its standard input; closed if empty.
    pub stdin: Vec<u8>,
}

impl Process {
    /// A process of this program.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            stdin: Vec::new(),
        }
    }

    /// One more argument.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// More arguments.
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// One more variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// The variables by which a script knows the job that it is run for, as Flux's prologs and epilogs
    /// have them: `FLUX_JOB_ID`, `FLUX_JOB_RANKS` and `FLUX_JOB_USERID`, and the same with `JOBTAP_JOB_`.
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

    /// Where it runs.
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cwd = Some(directory.into());
        self
    }

    /// What it reads from standard input.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Exit code or signal.
    pub status: WaitStatus,
    /// What it printed, up to a limit of the host.
    pub stdout: Vec<u8>,
    /// What it complained of, up to a limit of the host.
    pub stderr: Vec<u8>,
}

impl ProcessEnd {
    /// Whether it ended with exit code 0.
    ///
    /// # Errors
    /// How it ended else, in words: `exit code 3`, `killed by signal 9`.
    pub fn success(&self) -> Result<(), String> {
        match (self.status.is_success(), self.status.signaled()) {
            (true, _) => Ok(()),
            (false, Some(signal)) => Err(format!("killed by signal {signal}")),
            (false, None) => {
                let code = self.status.exit_code().unwrap_or(u8::MAX);
                Err(format!("exit code {code}"))
            }
        }
    }
}

/// A process that could not be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    /// It did not start.
    #[error("{program}: {reason}")]
    Start {
        /// The program.
        program: String,
        /// What the system says.
        reason: String,
        /// The same, for programs.
        kind: ErrorKind,
    },
    /// The plugin was unloaded or the manager stopped.
    #[error(transparent)]
    Gone(#[from] Gone),
}

impl ProcessError {
    /// What a shell would give for its status: exit code 127 for a program that isn't there, 126 for one
    /// that can't be run. None when nobody knows how it ended.
    ///
    /// ```
    /// use std::io::ErrorKind;
    ///
    /// use jobtap_core::plugin::ProcessError;
    ///
    /// let (program, reason) = ("/etc/prolog".to_owned(), "Permission denied".to_owned());
    /// let error = ProcessError::Start { program, reason, kind: ErrorKind::PermissionDenied };
    /// assert_eq!(error.status().and_then(|status| status.exit_code()), Some(126));
    /// ```
    #[must_use]
    pub fn status(&self) -> Option<WaitStatus> {
        match self {
            Self::Start { kind: ErrorKind::NotFound, .. } => Some(WaitStatus::from_exit_code(127)),
            Self::Start { .. } => Some(WaitStatus::from_exit_code(126)),
            Self::Gone(_) => None,
        }
    }
}

/// Names a process of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessKey(pub u64);

/// What is told of a process when it has ended.
pub type ProcessResult = Result<ProcessEnd, ProcessError>;

/// Where a process printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A line that a process printed, without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLine {
    /// Where.
    pub stream: Stream,
    /// What; bytes that aren't UTF-8 are replaced.
    pub text: String,
}

/// Takes the lines that a process prints, as they come.
#[derive(Clone)]
pub struct LineSink(Arc<Mutex<dyn FnMut(OutputLine) + Send>>);

impl LineSink {
    pub(super) fn new(line: impl FnMut(OutputLine) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(line)))
    }

    /// Hands over a line.
    pub fn send(&self, line: OutputLine) {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner))(line);
    }
}

impl fmt::Debug for LineSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LineSink")
    }
}

/// Takes to the one who waits what becomes of a process.
pub struct ProcessAnswer {
    end: Answer<ProcessResult>,
    begun: Option<Begun>,
}

/// Hears that a process runs now.
pub(super) type Begun = Box<dyn FnOnce() + Send>;

impl ProcessAnswer {
    /// One for a host that tries itself, and what comes out at its other end.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// use jobtap_core::plugin::{PluginKey, ProcessAnswer, ProcessCommand, ProcessEnd, ProcessError, ProcessKey};
    ///
    /// async fn run(
    ///     host: impl Fn(PluginKey, ProcessCommand),
    /// ) -> Result<ProcessEnd, ProcessError> {
    ///     let (answer, end) = ProcessAnswer::pair();
    ///     let (key, process) = (ProcessKey(1), Process::new("true"));
    ///     host(PluginKey(1), ProcessCommand::Run { key, process, lines: None, answer });
    ///     end.await
    /// }
    /// ```
    pub fn pair() -> (Self, impl Future<Output = ProcessResult> + Send) {
        let (end, waiting) = oneshot();
        (Self { end, begun: None }, async { waiting.await? })
    }

    /// Tells that the process runs now, which may be long after it was asked for: its time limit counts
    /// from here. Told once; not at all of a process that can't be started or is ended before.
    pub fn begun(&mut self) {
        if let Some(begun) = self.begun.take() {
            begun();
        }
    }

    /// Hands over its end.
    pub fn send(self, result: ProcessResult) {
        self.end.send(result);
    }
}

impl fmt::Debug for ProcessAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProcessAnswer")
    }
}

/// What a host does with processes.
#[derive(Debug)]
pub enum ProcessCommand {
    /// Run one, in a process group of its own.
    Run {
        /// Names it from now on.
        key: ProcessKey,
        /// What to run.
        process: Process,
        /// Where the lines go that it prints, if anybody wants them.
        lines: Option<LineSink>,
        /// Where its beginning and its end go. When this is dropped the one who waits gets [`Gone`].
        answer: ProcessAnswer,
    },
    /// Send a signal to its process group. One that waits for its turn is ended by what would end it. No
    /// effect once it has ended.
    Signal {
        /// Which one.
        key: ProcessKey,
        /// The signal's number.
        signum: i32,
    },
    /// Kill all processes of the plugin, which is gone.
    KillAll,
}

/// A running process of a plugin. Dropping it kills the process with all that it has started.
#[derive(Debug)]
#[must_use = "dropping it kills the process"]
pub struct Child {
    key: ProcessKey,
    remote: RemoteHandle,
    end: Waiting<ProcessResult>,
    ended: bool,
}

const SIGKILL: i32 = 9;

impl<P: 'static> Remote<P> {
    /// Starts a process.
    pub fn start_process(&self, process: Process) -> Child {
        self.start(process, None, None)
    }

    /// Starts a process whose output is wanted line by line, beside what its end brings. `line` is
    /// called off the manager's thread; a plugin logs from there with [`Remote::run`].
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
        begun: Option<Begun>,
    ) -> Child {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let key = ProcessKey(NEXT.fetch_add(1, Ordering::Relaxed));
        let (answer, end) = oneshot();
        let answer = ProcessAnswer { end: answer, begun };
        let run = ProcessCommand::Run { key, process, lines, answer };
        self.handle().commands(vec![Command::Process(run)]);
        Child { key, remote: self.handle().clone(), end, ended: false }
    }

    /// Runs a process and waits for its end.
    ///
    /// # Errors
    /// When it can't be started. A process that fails is no error here: see
    /// [`ProcessEnd::status`].
    pub async fn run_process(&self, process: Process) -> ProcessResult {
        self.start_process(process).wait().await
    }
}

/// Sends signals to a process while somebody else waits for its end; got from [`Child::signals`].
/// Dropping it does nothing.
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
    /// Sends a signal to the process and all that it has started. No effect once it has ended.
    pub fn send(&self, signum: i32) {
        let signal = ProcessCommand::Signal { key: self.key, signum };
        self.remote.commands(vec![Command::Process(signal)]);
    }
}

impl Child {
    /// Sends a signal to the process and all that it has started.
    pub fn signal(&self, signum: i32) {
        self.signals().send(signum);
    }

    /// What sends it signals, to be kept apart from what waits for it.
    pub fn signals(&self) -> Signals {
        Signals { key: self.key, remote: self.remote.clone() }
    }

    /// Waits for its end. May be given up and called again.
    ///
    /// # Errors
    /// When it could not be started, or the plugin was unloaded.
    pub async fn wait(&mut self) -> ProcessResult {
        let result = (&mut self.end).await;
        self.ended = true;
        result?
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended {
            self.signal(SIGKILL);
        }
    }
}
