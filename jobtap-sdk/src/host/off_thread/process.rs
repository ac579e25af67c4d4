//! Processes of plugins, as a host runs them: as the manager's user, on the manager's host or another node.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures_channel::oneshot;

use crate::host::errors::failure::Gone;
use crate::job::WaitStatus;

/// A process that a plugin runs: a program with arguments, variables and standard input.
///
/// [`Remote::run_process`](crate::plugin::Remote::run_process) runs it and waits for its end.
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
    /// The program; without a slash it is looked up in the manager's `PATH`.
    pub program: String,
    /// The arguments, without the program's name.
    pub args: Vec<String>,
    /// Environment variables that are added to the manager's.
    pub env: BTreeMap<String, String>,
    /// The working directory; without one, the manager's.
    pub cwd: Option<PathBuf>,
    /// The standard input; closed if empty.
    pub stdin: Vec<u8>,
    /// The rank of the node on which it runs; without one, on the manager's host. Our own manager has several nodes in an
    /// allocation; in Flux and Slurm a process runs where its host runs the plugin.
    pub rank: Option<u32>,
}

impl Process {
    /// A process of this program, without arguments.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            stdin: Vec::new(),
            rank: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets the working directory.
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cwd = Some(directory.into());
        self
    }

    /// Runs it on the node of this rank, and sets the variable `JOBTAP_RANK` to it.
    ///
    /// ```
    /// use jobtap_core::plugin::Process;
    ///
    /// let check = Process::new("check-node").on_rank(2);
    /// assert_eq!((check.rank, check.env["JOBTAP_RANK"].as_str()), (Some(2), "2"));
    /// ```
    pub fn on_rank(mut self, rank: u32) -> Self {
        self.rank = Some(rank);
        self.env("JOBTAP_RANK", rank.to_string())
    }

    /// Sets the standard input.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEnd {
    /// The exit code or signal.
    pub status: WaitStatus,
    /// Its standard output, up to a limit of the host.
    pub stdout: Vec<u8>,
    /// Its standard error, up to a limit of the host.
    pub stderr: Vec<u8>,
}

impl ProcessEnd {
    /// A process that has ended with this status, and printed nothing: for tests, in which
    /// [`stdout`](Self::stdout) and [`stderr`](Self::stderr) add what it printed.
    ///
    /// ```
    /// use jobtap_core::job::WaitStatus;
    /// use jobtap_core::plugin::ProcessEnd;
    ///
    /// let end = ProcessEnd::new(WaitStatus::SUCCESS).stdout("3 licences\n");
    /// assert_eq!(end.stdout, b"3 licences\n");
    /// ```
    #[must_use]
    pub fn new(status: WaitStatus) -> Self {
        Self { status, stdout: Vec::new(), stderr: Vec::new() }
    }

    /// Sets what it printed to its standard output.
    #[must_use]
    pub fn stdout(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdout = bytes.into();
        self
    }

    /// Sets what it printed to its standard error.
    #[must_use]
    pub fn stderr(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stderr = bytes.into();
        self
    }

    /// Returns `Ok` when the process ended with exit code 0.
    ///
    /// # Errors
    /// How it ended otherwise.
    ///
    /// ```
    /// use jobtap_core::job::WaitStatus;
    /// use jobtap_core::plugin::{ExitError, ProcessEnd};
    ///
    /// let how = ProcessEnd::new(WaitStatus::from_exit_code(3)).success().unwrap_err();
    /// assert_eq!(how, ExitError::Code(3));
    /// assert_eq!(how.to_string(), "exit code 3");
    /// ```
    pub fn success(&self) -> Result<(), ExitError> {
        match (self.status.is_success(), self.status.signaled()) {
            (true, _) => Ok(()),
            (false, Some(signal)) => Err(ExitError::Killed(signal)),
            (false, None) => Err(ExitError::Code(self.status.exit_code().unwrap_or(u8::MAX))),
        }
    }
}

/// How a process ended without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExitError {
    /// With this exit code.
    #[error("exit code {0}")]
    Code(u8),
    /// By this signal.
    #[error("killed by signal {0}")]
    Killed(i32),
}

/// Why a process could not be run to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    /// It did not start.
    #[error("{program}: {reason}")]
    Start {
        /// The program.
        program: String,
        /// The system's error text.
        reason: String,
        /// The kind of that error.
        kind: ErrorKind,
    },
    /// The plugin was removed or the manager stopped.
    #[error(transparent)]
    Gone(#[from] Gone),
}

impl ProcessError {
    /// The status that a shell would report: exit code 127 for a program that doesn't exist, 126 for one
    /// that can't be run; `None` when it is unknown how the process ended.
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

/// How a process ended, or why it could not be run.
pub type ProcessResult = Result<ProcessEnd, ProcessError>;

/// The stream that a process printed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A line that a process printed, without the line break;
/// [`Remote::start_process_with`](crate::plugin::Remote::start_process_with) passes it on.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # struct Backup;
/// fn start(remote: &Remote<Backup>) -> Child {
///     let log = remote.clone();
///     remote.start_process_with(Process::new("backup"), move |line: OutputLine| {
///         if line.stream == Stream::Stderr {
///             log.run(move |_, cx| cx.log(Level::Error, line.text));
///         }
///     })
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLine {
    /// The stream.
    pub stream: Stream,
    /// The line; bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// Receives the lines that a process prints, as they come.
#[derive(Clone)]
pub struct LineSink(Arc<Mutex<dyn FnMut(OutputLine) + Send>>);

impl LineSink {
    /// A sink that passes each line to `line`.
    pub fn new(line: impl FnMut(OutputLine) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(line)))
    }

    /// Passes on a line.
    pub fn send(&self, line: OutputLine) {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner))(line);
    }
}

impl fmt::Debug for LineSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LineSink")
    }
}

/// Reports to the waiter of a process that it has started and how it ended.
pub struct ProcessAnswer {
    pub(crate) end: oneshot::Sender<ProcessResult>,
    pub(crate) started: Option<Started>,
}

/// Called when a process has started.
pub(crate) type Started = Box<dyn FnOnce() + Send>;

impl ProcessAnswer {
    /// A pair for tests of a host: the answer, and a future of the result that is sent through it.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// use jobtap_core::host::{PluginKey, ProcessAnswer, ProcessCommand, ProcessKey};
    /// use jobtap_core::plugin::{ProcessEnd, ProcessError};
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
        let (sender, receiver) = oneshot::channel();
        let end = async { receiver.await.map_err(|_| Gone)? };
        (Self { end: sender, started: None }, end)
    }

    /// As [`pair`](Self::pair), with a function that is called when the process has started.
    pub fn with_start(
        started: impl FnOnce() + Send + 'static,
    ) -> (Self, impl Future<Output = ProcessResult> + Send) {
        let (mut answer, end) = Self::pair();
        answer.started = Some(Box::new(started));
        (answer, end)
    }

    /// Reports that the process has started, which may be long after the command: its time limit counts
    /// from now on. A host calls this once, or never if the process can't be started or is terminated
    /// before it starts.
    pub fn started(&mut self) {
        if let Some(started) = self.started.take() {
            started();
        }
    }

    /// Reports how the process ended.
    pub fn send(self, result: ProcessResult) {
        // Fails when the `Child` was dropped, which needs no answer.
        let _ = self.end.send(result);
    }
}

impl fmt::Debug for ProcessAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProcessAnswer")
    }
}

/// A host command about processes.
#[derive(Debug)]
pub enum ProcessCommand {
    /// Run a process, in a process group of its own.
    Run {
        /// Names the process in later commands.
        key: ProcessKey,
        /// The process.
        process: Process,
        /// Receives the lines that it prints.
        lines: Option<LineSink>,
        /// Receives its start and its end. When this is dropped, the waiter gets [`Gone`].
        answer: ProcessAnswer,
    },
    /// Send a signal to the process group. A queued process is removed by a signal that would end it. No
    /// effect once it has ended.
    Signal {
        /// The process.
        key: ProcessKey,
        /// The signal's number.
        signum: i32,
    },
    /// Kill all processes of the plugin, which was removed.
    KillAll,
}
