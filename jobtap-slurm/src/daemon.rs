//! The functions of slurmctld and slurmd that the adapter uses.

use std::path::PathBuf;
use std::time::Duration;

use jobtap_core::host::ProcessCommand;
use jobtap_core::plugin::Level;

/// The daemon that has loaded the file: slurmctld or slurmd.
///
/// The module `ffi` implements it with Slurm's functions. [`testing::Recorder`](crate::testing::Recorder)
/// records the calls.
pub trait Daemon: Send + Sync + 'static {
    /// Writes a line to the daemon's log.
    fn log(&self, level: Level, text: &str);

    /// Logs that a plugin has made a call that Slurm doesn't support.
    fn unserved(&self, text: &str) {
        self.log(Level::Error, text);
    }

    /// Returns the path of a configuration file with this name in the directory of slurm.conf.
    fn config_file(&self, name: &str) -> PathBuf;

    /// The time at which the daemon last read slurm.conf. It changes with each `scontrol reconfigure`.
    fn configured_at(&self) -> i64;

    /// `PrologEpilogTimeout`, or `PrologTimeout` or `EpilogTimeout` of newer releases; `None` if there is no limit.
    fn prep_timeout(&self, part: Part) -> Option<Duration>;

    /// Called at the start of each thread that this crate creates. Blocks signals, which the daemon's own threads
    /// handle.
    fn prepare_thread(&self);

    /// Reports to slurmctld how PrologSlurmctld or EpilogSlurmctld of a job has ended. Waits for slurmctld's locks,
    /// so the calling thread must hold no lock, and nothing may wait for it.
    fn controller_ended(&self, part: Part, job: u32, end: &PrepEnd);

    /// Whether a job of slurmctld's has ended, for example because it was canceled: nothing waits for its prolog any
    /// more. Waits for slurmctld's locks, as [`controller_ended`](Self::controller_ended) does.
    fn is_over(&self, _job: u32) -> bool {
        false
    }

    /// Intercepts a command to run or signal a process of a plugin. Returns the command if the adapter is to carry it
    /// out, which is always the case in a real daemon.
    fn run_process(&self, command: ProcessCommand) -> Option<ProcessCommand> {
        Some(command)
    }
}

/// A prolog or an epilog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Runs before the job's tasks.
    Prolog,
    /// Runs after the job's tasks.
    Epilog,
}

/// How the handlers of a prolog or epilog have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrepEnd {
    /// All have succeeded.
    Done,
    /// At least one has failed; the text is from the first that did.
    Failed(String),
    /// They took longer than `PrologEpilogTimeout`.
    TimedOut,
    /// The job was canceled meanwhile.
    Cancelled,
}
