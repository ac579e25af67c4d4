//! Prepares the start of a job's tasks, whose processes the forker starts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

use super::files::user_file::TaskStream;
use super::forker::{FileUse, Limit, Open, Spawn, Standard};
use super::gpus;
use super::job::Plan;
use super::job_user::JobUser;
use super::pids::token;
use super::placement::{Place, place};
use super::pmi;
use super::start_error::StartError;
use super::streams::ends::Ends;
use super::streams::taskio::{JobIo, TaskIo};
use super::system_error::plain;
use super::template::{f58_for, render, variable};
use crate::exec::StartJob;
use crate::rlimits::RESOURCES;

/// The search path for programs if the job's environment has no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The reason why a task could not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum SpawnError {
    /// The program can't be run, or the system can't start a process of it now.
    #[error("{}", message(program, error))]
    Program { program: String, error: io::Error },
    /// The forker can't be asked for the process.
    #[error("{}", message(program, error))]
    Request { program: String, error: io::Error },
    /// The task's files can't be opened, or its streams can't be copied.
    #[error(transparent)]
    Streams(#[from] StartError),
    /// It isn't known whether the process has run.
    #[error("the forker has died while it started it")]
    ForkerDied,
    /// The process didn't execute the program in this time.
    #[error("its program was not executed within {} s", .0.as_secs())]
    Late(Duration),
}

impl SpawnError {
    /// The code with which a shell would exit, if the command can't be run; `None` if the system is the cause.
    pub(super) fn exit_code(&self) -> Option<i32> {
        let Self::Program { error, .. } = self else { return None };
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::SRCH) => None,
            Some(Errno::NOENT) => Some(127),
            _ => Some(126),
        }
    }
}

/// What is wrong with a directory that a job names. The job then has [another one](ELSEWHERE).
#[derive(Debug, thiserror::Error)]
pub(super) enum UnusableDirectory {
    /// Its working directory.
    #[error(
        "Could not change dir to {}: {}. Going to {ELSEWHERE} instead",
        path.display(), plain(error)
    )]
    Working { path: PathBuf, error: io::Error },
    /// Its directory for temporary files, as its environment names it.
    #[error("Unable to create TMPDIR={name}, resetting TMPDIR={ELSEWHERE}")]
    Temporary { name: String },
}

/// All that the process of a task needs.
pub(super) struct Prepared {
    pub(super) spawn: Spawn,
    pub(super) theirs: Vec<(FileUse, OwnedFd)>,
    pub(super) ends: Ends,
}

/// Prepares the tasks of one job.
pub(super) struct Launcher<'a> {
    plan: &'a Plan,
    program: &'a Result<PathBuf, Errno>,
    env: Vec<(String, String)>,
}

impl<'a> Launcher<'a> {
    /// `nonce` distinguishes this shepherd from all others.
    pub(super) fn new(plan: &'a Plan, program: &'a Result<PathBuf, Errno>, nonce: &str) -> Self {
        let job = &plan.start;
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
        Self { plan, program, env }
    }

    /// Prepares the task with rank `rank`.
    pub(super) fn prepare(&self, rank: u32, io: &JobIo) -> Result<Prepared, SpawnError> {
        let Plan { start: job, job_user, pmi, devices, .. } = self.plan;
        let name = program_name(job);
        let failed = |error| SpawnError::Program { program: name.clone(), error };
        let program = self.program.as_ref().map_err(|errno| failed((*errno).into()))?;
        let files = io.files(job, rank)?;
        let streams = io.task(rank, &files).map_err(failed)?;
        let pmi = pmi.as_ref().map(|pmi| pmi.connect(rank)).transpose();
        let (socket, pmi) = pmi.map_err(failed)?.unzip();
        let TaskIo { stdin, stdout, stderr, captures, input, terminal } = streams;
        let (controlling, terminal) = terminal.unzip();
        let (mut theirs, mut opens) = (Vec::new(), Vec::new());
        let standard = [Standard::Input, Standard::Output, Standard::Error];
        for (stream, file) in standard.into_iter().zip([stdin, Some(stdout), Some(stderr)]) {
            match file {
                Some(TaskStream::Open(file)) => theirs.push((FileUse::Stream(stream), file)),
                Some(TaskStream::OpenedByTask(path, purpose)) => {
                    opens.push(Open { stream, path, purpose });
                }
                None => {}
            }
        }
        theirs.extend(socket.map(|socket| (FileUse::Pmi, socket)));
        theirs.extend(controlling.map(|terminal| (FileUse::Terminal, terminal)));
        let arguments = job.command.iter().skip(1).map(|word| render(word, job, rank));
        // If several variables have the same name, the last one counts.
        let env: BTreeMap<_, _> = self.environment(rank).collect();
        let spawn = Spawn {
            job: job.id,
            rank,
            record: None,
            program: program.clone(),
            directory: job.cwd.clone(),
            args: std::iter::once(name).chain(arguments).collect(),
            env: env.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            cpus: devices.cpus.as_ref().map(|cpus| cpus.cpus(job, rank)),
            limits: self.limits(),
            user: job_user.other().map(|user| (**user).clone()),
            opens,
        };
        Ok(Prepared { spawn, theirs, ends: Ends { captures, input, pmi, terminal } })
    }

    /// The limits that the job asks for.
    fn limits(&self) -> Vec<Limit> {
        let named = self.plan.limits.changed().iter().filter_map(|(resource, limit)| {
            let (name, _) = RESOURCES.iter().find(|(_, known)| known == resource)?;
            Some(Limit { resource: (*name).to_owned(), soft: limit.current, hard: limit.maximum })
        });
        named.collect()
    }

    /// The error of a task whose process could not execute its program.
    pub(super) fn refused(job: &StartJob, errno: Errno) -> SpawnError {
        SpawnError::Program { program: program_name(job), error: errno.into() }
    }

    /// The error of a task whose process could not be requested.
    pub(super) fn not_requested(job: &StartJob, error: io::Error) -> SpawnError {
        SpawnError::Request { program: program_name(job), error }
    }

    /// The environment of the task with rank `rank`, without the number of its PMI socket. If several variables have
    /// the same name, the last one counts.
    fn environment(&self, rank: u32) -> impl Iterator<Item = Variable<'_>> {
        let Plan { start: job, pmi, devices, .. } = self.plan;
        let own = own_environment(job).chain(self.env.iter().map(|(name, value)| (name, value)));
        let own = own.map(|(name, value)| (Cow::from(name), Cow::from(value)));
        let expanded = expanded(job).filter_map(move |(name, text)| {
            Some((Cow::from(name), Cow::from(variable(text, job, rank)?)))
        });
        let Place { node, local } = place(&job.taskmap, rank);
        // Tells commands in the task the rank that a broker of Flux would have there.
        let own_rank = job.nodes.get(node).map(|node| ("JOBTAP_RANK", node.rank));
        let of_task = [
            ("FLUX_TASK_RANK", rank),
            ("JOBTAP_TASK_RANK", rank),
            ("FLUX_TASK_LOCAL_ID", local),
            ("JOBTAP_TASK_LOCAL_ID", local),
        ];
        let of_pmi = pmi.as_ref().map(|pmi| pmi.variables(rank));
        let gpus = devices.gpus.as_ref();
        // The defaults come first, so that the job's own variables override them.
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

/// The working directory of jobs whose own can't be used, and their directory for temporary files if their own can't
/// be used, as in Flux.
const ELSEWHERE: &str = "/tmp";

/// Makes sure that a job has a working directory that its user can use. The error says what is wrong with its own; the
/// job then has another one.
pub(super) fn settle_directory(
    job: &mut StartJob,
    job_user: &JobUser,
) -> Result<(), UnusableDirectory> {
    let cwd = &job.cwd;
    let usable = || {
        if std::fs::metadata(cwd)?.is_dir() {
            Ok(may_execute(cwd)?)
        } else {
            Err(Errno::NOTDIR.into())
        }
    };
    let Err(error) = job_user.act(usable).flatten() else { return Ok(()) };
    let path = std::mem::replace(&mut job.cwd, ELSEWHERE.into());
    Err(UnusableDirectory::Working { path, error })
}

/// Makes sure that the directory for temporary files that the job's environment names exists, as in Flux: the job may
/// run on another host than the one where it was submitted. The error says what is wrong with the directory; the job
/// then has another one.
pub(super) fn settle_tmpdir(
    job: &mut StartJob,
    job_user: &JobUser,
) -> Result<(), UnusableDirectory> {
    let Some((_, dir)) = job.env.iter_mut().find(|(name, _)| name == "TMPDIR") else {
        return Ok(());
    };
    let path = job.cwd.join(&*dir);
    let make = || match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    let usable = !dir.is_empty() && job_user.act(make).flatten().is_ok();
    if usable {
        return Ok(());
    }
    Err(UnusableDirectory::Temporary { name: std::mem::replace(dir, ELSEWHERE.to_owned()) })
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
pub(super) fn program_of(job: &StartJob, job_user: &JobUser) -> Result<PathBuf, Errno> {
    let found = job_user.act(|| find_program(job));
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

/// The text of an error for the user.
fn message(name: &str, error: &io::Error) -> String {
    let mut message = format!("{name}: {}", plain(error));
    if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) {
        message
            .push_str(": raise the hard limit of open files (ulimit -Hn) where the manager starts");
    }
    message
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
        let failed =
            |errno: Errno| SpawnError::Program { program: "x".to_owned(), error: errno.into() };
        let code = |errno| failed(errno).exit_code();
        assert_eq!(code(Errno::NOENT), Some(127));
        assert_eq!(code(Errno::ACCESS), Some(126));
        assert_eq!(code(Errno::AGAIN), None);
        assert_eq!(failed(Errno::NOENT).to_string(), "x: No such file or directory");
    }
}
