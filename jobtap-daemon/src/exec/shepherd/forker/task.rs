//! What the process of a task does between fork and exec: everything that must hold from the program's first
//! instruction on.
//!
//! As soon as the process has the ids of the job's user, that user can stop it, and the program may be in a file system
//! that never answers. So neither the forker nor the shepherd waits until the program runs. The process has a pipe to
//! the shepherd, the *report*. First it writes its own id there, so that the shepherd knows the process even if the
//! forker dies at that moment. The pipe closes when the process executes its program.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{
    Pid, Rlimit, WaitOptions, getpid, ioctl_tiocsctty, setrlimit, setsid, waitpid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::super::files::user_file::{for_task, open_patiently};
use super::progress::Progress;
use super::request::{FileUse, Spawn, Standard};
use super::system::{self, ChangedSignals, Program, Unexecuted, close_others};
use crate::open_files::OpenFiles;
use crate::rlimits::RESOURCES;

/// The exit code of a process that hasn't executed its program. The report, or the forker, says why.
pub(super) const NOT_EXECUTED: i32 = 127;

/// The variable with the number of the file that is the task's PMI socket.
const PMI_FD: &str = "PMI_FD";

/// Starts the process of a [plain](Spawn::is_plain) task, which executes its program when this returns. An error says
/// why it can't.
pub(super) fn spawn(
    number: u64,
    spawn: Spawn,
    files: &[(FileUse, OwnedFd)],
    progress: &Progress,
    signals: &ChangedSignals,
) -> io::Result<Pid> {
    let mut variables = spawn.env;
    let mut streams = Vec::new();
    for (used, file) in files {
        match used {
            FileUse::Stream(stream) => streams.push((file.as_fd(), *stream)),
            FileUse::Pmi => {
                fcntl_setfd(file, FdFlags::empty())?;
                set_pmi(&mut variables, file);
            }
            FileUse::Terminal | FileUse::Report | FileUse::ShepherdEnd(_) => {}
        }
    }
    let text = |bytes: &[u8]| CString::new(bytes);
    let env = variables.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>()?;
    let mut args = spawn.args.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>()?;
    let program = text(spawn.program.as_os_str().as_bytes())?;
    let directory = text(spawn.directory.as_os_str().as_bytes())?;
    let start = |program: &CStr, args: &[CString]| {
        let (env, directory, streams) = (env.as_slice(), directory.as_c_str(), streams.as_slice());
        let pid = progress.pid_place();
        let program = Program { program, args, env, directory, streams, signals, pid };
        let started = OpenFiles::of_this_process().lowered(|| system::spawn(&program))?;
        started.map_err(|Unexecuted { pid, error }| {
            // While the shepherd could take it for the task, it isn't reaped.
            if progress.begin(number).is_ok() {
                let _ = waitpid(Some(pid), WaitOptions::empty());
            }
            error
        })
    };
    match start(&program, &args) {
        // A script without a line that names its interpreter is run by the shell, as shells do.
        Err(error) if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
            args.splice(..args.len().min(1), [c"/bin/sh".to_owned(), program]);
            start(c"/bin/sh", &args)
        }
        started => started,
    }
}

/// Executes the program of a task in this process. If that fails, returns the exit code for the process.
pub(super) fn run(spawn: Spawn, report: OwnedFd, files: Vec<(FileUse, OwnedFd)>) -> i32 {
    let mut report = File::from(above_the_standard_streams(report));
    // A write of four bytes is never partial. It fails if the shepherd is gone, which changes nothing for the task.
    let _ = report.write_all(&getpid().as_raw_pid().to_ne_bytes());
    let Err(error) = execute(spawn, &report, files);
    let number = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
    let _ = report.write_all(&number.to_ne_bytes());
    NOT_EXECUTED
}

/// Sets the variable with the number of the PMI socket.
fn set_pmi(env: &mut Vec<String>, socket: &OwnedFd) {
    let is_set = |variable: &String| variable.split('=').next() == Some(PMI_FD);
    env.retain(|variable| !is_set(variable));
    env.push(format!("{PMI_FD}={}", socket.as_raw_fd()));
}

/// The same file, with a number that none of the standard streams has.
fn above_the_standard_streams(file: OwnedFd) -> OwnedFd {
    if file.as_raw_fd() > 2 { file } else { fcntl_dupfd_cloexec(&file, 3).unwrap_or(file) }
}

fn place(stream: Standard, file: &OwnedFd) -> io::Result<()> {
    match stream {
        Standard::Input => dup2_stdin(file)?,
        Standard::Output => dup2_stdout(file)?,
        Standard::Error => dup2_stderr(file)?,
    }
    Ok(())
}

fn execute(
    spawn: Spawn,
    report: &File,
    files: Vec<(FileUse, OwnedFd)>,
) -> io::Result<std::convert::Infallible> {
    let mut pmi = None;
    let mut terminal = None;
    let files = files.into_iter().map(|(used, file)| (used, above_the_standard_streams(file)));
    // All of them are above the standard streams before the first of these is replaced.
    for (used, file) in files.collect::<Vec<_>>() {
        match used {
            FileUse::Stream(stream) => place(stream, &file)?,
            FileUse::Pmi => pmi = Some(file),
            FileUse::Terminal => terminal = Some(file),
            FileUse::Report | FileUse::ShepherdEnd(_) => {}
        }
    }
    // A session of its own for each task. The system lets processes of one session continue each other, and a process
    // can signal all processes of its session with `pkill -s 0`: neither must reach other jobs.
    setsid()?;
    if let Some(terminal) = &terminal {
        ioctl_tiocsctty(terminal)?;
    }
    if let Some(cpus) = &spawn.cpus {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu as usize));
        sched_setaffinity(None, &set)?;
    }
    if let Some((resource, limit)) = OpenFiles::of_this_process().of_started() {
        setrlimit(resource, limit)?;
    }
    for limit in &spawn.limits {
        let known = RESOURCES.iter().find(|(name, _)| *name == limit.resource);
        let (_, resource) = known.ok_or(Errno::INVAL)?;
        setrlimit(*resource, Rlimit { current: limit.soft, maximum: limit.hard })?;
    }
    // Before the user can stop the process, which would keep the files of other jobs open.
    let kept = pmi.iter().map(AsRawFd::as_raw_fd).chain([report.as_raw_fd()]);
    close_others(&kept.collect::<Vec<_>>());
    if let Some(user) = &spawn.user {
        user.assume()?;
    }
    for wanted in &spawn.opens {
        place(wanted.stream, &for_task(open_patiently(&wanted.path, wanted.purpose)?)?)?;
    }
    let Spawn { program, directory, args, mut env, .. } = spawn;
    if let Some(pmi) = &pmi {
        fcntl_setfd(pmi, FdFlags::empty())?;
        set_pmi(&mut env, pmi);
    }
    let mut words = args.into_iter();
    let name = words.next().unwrap_or_default();
    let words: Vec<String> = words.collect();
    let prepared = |mut command: Command| {
        // As the job's user: root could enter directories that the user may not.
        command.args(&words).env_clear().current_dir(&directory);
        command.envs(env.iter().filter_map(|variable| variable.split_once('=')));
        command
    };
    let mut command = Command::new(&program);
    command.arg0(name);
    let error = prepared(command).exec();
    if error.raw_os_error() != Some(Errno::NOEXEC.raw_os_error()) {
        return Err(error);
    }
    // A script without a line that names its interpreter is run by the shell, as shells do.
    let mut shell = Command::new("/bin/sh");
    shell.arg(&program);
    Err(prepared(shell).exec())
}
