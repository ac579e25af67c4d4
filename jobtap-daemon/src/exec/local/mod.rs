//! The executor of this machine: starts a shepherd, or connects to the one that an earlier manager
//! started.
//!
//! If a shepherd exists but does not respond, because it is stopped or hangs, a starting manager fails
//! with an error that names the process. A manager that is already running continues and waits for the
//! shepherd, since the tasks of its jobs may still be running.

mod link;
mod open_job;
mod shepherd;

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use self::link::{Link, Outgoing};
pub(super) use self::open_job::OpenJob;
pub(super) use self::shepherd::find_or_start;
use self::shepherd::open_connection;
use super::protocol::ShepherdRequest;
use super::{Executor, ExecutorReport, HeldJob, JobCommand, StartJob};

/// The number of shepherds that a manager tries to reach. A shepherd may exit for lack of work just as the manager
/// connects; then another one is started.
const ATTEMPTS: u32 = 3;

/// How long a shepherd may take to respond or to read a request. It does so between two pieces of work
/// that take milliseconds, and responds sooner than this even on a host that swaps.
const PATIENCE: Duration = Duration::from_secs(10);

/// Name of the shepherd's log in the state directory.
pub(crate) const LOG: &str = "shepherd.log";

/// An error that prevents jobs from running on this machine.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The state directory, its socket or the program can't be used.
    #[error("cannot start a shepherd in {dir}: {source}")]
    Start {
        /// The state directory.
        dir: PathBuf,
        /// What failed.
        source: io::Error,
    },
    /// The shepherd ended before it responded.
    #[error("the shepherd in {dir} ends before it answers: {reason}")]
    NoAnswer {
        /// The state directory.
        dir: PathBuf,
        /// The last line of its log, or the path of the log.
        reason: String,
    },
    /// The shepherd exists but is stopped or hangs.
    #[error("the shepherd in {dir} does not answer: {what_to_do}")]
    Silent {
        /// The state directory.
        dir: PathBuf,
        /// Its process, and how to resolve the problem.
        what_to_do: String,
    },
    /// The shepherd is from a build that this one can't work with.
    #[error(
        "the shepherd in {dir} refuses this manager: {reason}; cancel its jobs with the build that started them"
    )]
    Refused {
        /// The state directory.
        dir: PathBuf,
        /// The reason that the shepherd gave.
        reason: String,
    },
}

/// The maximum number of requests that are sent together.
const MOST_TOGETHER: usize = 64;

/// How jobs are run on this machine.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// The manager's state directory: socket, output, input and log of the shepherd are there.
    pub state_dir: PathBuf,
    /// The program that becomes the shepherd, with arguments to precede [`SHEPHERD_ARGUMENT`](super::SHEPHERD_ARGUMENT).
    pub program: Vec<OsString>,
    /// How long a shepherd without jobs waits for a manager.
    pub idle_time: Duration,
    /// How long a shepherd may take to respond, or to read a request.
    pub patience: Duration,
    /// Whether the instance ends with this process: when the process is gone the shepherd ends the jobs,
    /// removes the state directory and exits.
    pub temporary: bool,
}

impl LocalConfig {
    /// The configuration for the running program, with the default times.
    pub fn new(state_dir: PathBuf) -> io::Result<Self> {
        Ok(Self {
            state_dir,
            program: vec![std::env::current_exe()?.into_os_string()],
            idle_time: Duration::from_secs(5),
            patience: PATIENCE,
            temporary: false,
        })
    }
}

/// Runs jobs on this machine through a shepherd. Dropping it leaves shepherd and jobs alone.
pub struct LocalExecutor {
    held: Vec<HeldJob>,
    link: Arc<Link>,
    outgoing: Option<Sender<Outgoing>>,
    /// Requests that are sent together.
    expendable: RefCell<Vec<ShepherdRequest>>,
    writer: Option<JoinHandle<()>>,
}

impl LocalExecutor {
    /// Finds or starts the shepherd of `config.state_dir`, which must exist. `report` is called on threads
    /// of the executor, so it must not wait for the executor.
    ///
    /// # Errors
    /// Fails if no shepherd can be reached or started; the message says what to do.
    pub fn connect(
        mut config: LocalConfig,
        report: impl Fn(ExecutorReport) + Send + Sync + 'static,
    ) -> Result<Self, ExecError> {
        let dir = config.state_dir.clone();
        let failed = |source| ExecError::Start { dir: dir.clone(), source };
        // The shepherd has another working directory, so a relative path would not reach it.
        config.state_dir = config.state_dir.canonicalize().map_err(failed)?;
        let (stream, held) = open_connection(&config)?;
        let link = Arc::new(Link::new(config, Box::new(report)));
        link.begin(stream).map_err(failed)?;
        let (requests, receiver) = channel();
        let writing = Arc::clone(&link);
        let writer = Builder::new()
            .name("exec-requests".to_owned())
            .spawn(move || writing.write_requests(&receiver))
            .map_err(failed)?;
        let (outgoing, expendable) = (Some(requests), RefCell::default());
        Ok(Self { held, link, outgoing, expendable, writer: Some(writer) })
    }

    fn request(&self, request: ShepherdRequest) {
        if Outgoing::is_expendable(&request) {
            let waiting = {
                let mut expendable = self.expendable.borrow_mut();
                expendable.push(request);
                expendable.len()
            };
            if waiting >= MOST_TOGETHER {
                self.flush();
            }
            return;
        }
        self.flush();
        self.send(Outgoing::One(request));
    }

    fn send(&self, outgoing: Outgoing) {
        if let Some(sender) = &self.outgoing {
            // The writer lives as long as the sender does.
            let _ = sender.send(outgoing);
        }
    }
}

impl Executor for LocalExecutor {
    fn start(&self, job: StartJob) {
        self.request(ShepherdRequest::Start(Box::new(job)));
    }

    fn command(&self, command: JobCommand) {
        self.request(ShepherdRequest::Job(command));
    }

    fn flush(&self) {
        let expendable = self.expendable.take();
        if !expendable.is_empty() {
            self.send(Outgoing::Expendable(expendable));
        }
    }

    fn held(&self) -> &[HeldJob] {
        &self.held
    }

    fn takes_jobs_ahead(&self) -> bool {
        true
    }

    fn shut_down(&self, limit: Duration) -> bool {
        self.request(ShepherdRequest::Shutdown);
        self.link.wait_for_last_end(limit)
    }
}

impl Drop for LocalExecutor {
    /// Waits until all requests are sent, except when the shepherd reads none: the next manager repeats
    /// them.
    fn drop(&mut self) {
        self.flush();
        self.link.close();
        self.outgoing = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}
