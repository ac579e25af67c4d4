//! The states of a job in the shepherd, each with the data that only it has.
//!
//! ```text
//! Claimed ──► Launching ──► Running ──┐
//!    │            │            │      ├──► Ended
//!    └────────────┴────────────┴► Ending
//! ```

use jobtap_core::job::Reach;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::super::devices::Devices;
use super::super::job_user::JobUser;
use super::super::pmi::Pmi;
use super::super::rlimits::TaskLimits;
use super::super::streams::ends::Ends;
use super::super::streams::taskio::JobIo;
use super::outcome::Exit;
use crate::exec::{KillPolicy, StartJob};

/// The state of a job.
pub(in crate::exec::shepherd) enum State {
    /// Its claim is being written, or it waits for its turn. None of its files exists yet.
    Claimed(Box<Plan>),
    /// Its files are being prepared and its tasks started.
    Launching(Box<Launch>),
    /// All of its tasks were started.
    Running,
    /// Its launch has failed, or it was canceled: it ends when its processes are gone.
    Ending(Ending),
    /// Its processes and its directory are gone; only its record is left.
    Ended,
}

/// What is known about a launch before it begins.
pub(in crate::exec::shepherd) struct Plan {
    pub(in crate::exec::shepherd) start: StartJob,
    pub(in crate::exec::shepherd) limits: TaskLimits,
    /// The user that its files are opened as and its tasks run as.
    pub(in crate::exec::shepherd) job_user: JobUser,
    /// The PMI that its tasks share, if they have it.
    pub(in crate::exec::shepherd) pmi: Option<Pmi>,
    /// The CPUs and GPUs of its tasks.
    pub(in crate::exec::shepherd) devices: Devices,
    /// Signals to send when all tasks are started.
    pub(in crate::exec::shepherd) signals: Vec<(Signal, Reach)>,
}

/// A launch whose shared files are open.
pub(in crate::exec::shepherd) struct Launch {
    pub(in crate::exec::shepherd) plan: Plan,
    pub(in crate::exec::shepherd) io: JobIo,
    /// The program of the tasks, or why there is none.
    pub(in crate::exec::shepherd) program: Result<PathBuf, Errno>,
    pub(in crate::exec::shepherd) step: Step,
    /// Tasks that have exited before all were started. Their exits are logged after the start of the job.
    pub(super) exits: Vec<Exit>,
}

/// The next step of a launch.
pub(in crate::exec::shepherd) enum Step {
    /// To open the FIFOs that all tasks share.
    Fifos,
    /// To wait until they are open.
    Opening,
    /// To prepare the files of the next task with this rank or a higher one.
    Files(u32),
    /// To request the process of this task.
    Task(TaskRequest),
    /// To wait until this process executes its program.
    Executing(Executing),
}

impl Step {
    /// The step after the FIFOs are open.
    fn with_open_fifos(io: &JobIo) -> Self {
        if io.has_own_files() { Self::Files(0) } else { Self::Task(TaskRequest::first(0)) }
    }
}

/// The request of a task's process.
#[derive(Clone, Copy)]
pub(in crate::exec::shepherd) struct TaskRequest {
    pub(in crate::exec::shepherd) rank: u32,
    /// The number of requests that failed.
    pub(in crate::exec::shepherd) attempts: u32,
}

impl TaskRequest {
    /// The first request for the task with this rank.
    pub(in crate::exec::shepherd) fn first(rank: u32) -> Self {
        Self { rank, attempts: 0 }
    }
}

/// A process that was requested to execute a task's program.
pub(in crate::exec::shepherd) struct Executing {
    pub(in crate::exec::shepherd) request: TaskRequest,
    /// Its id, once the forker has reported it.
    pub(in crate::exec::shepherd) pid: Option<Pid>,
    pub(in crate::exec::shepherd) ends: Ends,
}

/// The end of a job whose processes may still run.
pub(in crate::exec::shepherd) struct Ending {
    pub(super) finish: Finish,
    /// The task whose process a canceled launch had requested, until the forker reports it.
    pub(super) requested: Option<u32>,
    /// How it is killed, if a manager has canceled it.
    pub(in crate::exec::shepherd) cancel: Option<Cancel>,
}

/// How the end of a job is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// With its wait status.
    Status,
    /// Without a wait status: the job never began.
    Never,
}

/// The progress of killing a canceled job.
#[derive(Debug)]
pub(in crate::exec::shepherd) struct Cancel {
    pub(in crate::exec::shepherd) policy: KillPolicy,
    /// The number of kill signals that were sent.
    pub(in crate::exec::shepherd) kills: u32,
    /// Whether a kill round has passed since the last task was reaped.
    pub(in crate::exec::shepherd) draining: bool,
    /// Whether it was reported that the job can't be killed.
    pub(super) given_up: bool,
}

impl Cancel {
    pub(super) fn new(policy: KillPolicy) -> Self {
        Self { policy, kills: 0, draining: false, given_up: false }
    }
}

impl State {
    /// The state of a job that ends when its processes are gone. `finish` says how the end is reported.
    pub(super) fn ending(finish: Finish) -> Self {
        Self::Ending(Ending { finish, requested: None, cancel: None })
    }

    /// The plan of a launch that isn't complete.
    pub(in crate::exec::shepherd) fn plan(&mut self) -> Option<&mut Plan> {
        match self {
            Self::Claimed(plan) => Some(plan),
            Self::Launching(launch) => Some(&mut launch.plan),
            Self::Running | Self::Ending(_) | Self::Ended => None,
        }
    }

    /// A launch that has begun and isn't complete.
    pub(in crate::exec::shepherd) fn launch(&mut self) -> Option<&mut Launch> {
        match self {
            Self::Launching(launch) => Some(launch),
            _ => None,
        }
    }

    pub(super) fn as_ending(&self) -> Option<&Ending> {
        match self {
            Self::Ending(ending) => Some(ending),
            _ => None,
        }
    }

    /// How a canceled job is killed.
    pub(in crate::exec::shepherd) fn cancel(&mut self) -> Option<&mut Cancel> {
        match self {
            Self::Ending(ending) => ending.cancel.as_mut(),
            _ => None,
        }
    }

    /// Whether a process of the job is being started.
    pub(in crate::exec::shepherd) fn awaits_process(&self) -> bool {
        match self {
            Self::Claimed(_) | Self::Launching(_) => true,
            Self::Ending(ending) => ending.requested.is_some(),
            Self::Running | Self::Ended => false,
        }
    }
}

impl Launch {
    pub(in crate::exec::shepherd) fn new(
        plan: Plan,
        io: JobIo,
        program: Result<PathBuf, Errno>,
    ) -> Self {
        let has_fifos = io.fifos().next().is_some();
        let step = if has_fifos { Step::Fifos } else { Step::with_open_fifos(&io) };
        Self { plan, io, program, step, exits: Vec::new() }
    }

    /// Continues once the FIFOs are open. Returns whether the launch has waited for that.
    pub(in crate::exec::shepherd) fn opened(&mut self) -> bool {
        let waited = matches!(self.step, Step::Opening);
        if waited {
            self.step = Step::with_open_fifos(&self.io);
        }
        waited
    }

    /// The process that is being started.
    pub(in crate::exec::shepherd) fn executing(&mut self) -> Option<&mut Executing> {
        match &mut self.step {
            Step::Executing(executing) => Some(executing),
            Step::Fifos | Step::Opening | Step::Files(_) | Step::Task(_) => None,
        }
    }

    /// Continues with the next task once it is known whether this process was started; `pid` is `None` if the forker
    /// has reported none. Returns the process if it is the one that is being started.
    pub(in crate::exec::shepherd) fn take_executing(
        &mut self,
        pid: Option<Pid>,
    ) -> Option<Executing> {
        let rank = self.executing().filter(|executing| executing.pid == pid)?.request.rank;
        let next = Step::Task(TaskRequest::first(rank.saturating_add(1)));
        match std::mem::replace(&mut self.step, next) {
            Step::Executing(executing) => Some(executing),
            Step::Fifos | Step::Opening | Step::Files(_) | Step::Task(_) => None,
        }
    }
}
