//! Processes of plugins, as a host runs them: as the manager's user on the manager's host.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures_channel::oneshot;

use super::failure::Gone;
use crate::job::WaitStatus;

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
    pub(crate) fn new(line: impl FnMut(OutputLine) + Send + 'static) -> Self {
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
    pub(crate) end: oneshot::Sender<ProcessResult>,
    pub(crate) begun: Option<Begun>,
}

/// Hears that a process runs now.
pub(crate) type Begun = Box<dyn FnOnce() + Send>;

impl ProcessAnswer {
    /// One for a host that tries itself, and what comes out at its other end.
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
        (Self { end: sender, begun: None }, end)
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
        // Nobody may wait any more: a `Child` that was dropped.
        let _ = self.end.send(result);
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
