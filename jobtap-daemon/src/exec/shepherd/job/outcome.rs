//! The result of the exits of a job's tasks: the job's status, and the effect of one task's exit on the others.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use jobtap_core::job::signal_text;
use rustix::process::Pid;
use serde_json::{Map, Value};

use super::super::host_name::host_name;
use super::super::placement::Place;
use super::super::streams::options::ExitOptions;

/// The exit of a task.
pub(in crate::exec::shepherd) struct Exit {
    pub(super) pid: Pid,
    pub(super) rank: u32,
    pub(super) status: ExitStatus,
}

impl Exit {
    /// The exit code; 128 + signal for a task that a signal has ended, as Flux's job shell and other shells report
    /// it.
    pub(super) fn code(&self) -> i32 {
        let signal = self.status.signal();
        signal.map_or_else(|| self.status.code().unwrap_or(0), |signal| 128 + signal)
    }

    /// The wait status, as of `wait`(2).
    pub(super) fn raw_status(&self) -> i32 {
        self.status.into_raw()
    }

    /// `Exit 1`, or the name of the signal.
    pub(super) fn in_words(&self) -> String {
        in_words(self.status)
    }

    /// The context of `shell.task-exit`.
    pub(super) fn context(&self, place: Place) -> Map<String, Value> {
        let fields: [(&str, Value); 7] = [
            ("localid", place.local.into()),
            ("rank", self.rank.into()),
            ("state", "Exited".into()),
            ("pid", self.pid.as_raw_pid().into()),
            ("wait_status", self.raw_status().into()),
            ("signaled", self.status.signal().unwrap_or(0).into()),
            ("exitcode", self.code().into()),
        ];
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

fn in_words(status: ExitStatus) -> String {
    let code = || format!("Exit {}", status.code().unwrap_or(0));
    status.signal().map_or_else(code, signal_text)
}

/// The first task of a job that has exited.
pub(super) struct FirstExit {
    pub(super) rank: u32,
    /// [`Exit::in_words`].
    pub(super) how: String,
    /// The name of its host.
    pub(super) host: String,
    /// The wait status, as of `wait`(2).
    pub(super) status: i32,
}

/// The wait status of a job.
#[derive(Clone, Copy)]
enum Status {
    /// The highest of the tasks that have exited.
    Highest(i32),
    /// The status of a task that has ended the others, whose own statuses don't count.
    Decided(i32),
}

/// Which exits the exec eventlog contains. The first exit and the first failure are enough, which bounds the
/// eventlog of a job with many tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Logged {
    Nothing,
    Success,
    Failure,
}

/// The result of the tasks that have exited.
pub(super) struct Outcome {
    options: ExitOptions,
    status: Status,
    first: Option<FirstExit>,
    logged: Logged,
}

impl Default for Outcome {
    fn default() -> Self {
        Self {
            options: ExitOptions::default(),
            status: Status::Highest(0),
            first: None,
            logged: Logged::Nothing,
        }
    }
}

impl Outcome {
    pub(super) fn set_options(&mut self, options: ExitOptions) {
        self.options = options;
    }

    /// Counts a task that has exited with this code.
    pub(super) fn count(&mut self, code: i32) {
        if let Status::Highest(status) = &mut self.status {
            *status = (*status).max(code << 8);
        }
    }

    /// Decides the status of the job, unless it is decided already.
    pub(super) fn decide(&mut self) {
        let (Status::Highest(status) | Status::Decided(status)) = self.status;
        self.status = Status::Decided(status);
    }

    /// The wait status of the job; `canceled` is the status of a canceled job whose tasks all exited with status 0.
    pub(super) fn status(&self, canceled: Option<i32>) -> i32 {
        match (self.status, canceled) {
            (Status::Highest(0), Some(canceled)) => canceled,
            (Status::Highest(status) | Status::Decided(status), _) => status,
        }
    }

    /// Whether to log the exit of a task with this code. Notes that it is logged.
    pub(super) fn note_logged(&mut self, code: i32) -> bool {
        let logged = if code == 0 { Logged::Success } else { Logged::Failure };
        let logs = self.logged == Logged::Nothing
            || (logged == Logged::Failure && self.logged == Logged::Success);
        if logs {
            self.logged = logged;
        }
        logs
    }

    /// Whether this exit ends the other tasks (`exit-on-error`).
    pub(super) fn ends_others(&self, exit: &Exit) -> bool {
        self.options.on_error && exit.code() != 0
    }

    /// Notes a task that has exited. If it is the first one, returns how long the others may go on; `None` is no
    /// limit.
    pub(super) fn note_exit(&mut self, exit: &Exit) -> Option<Duration> {
        self.note_exit_on(exit.rank, exit.status, host_name)
    }

    /// As [`note_exit`](Self::note_exit), for a task on a host.
    pub(super) fn note_exit_on(
        &mut self,
        rank: u32,
        status: ExitStatus,
        host: impl FnOnce() -> String,
    ) -> Option<Duration> {
        if self.first.is_some() {
            return None;
        }
        let (how, host) = (in_words(status), host());
        self.first = Some(FirstExit { rank, how, host, status: status.into_raw() });
        self.options.timeout
    }

    /// The first task that has exited, and how long the others may go on (`exit-timeout`).
    pub(super) fn timed_first(&self) -> Option<(&FirstExit, Duration)> {
        self.first.as_ref().zip(self.options.timeout)
    }

    /// Makes further exits have no effect on the other tasks.
    pub(super) fn ignore_exits(&mut self) {
        self.options = ExitOptions::default();
    }
}
