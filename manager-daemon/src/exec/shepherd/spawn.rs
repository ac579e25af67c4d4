//! Starts a job's tasks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, PipeWriter};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::Pid;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::actor::Actor;
use super::before_exec::{BeforeExec, Program};
use super::devices::Devices;
use super::gpus;
use super::message::Execution;
use super::placement::{Place, place};
use super::pmi::{self, Pmi};
use super::processes::token;
use super::rlimits::TaskLimits;
use super::streams::pty::Terminal;
use super::streams::taskio::{Capture, JobIo, TaskFiles, TaskIo};
use super::system_error::plain;
use super::template::{f58_for, render, variable};
use crate::exec::StartJob;
use crate::open_files::OpenFiles;

/// The search path for programs if the job's environment has no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The reason why a task could not be started.
#[derive(Debug)]
pub(super) enum SpawnError {
    /// The command can't be run; a shell would exit with this code (126 or 127).
    Command { exit_code: i32, message: String },
    /// The system can't start a process now.
    System(String),
}

/// A pipe that says whether a new process executes its program.
pub(super) struct Outcome(Receiver);

impl Outcome {
    /// Waits until it is known whether the process executes its program.
    pub(super) async fn wait(mut self, patience: Duration) -> Execution {
        let mut number = [0; 4];
        match timeout(patience, self.0.read_exact(&mut number)).await {
            Ok(Ok(_)) => Execution::Refused(Errno::from_raw_os_error(i32::from_ne_bytes(number))),
            // The end of the pipe.
            Ok(Err(_)) => Execution::Done,
            Err(_) => Execution::Late,
        }
    }
}

/// A running task, and the shepherd's ends of its pipes.
pub(super) struct Spawned {
    pub(super) pid: Pid,
    /// Says whether the process executes its program; `None` if it does.
    pub(super) outcome: Option<Outcome>,
    pub(super) captures: Vec<Capture>,
    pub(super) input: Option<PipeWriter>,
    /// The work to serve the task's PMI socket.
    pub(super) pmi: Option<AbortHandle>,
    /// The task's terminal.
    pub(super) terminal: Option<Terminal>,
}

/// Starts the tasks of one job.
pub(super) struct Launcher<'a> {
    job: &'a StartJob,
    limits: &'a TaskLimits,
    actor: &'a Actor,
    pmi: Option<&'a Pmi>,
    devices: &'a Devices,
    program: &'a Result<PathBuf, Errno>,
    env: Vec<(String, String)>,
    open_files: &'a OpenFiles,
}

impl<'a> Launcher<'a> {
    /// `nonce` distinguishes this shepherd from all others.
    pub(super) fn new(
        (job, program): (&'a StartJob, &'a Result<PathBuf, Errno>),
        limits: &'a TaskLimits,
        actor: &'a Actor,
        (pmi, devices): (Option<&'a Pmi>, &'a Devices),
        (nonce, open_files): (&str, &'a OpenFiles),
    ) -> Self {
        let id = f58_for(job);
        let nnodes = job.nodes.len().max(1);
        let mut env = vec![token::of_job(nonce, job.id)];
        for prefix in ["FLUX", "JOBTAP"] {
            env.push((format!("{prefix}_JOB_ID"), id.clone()));
            env.push((format!("{prefix}_JOB_SIZE"), job.ntasks.to_string()));
            env.push((format!("{prefix}_JOB_NNODES"), nnodes.to_string()));
            if let Some(dir) = &job.tmpdir {
                env.push((format!("{prefix}_JOB_TMPDIR"), dir.display().to_string()));
            }
        }
        Self { job, limits, actor, pmi, devices, program, env, open_files }
    }

    /// Starts the task with rank `rank` as leader of a new process group.
    pub(super) fn spawn(&self, rank: u32, io: &JobIo) -> Result<Spawned, SpawnError> {
        let name = &program_name(self.job);
        let program = self.program.as_ref().map_err(|errno| spawn_error(name, &(*errno).into()))?;
        let files = &io.files(self.job, rank).map_err(SpawnError::System)?;
        match self.run(program, false, rank, (io, files)) {
            // Like a shell, runs a script without `#!` line with `sh`.
            Err(error) if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
                self.run(program, true, rank, (io, files))
            }
            other => other,
        }
        .map_err(|error| spawn_error(name, &error))
    }

    /// The error of a task whose process could not execute its program.
    pub(super) fn refused(job: &StartJob, errno: Errno) -> SpawnError {
        spawn_error(&program_name(job), &errno.into())
    }

    fn run(
        &self,
        program: &Path,
        shell: bool,
        rank: u32,
        (io, files): (&JobIo, &TaskFiles),
    ) -> io::Result<Spawned> {
        let TaskIo { stdin, stdout, stderr, captures, input, terminal } = io.task(rank, files)?;
        let job = self.job;
        let (controlling, terminal) = terminal.unzip();
        let mut before = BeforeExec {
            terminal: controlling,
            cpus: self.devices.cpus.as_ref().map(|cpus| cpus.cpus(job, rank)),
            limits: self.limits.changed().to_vec(),
            user: self.actor.other().map(Arc::clone),
        };
        let (task_end, pmi) = self.pmi.map(|pmi| pmi.connect(rank)).transpose()?.unzip();
        let env = self.environment(rank, task_end.as_ref());
        let arguments = job.command.iter().skip(1).map(|word| render(word, job, rank));
        let streams = [stdin, stdout, stderr];
        let (pid, outcome) = if before.is_needed() {
            // First, so that a limit of the job's own replaces it. The other way to start a process has it from
            // `lowered`.
            before.limits.splice(0..0, self.open_files.of_started());
            let args = std::iter::once(program_name(job)).chain(arguments);
            let env: BTreeMap<_, _> = env.collect();
            let paths = (program, job.cwd.as_path());
            let program = Program::new(paths, args, env, streams, task_end)?;
            let (outcome, report) = io::pipe()?;
            let outcome = Outcome(Receiver::from_owned_fd(outcome.into())?);
            (before.fork(&program, report)?, Some(outcome))
        } else {
            if let Some(task_end) = &task_end {
                // This process is started before any other, so no other one inherits it.
                fcntl_setfd(task_end, FdFlags::empty())?;
            }
            let mut command = if shell {
                let mut shell = Command::new("/bin/sh");
                shell.arg(program);
                shell
            } else {
                let mut command = Command::new(program);
                command.arg0(program_name(job));
                command
            };
            let [stdin, stdout, stderr] = streams;
            command.args(arguments).env_clear().current_dir(&job.cwd);
            for (name, value) in env {
                command.env(&*name, &*value);
            }
            // Each task has a process group, as in Flux.
            command.stdin(stdin).stdout(stdout).stderr(stderr).process_group(0);
            let child = self.open_files.lowered(|| command.spawn())?;
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            (pid.ok_or_else(|| io::Error::from(Errno::SRCH))?, None)
        };
        Ok(Spawned { pid, outcome, captures, input, pmi, terminal })
    }

    /// The environment of the task with rank `rank`, which inherits its PMI socket. Of variables with the same name
    /// the last one counts.
    fn environment(&self, rank: u32, pmi: Option<&OwnedFd>) -> impl Iterator<Item = Variable<'_>> {
        let job = self.job;
        let own = own_environment(job).chain(self.env.iter().map(|(name, value)| (name, value)));
        let own = own.map(|(name, value)| (Cow::from(name), Cow::from(value)));
        let expanded = expanded(job).filter_map(move |(name, text)| {
            Some((Cow::from(name), Cow::from(variable(text, job, rank)?)))
        });
        let Place { node, local } = place(&job.taskmap, rank);
        // By this, commands in the task know the rank that a broker of Flux would have there.
        let own_rank = job.nodes.get(node).map(|node| ("JOBTAP_RANK", node.rank));
        let of_task = [
            ("FLUX_TASK_RANK", rank),
            ("JOBTAP_TASK_RANK", rank),
            ("FLUX_TASK_LOCAL_ID", local),
            ("JOBTAP_TASK_LOCAL_ID", local),
        ];
        let of_pmi = self.pmi.zip(pmi).map(|(pmi, socket)| pmi.variables(rank, socket));
        let gpus = self.devices.gpus.as_ref();
        // The first, so that the job's own count.
        let order = gpus.map(|_| gpus::ORDER).map(|(name, value)| (name, value.to_owned()));
        let defaults = order.into_iter().chain(pmi::defaults(job, node));
        let defaults = defaults.map(|(name, value)| (Cow::from(name), Cow::from(value)));
        let visible = gpus.map(|gpus| gpus.variable(job, rank));
        let of_task = of_task.into_iter().chain(own_rank);
        let of_task = of_task.map(|(name, number)| (name, number.to_string()));
        let set = of_task.chain(of_pmi.into_iter().flatten()).chain(visible);
        let set = set.map(|(name, value)| (Cow::from(name), Cow::from(value)));
        defaults.chain(own).chain(expanded).chain(set)
    }
}

/// The name and the value of a variable of a task's environment.
type Variable<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Where jobs run whose working directory can't be used, as in Flux.
const ELSEWHERE: &str = "/tmp";

/// Makes sure that a job has a working directory that its user can use. The error says what is wrong with its own; it
/// has another one then.
pub(super) fn settle_directory(job: &mut StartJob, actor: &Actor) -> Result<(), String> {
    let cwd = &job.cwd;
    let usable = || {
        if std::fs::metadata(cwd)?.is_dir() {
            Ok(may_execute(cwd)?)
        } else {
            Err(Errno::NOTDIR.into())
        }
    };
    let Err(error) = actor.act(usable).flatten() else { return Ok(()) };
    let (dir, error) = (cwd.display().to_string(), plain(&error));
    job.cwd = ELSEWHERE.into();
    Err(format!("Could not change dir to {dir}: {error}. Going to {ELSEWHERE} instead"))
}

/// The environment as it was submitted, without the PMI of a job that encloses this manager or the submitter.
fn own_environment(job: &StartJob) -> impl Iterator<Item = (&String, &String)> {
    let variables = job.env.iter().filter(|(name, _)| !pmi::is_variable(name));
    variables.map(|(name, value)| (name, value))
}

/// The environment variables whose values are templates (shell option `env-expand`).
fn expanded(job: &StartJob) -> impl Iterator<Item = (&String, &str)> {
    let texts = job.shell_options.get("env-expand").and_then(serde_json::Value::as_object);
    texts.into_iter().flatten().filter_map(|(name, text)| Some((name, text.as_str()?)))
}

/// The first word of the command; all tasks run the same program.
fn program_name(job: &StartJob) -> String {
    job.command.first().map_or_else(String::new, |word| render(word, job, 0))
}

/// Finds the program of a job's tasks, as the job's user.
pub(super) fn program_of(job: &StartJob, actor: &Actor) -> Result<PathBuf, Errno> {
    let found = actor.act(|| find_program(job));
    found.unwrap_or_else(|error| Err(Errno::from_io_error(&error).unwrap_or(Errno::PERM)))
}

/// Finds the program in the job's own `PATH`. `Command` would search the shepherd's.
fn find_program(job: &StartJob) -> Result<PathBuf, Errno> {
    let name = program_name(job);
    if name.is_empty() {
        return Err(Errno::NOENT);
    }
    if name.contains('/') {
        return Ok(job.cwd.join(&name));
    }
    let path = job.env.iter().find(|(variable, _)| variable == "PATH");
    let path = path.map_or(DEFAULT_PATH, |(_, value)| value.as_str());
    let mut outcome = Err(Errno::NOENT);
    for dir in path.split(':') {
        let candidate = job.cwd.join(dir).join(&name);
        if !candidate.is_file() {
            continue;
        }
        match may_execute(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(errno) => outcome = Err(errno),
        }
    }
    outcome
}

/// Whether the effective user may enter a directory or execute a file.
fn may_execute(path: &Path) -> Result<(), Errno> {
    accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)
}

/// Sorts errors by their cause: the command, or the system.
fn spawn_error(name: &str, error: &io::Error) -> SpawnError {
    let mut message = format!("{name}: {}", plain(error));
    if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) {
        message
            .push_str(": raise the hard limit of open files (ulimit -Hn) where the manager starts");
    }
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::SRCH) => {
            SpawnError::System(message)
        }
        Some(Errno::NOENT) => SpawnError::Command { exit_code: 127, message },
        _ => SpawnError::Command { exit_code: 126, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(command: &str, path: Option<&str>) -> StartJob {
        let env = path.map(|path| ("PATH".to_owned(), path.to_owned()));
        let command = vec![command.to_owned()];
        let cwd = Path::new("/").to_owned();
        StartJob {
            command,
            cwd,
            env: env.into_iter().collect(),
            ..StartJob::new(jobtap_core::job::JobId::new(1))
        }
    }

    #[test]
    fn a_command_is_searched_in_the_path_of_the_job() {
        assert!(find_program(&job("sh", None)).unwrap().ends_with("sh"));
        assert_eq!(find_program(&job("sh", Some("/nosuch"))), Err(Errno::NOENT));
        assert_eq!(find_program(&job("sh", Some("bin"))).unwrap(), Path::new("/bin/sh"));
        assert_eq!(find_program(&job("bin/sh", Some(""))).unwrap(), Path::new("/bin/sh"));
        assert_eq!(find_program(&job("", None)), Err(Errno::NOENT));
    }

    #[test]
    fn errors_of_the_command_have_the_exit_codes_of_a_shell() {
        let code = |errno: Errno| match spawn_error("x", &errno.into()) {
            SpawnError::Command { exit_code, .. } => Some(exit_code),
            SpawnError::System(_) => None,
        };
        assert_eq!(code(Errno::NOENT), Some(127));
        assert_eq!(code(Errno::ACCESS), Some(126));
        assert_eq!(code(Errno::AGAIN), None);
        let SpawnError::Command { message, .. } = spawn_error("x", &Errno::NOENT.into()) else {
            panic!()
        };
        assert_eq!(message, "x: No such file or directory");
    }
}
