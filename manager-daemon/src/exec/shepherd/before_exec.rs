//! What the process of a task does between fork and exec: what must hold for the program's first instruction,
//! and can't be done by the shepherd, which serves all jobs.
//!
//! As soon as the process has the ids of the job's user, that user can stop it, and the program may be in a file
//! system that never answers. So the shepherd doesn't wait until the program runs, as [`Command`] would: it gets a
//! pipe that says so.
//!
//! [`Command`]: std::process::Command

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::Display;
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use close_fds::CloseFdsBuilder;
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, write};
use rustix::process::{Pid, Resource, Rlimit, chdir, ioctl_tiocsctty, setpgid, setrlimit, setsid};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::actor::Identity;

/// The exit code of a process that has not executed its program. The pipe says why.
const NOT_EXECUTED: c_int = 127;

/// The number of the last signal.
const LAST_SIGNAL: c_int = 64;

/// The steps, in their order.
#[derive(Debug, Default)]
pub(super) struct BeforeExec {
    /// The terminal that becomes the controlling one of a new session.
    pub(super) terminal: Option<OwnedFd>,
    /// The CPUs to run on.
    pub(super) cpus: Option<CpuSet>,
    /// The resource limits to set.
    pub(super) limits: Vec<(Resource, Rlimit)>,
    /// The user to become.
    pub(super) user: Option<Arc<Identity>>,
}

/// A program with its arguments, its environment and its standard streams.
pub(super) struct Program {
    path: CString,
    directory: CString,
    args: Vec<CString>,
    env: Vec<CString>,
    streams: [OwnedFd; 3],
    /// A file that it inherits besides.
    inherited: Option<OwnedFd>,
}

impl Program {
    /// `args` begin with the name of the program.
    ///
    /// # Errors
    /// A text has a NUL character in it.
    pub(super) fn new(
        (path, directory): (&Path, &Path),
        args: impl IntoIterator<Item = String>,
        env: impl IntoIterator<Item = (impl Display, impl Display)>,
        streams: [OwnedFd; 3],
        inherited: Option<OwnedFd>,
    ) -> io::Result<Self> {
        let args = args.into_iter().map(CString::new).collect::<Result<_, _>>()?;
        let env = env.into_iter().map(|(name, value)| CString::new(format!("{name}={value}")));
        Ok(Self {
            path: CString::new(path.as_os_str().as_bytes())?,
            directory: CString::new(directory.as_os_str().as_bytes())?,
            args,
            env: env.collect::<Result<_, _>>()?,
            streams: streams.map(above_the_standard_streams),
            inherited,
        })
    }
}

/// The same file, with a number that none of the standard streams has.
fn above_the_standard_streams(file: OwnedFd) -> OwnedFd {
    if file.as_raw_fd() > 2 { file } else { fcntl_dupfd_cloexec(&file, 3).unwrap_or(file) }
}

impl BeforeExec {
    /// Whether there is a step that needs a process of the shepherd's own making. Without any, [`Command`] starts
    /// the process in a faster way that needs no fork.
    ///
    /// [`Command`]: std::process::Command
    pub(super) fn is_needed(&self) -> bool {
        let Self { terminal, cpus, limits, user } = self;
        terminal.is_some() || cpus.is_some() || !limits.is_empty() || user.is_some()
    }

    /// Takes the steps that need the shepherd's rights, and then the ids of the user.
    fn run(&self) -> io::Result<()> {
        match &self.terminal {
            Some(terminal) => {
                setsid()?;
                ioctl_tiocsctty(terminal)?;
            }
            // The system lets processes of one session continue each other, so jobs of different users have
            // different ones.
            None if self.user.is_some() => drop(setsid()?),
            None => setpgid(None, None)?,
        }
        if let Some(cpus) = &self.cpus {
            sched_setaffinity(None, cpus)?;
        }
        for &(resource, limit) in &self.limits {
            setrlimit(resource, limit)?;
        }
        Ok(())
    }

    /// Becomes the user, who from here on can stop the process, and enters the working directory as this user:
    /// root could enter directories that the user may not.
    fn assume_user(&self, directory: &CStr) -> io::Result<()> {
        if let Some(identity) = &self.user {
            identity.assume()?;
        }
        Ok(chdir(directory)?)
    }
}

/// With [`signals`](crate::exec::signals) the only unsafe code of this crate.
#[allow(unsafe_code)]
impl BeforeExec {
    /// Starts a process that takes these steps and then executes `program`. The pipe `report` ends when it has done
    /// so; if it can't, it writes the number of the error there before.
    pub(super) fn fork(&self, program: &Program, report: PipeWriter) -> io::Result<Pid> {
        let pointers = |texts: &[CString]| -> Vec<*const c_char> {
            texts.iter().map(|text| text.as_ptr()).chain([null()]).collect()
        };
        let (args, env) = (pointers(&program.args), pointers(&program.env));
        // A script without a line that names its interpreter is run by the shell, as a shell does it.
        let shell = [c"/bin/sh".as_ptr(), program.path.as_ptr()];
        let shell: Vec<_> = shell.into_iter().chain(args.iter().skip(1).copied()).collect();
        let inherited = program.inherited.iter().map(AsRawFd::as_raw_fd);
        let mut keep: Vec<RawFd> = inherited.chain([report.as_raw_fd()]).collect();
        keep.sort_unstable();
        // SAFETY: the structures are plain data, which the calls fill in. Until the mask is restored no handler of
        // the shepherd runs, neither in this process nor in the new one.
        //
        // The new process has one thread, while other threads of the shepherd may have held locks at the moment of
        // the fork. So until it executes a program it only calls functions that are safe in a signal handler: it
        // makes system calls with values that were made before the fork, and turns an error number into an
        // `io::Error` that holds nothing but the number. It neither allocates nor frees nor locks nor unwinds, and
        // it never returns from here: it executes the program or exits. The pointers are to texts with a NUL at
        // their end, in lists with a null pointer at their end, which live until this function returns. The files
        // that it closes are copies of the shepherd's, which the shepherd keeps; nothing in the new process uses
        // them later. The calls that change the ids of a thread change those of the process, as it has one thread.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            let child = libc::fork();
            if child != 0 {
                let failed = io::Error::last_os_error();
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
                return Pid::from_raw(child).filter(|_| child > 0).ok_or(failed);
            }
            let execute = || -> io::Result<()> {
                for (file, number) in program.streams.iter().zip(0..) {
                    if libc::dup2(file.as_raw_fd(), number) < 0 {
                        return Err(io::Error::last_os_error());
                    }
                }
                self.run()?;
                if let Some(inherited) = &program.inherited {
                    fcntl_setfd(inherited, FdFlags::empty())?;
                }
                // Before the user can stop the process, which would keep the files of other jobs open.
                CloseFdsBuilder::new().keep_fds_sorted(&keep).closefrom(3);
                // The shepherd's handlers and what it ignores are not the program's.
                for signal in 1..=LAST_SIGNAL {
                    libc::signal(signal, libc::SIG_DFL);
                }
                let mut none = std::mem::zeroed();
                libc::sigemptyset(&raw mut none);
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, null_mut());
                self.assume_user(&program.directory)?;
                libc::execve(program.path.as_ptr(), args.as_ptr(), env.as_ptr());
                let failed = io::Error::last_os_error();
                if failed.raw_os_error() != Some(Errno::NOEXEC.raw_os_error()) {
                    return Err(failed);
                }
                libc::execve(c"/bin/sh".as_ptr(), shell.as_ptr(), env.as_ptr());
                Err(io::Error::last_os_error())
            };
            let number = execute().err().and_then(|error| error.raw_os_error()).unwrap_or(0);
            // Four bytes are written at once or not at all. Without them, the exit code has to do.
            let _ = write(report.as_fd(), &number.to_ne_bytes());
            libc::_exit(NOT_EXECUTED)
        }
    }
}
