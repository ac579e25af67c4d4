//! What the adapter uses of slurmctld and slurmd.

use std::path::PathBuf;
use std::time::Duration;

use jobtap_core::host::ProcessCommand;
use jobtap_core::plugin::Level;

/// The daemon that has loaded the file: slurmctld or slurmd.
///
/// The module `ffi` implements it by Slurm's functions. [`testing::Recorder`](crate::testing::Recorder)
/// records what is called.
pub trait Daemon: Send + Sync + 'static {
    /// Writes a line to the daemon's log.
    fn log(&self, level: Level, text: &str);

    /// Writes to the log that a plugin has made a call which isn't served.
    fn unserved(&self, text: &str) {
        self.log(Level::Error, text);
    }

    /// The path of a configuration file of this name, beside slurm.conf.
    fn config_file(&self, name: &str) -> PathBuf;

    /// When the daemon has read slurm.conf last; another value after each `scontrol reconfigure`.
    fn configured_at(&self) -> i64;

    /// `PrologEpilogTimeout`; `None` if there is no limit.
    fn prep_timeout(&self) -> Option<Duration>;

    /// Prepares a thread of this crate's own, at its start: signals are for the daemon's threads.
    fn prepare_thread(&self);

    /// Tells slurmctld how the controller's prolog or epilog of a job has ended. Waits for slurmctld's locks, so
    /// it is called from a thread that holds no lock and that nothing waits for.
    fn controller_ended(&self, part: Part, job: u32, end: &PrepEnd);

    /// Whether a job of slurmctld's is over, such as one that was cancelled: nothing waits for its prolog any more.
    /// It waits for slurmctld's locks as [`controller_ended`](Self::controller_ended) does.
    fn is_over(&self, _job: u32) -> bool {
        false
    }

    /// Runs or signals a process of a plugin. Returns what the adapter is to do itself, which a real daemon leaves
    /// all to it.
    fn run_process(&self, command: ProcessCommand) -> Option<ProcessCommand> {
        Some(command)
    }
}

/// A prolog or an epilog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Before the job's tasks.
    Prolog,
    /// After them.
    Epilog,
}

/// How the handlers of a prolog or epilog have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrepEnd {
    /// All have succeeded.
    Done,
    /// At least one has failed; the text is that of the first.
    Failed(String),
    /// They took longer than `PrologEpilogTimeout`.
    TimedOut,
    /// The job was cancelled meanwhile.
    Cancelled,
}
