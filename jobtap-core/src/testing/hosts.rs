//! Runs the same tests on each host: what the hosts of the test kit have in common.

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};

use super::job::TestJob;
use super::refused::{Refused, RunError};
use super::services::TestServices;
use crate::host::{HostKind, PluginDescriptor, ProcessCommand, panic_text};
use crate::job::{JobId, Timestamp, WaitStatus};
use crate::plugin::{Plugin, Process, ProcessEnd};

/// A host in memory, to which a test submits jobs.
///
/// [`TestManager`](super::TestManager) is one. The crates `jobtap-flux` and `jobtap-slurm` have those for the other
/// hosts: their adapters, as a real Flux or Slurm runs them, on top of a test double of its functions. A test that
/// uses nothing but this trait runs on each of them, with [`TestHosts`].
pub trait TestHost {
    /// Why the host doesn't start.
    type StartError: Error + 'static
    where
        Self: Sized;

    /// Starts the host.
    ///
    /// # Errors
    /// Why it refuses a plugin or its configuration.
    fn start(setup: &HostSetup) -> Result<Self, Self::StartError>
    where
        Self: Sized;

    /// Which host it is.
    fn kind(&self) -> HostKind;

    /// The time that plugins see. It is virtual, except in Slurm, where it is the system's time.
    fn now(&self) -> Timestamp;

    /// Submits a job. An accepted job has left DEPEND and PRIORITY when this returns, unless a plugin holds it
    /// there.
    ///
    /// # Errors
    /// Why the job is refused: the text is that for the submitter.
    ///
    /// # Panics
    /// If the host has no request for such a job: Slurm's requests, for example, have no attributes of a site's own.
    fn submit(&mut self, job: TestJob) -> Result<JobId, Refused>;

    /// The messages that plugins have sent to users since the last call. In Flux they can't send any.
    fn messages(&mut self) -> Vec<String>;

    /// The priority of a job; `None` if it has none yet, and in Slurm if no plugin has set it.
    ///
    /// # Panics
    /// If there is no such job.
    fn priority(&self, id: JobId) -> Option<u32>;

    /// The jobspec of a job, with what plugins have changed in it.
    ///
    /// # Panics
    /// If there is no such job.
    fn jobspec(&self, id: JobId) -> Value;

    /// The names of the events of a job. Slurm has no events: the list is empty there.
    fn events(&self, id: JobId) -> Vec<String>;

    /// The annotations of a job, as its user sees them: those that plugins returned or set by
    /// [`Cx::annotate`](crate::plugin::Cx::annotate), and memos below `user`. In Flux an inactive job keeps them.
    /// Slurm has none: the value is an empty object there.
    fn annotations(&self, id: JobId) -> Value;

    /// The calls of plugins that the host doesn't serve, since the last call of this method. `jobtap build --host`
    /// refuses those that it sees in the source. [`TestHosts::each`] fails if any are left at the end of a test, so
    /// a test of a plugin that handles them must call this.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # use jobtap_core::testing::{TestHosts, TestJob, TestManager};
    /// # #[derive(Default)]
    /// # struct Site;
    /// # #[jobtap_plugin(name = "site")]
    /// # impl Site {}
    /// # let hosts = TestHosts::new().plugin::<Site>().host::<TestManager>();
    /// hosts.each(|host| {
    ///     host.submit(TestJob::new()).unwrap();
    ///     // The plugin stores the path elsewhere where there is no guest directory.
    ///     assert!(host.unserved().iter().all(|text| text.contains("guest_put")));
    /// });
    /// ```
    fn unserved(&mut self) -> Vec<String>;

    /// Gives a job its resources, and runs the prologs of plugins. It does nothing for Slurm's job_submit, which
    /// sees only requests.
    ///
    /// # Errors
    /// Why the job doesn't start: the message of a prolog that has failed.
    fn run(&mut self, id: JobId) -> Result<(), RunError>;

    /// Ends the tasks of a job that has started, and runs the epilogs of plugins. Like [`run`](Self::run), it does
    /// nothing for Slurm's job_submit.
    ///
    /// # Errors
    /// The message of an epilog that has failed, or what the job still waits for.
    fn end(&mut self, id: JobId, exit_code: u8) -> Result<(), RunError>;

    /// Sets how the processes of plugins end from now on, and what they print. They end at once; by default, with
    /// success.
    fn end_processes_with(&mut self, end: ProcessEnd);

    /// The processes of plugins that were started.
    fn started_processes(&self) -> Vec<Process>;

    /// The services to which plugins send requests. Slurm has none, so nothing is ever sent there.
    fn services(&self) -> TestServices;
}

/// What a host of the test kit starts with.
#[derive(Debug, Clone)]
pub struct HostSetup {
    /// The plugins in the order in which they are called; the `before` and `after` that they declare take
    /// precedence.
    pub plugins: Vec<&'static PluginDescriptor>,
    /// The configuration. The table of a plugin is `plugins.NAME`.
    pub config: Value,
}

/// Starts a host.
type Start = fn(&HostSetup) -> Result<Box<dyn TestHost>, Box<dyn Error>>;

/// Plugins, and the hosts on which their tests run.
///
/// ```
/// use jobtap_core::prelude::*;
/// use jobtap_core::testing::{TestHosts, TestJob, TestManager};
///
/// #[derive(Default)]
/// struct NoArrays;
///
/// #[jobtap_plugin(name = "no-arrays")]
/// impl NoArrays {
///     #[on("job.validate")]
///     fn validate(&self, job: &Job) -> Result<(), Reject> {
///         Reject::when(job.jobspec().counts().ntasks > 8, "at most 8 tasks")
///     }
/// }
///
/// fn hosts() -> TestHosts {
///     // With the crates of the other hosts: `.host::<TestFlux>().host::<TestSlurm>()`.
///     TestHosts::new().plugin::<NoArrays>().host::<TestManager>()
/// }
///
/// hosts().each(|host| {
///     assert_eq!(host.submit(TestJob::new().ntasks(9)).unwrap_err(), "at most 8 tasks");
///     let id = host.submit(TestJob::new().ntasks(8)).unwrap();
///     assert_eq!(host.run(id), Ok(()));
/// });
/// ```
#[derive(Clone)]
#[must_use]
pub struct TestHosts {
    setup: HostSetup,
    hosts: Vec<(&'static str, Start)>,
}

impl Default for TestHosts {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TestHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestHosts").field("setup", &self.setup).finish_non_exhaustive()
    }
}

impl TestHosts {
    /// No plugins and no hosts.
    pub fn new() -> Self {
        Self { setup: HostSetup { plugins: Vec::new(), config: json!({}) }, hosts: Vec::new() }
    }

    /// Adds a plugin.
    pub fn plugin<P: Plugin>(mut self) -> Self {
        self.setup.plugins.push(P::DESCRIPTOR);
        self
    }

    /// Sets the configuration. The table of a plugin is `plugins.NAME`.
    pub fn config(mut self, config: Value) -> Self {
        self.setup.config = config;
        self
    }

    /// Adds a host.
    pub fn host<H: TestHost + 'static>(mut self) -> Self {
        self.hosts.push((std::any::type_name::<H>(), |setup| Ok(Box::new(H::start(setup)?))));
        self
    }

    /// Runs a test on each host. Each host starts anew.
    ///
    /// # Panics
    /// When the test has failed on a host, when a host doesn't start, or when a plugin has made a call that a host
    /// [doesn't serve](TestHost::unserved). All hosts are tried first, and the message names those that failed.
    #[track_caller]
    pub fn each(&self, test: impl Fn(&mut dyn TestHost)) {
        let mut failures = String::new();
        for (name, start) in &self.hosts {
            let run = || -> Result<Vec<String>, Box<dyn Error>> {
                let mut host = start(&self.setup)?;
                test(&mut *host);
                Ok(host.unserved())
            };
            let failure = match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(unserved)) if unserved.is_empty() => continue,
                Ok(Ok(unserved)) => format!("calls are not served: {}", unserved.join("; ")),
                Ok(Err(error)) => format!("it doesn't start: {error}"),
                Err(panic) => panic_text(&*panic),
            };
            let name = name.rsplit("::").next().unwrap_or(name);
            failures.push_str(&format!("\nover {name}: {failure}"));
        }
        assert!(failures.is_empty(), "the test fails{failures}");
    }
}

/// The processes of a host of the test kit: each ends when it starts.
#[derive(Debug)]
pub struct TestProcesses {
    started: Vec<Process>,
    end: ProcessEnd,
}

impl Default for TestProcesses {
    fn default() -> Self {
        Self { started: Vec::new(), end: ProcessEnd::new(WaitStatus::SUCCESS) }
    }
}

impl TestProcesses {
    /// Carries out a command of a plugin.
    pub fn follow(&mut self, command: ProcessCommand) {
        // Signals come too late, since each process has ended.
        if let ProcessCommand::Run { process, mut answer, .. } = command {
            self.started.push(process);
            answer.started();
            answer.send(Ok(self.end.clone()));
        }
    }

    /// Sets how processes end that start from now on.
    pub fn end_with(&mut self, end: ProcessEnd) {
        self.end = end;
    }

    /// The processes that have started.
    pub fn started(&self) -> &[Process] {
        &self.started
    }
}
