//! The system calls of the forker that no safe interface covers: to start a process in a session of its own, and to
//! look at a child that has exited before it is reaped.
//!
//! Together with [`signals`](crate::exec::signals) and `fatal_signals`, this is the only unsafe code of this crate.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{null, null_mut};

use close_fds::CloseFdsBuilder;
use rustix::io::Errno;
use rustix::process::Pid;

use super::progress::PidPlace;
use super::request::Standard;
use super::task::NOT_EXECUTED;

/// The number of the last signal.
const LAST_SIGNAL: c_int = 64;

/// Starts a process that runs `child` and exits with the code that it returns. It has none of this process's signal
/// handlers, and ignores no signal.
///
/// Call only in a process with a single thread.
pub(super) fn fork(child: impl FnOnce() -> i32) -> io::Result<Pid> {
    // SAFETY: the sets are plain data, which the calls fill in. Until the mask is restored no handler of the forker
    // runs, neither in this process nor in the new one, so that the new process, which shares the forker's files, never
    // writes to the pipe of a handler.
    //
    // The forker has a single thread: it starts none, and its runtime is one that runs on the thread that calls it. So
    // no lock is held by a thread that doesn't exist in the new process, where `child` may allocate and lock as it
    // would anywhere. It never returns to the caller: a panic ends the process, before it is unwound further, as does
    // the end of `child`, without running what the forker has registered for its own exit.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let pid = libc::fork();
        if pid != 0 {
            let failed = io::Error::last_os_error();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
            return Pid::from_raw(pid).filter(|_| pid > 0).ok_or(failed);
        }
        for signal in 1..=LAST_SIGNAL {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, null_mut());
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        libc::_exit(code.unwrap_or(libc::EXIT_FAILURE))
    }
}

/// The signals that this process handles or ignores.
///
/// A new process gives them their default actions. Looking them up once, after all handlers are set, saves some sixty
/// system calls for each process.
pub(super) struct ChangedSignals(Vec<c_int>);

impl ChangedSignals {
    /// Call when this process changes no action any more.
    pub(super) fn of_this_process() -> Self {
        let is_changed = |signal: &c_int| {
            // SAFETY: the call only fills in `action`, which is plain data. It fails for the two signals that the C library
            // keeps for itself.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(*signal, null(), &raw mut action) == 0
                    && action.sa_sigaction != libc::SIG_DFL
            }
        };
        Self((1..=LAST_SIGNAL).filter(is_changed).collect())
    }
}

/// What a new process executes, and how.
pub(super) struct Program<'a> {
    pub(super) program: &'a CStr,
    pub(super) args: &'a [CString],
    pub(super) env: &'a [CString],
    pub(super) directory: &'a CStr,
    pub(super) streams: &'a [(BorrowedFd<'a>, Standard)],
    pub(super) signals: &'a ChangedSignals,
    /// Where the process writes its id, before anything else.
    pub(super) pid: PidPlace<'a>,
}

/// A process that was started, but can't execute its program. It has exited and isn't reaped.
pub(super) struct Unexecuted {
    pub(super) pid: Pid,
    pub(super) error: io::Error,
}

/// The stack of a new process until it executes its program, in units of its alignment. It makes only system calls.
const STACK: usize = (64 << 10) / size_of::<u128>();

/// Starts a process that executes a program in a session of its own. It has no files of this process except its
/// streams and the files that aren't closed at exec, and ignores no signal.
///
/// Returns when the process executes the program, or can't. Call only in a process with a single thread.
///
/// This is much faster than a fork, since the process has the memory of this one until it executes its program. It is
/// not `posix_spawn`, because a process that runs is known to the shepherd even if it kills this one at once: it writes
/// its id before it executes the program.
pub(super) fn spawn(program: &Program<'_>) -> io::Result<Result<Pid, Unexecuted>> {
    let pointers = |texts: &[CString]| -> Vec<*const c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([null()]).collect()
    };
    let (args, env) = (pointers(program.args), pointers(program.env));
    let mut begun = Begun { program, args: &args, env: &env, errno: 0 };
    let mut stack = vec![MaybeUninit::<u128>::uninit(); STACK];
    // SAFETY: the new process shares the memory of this one, which is suspended until it executes its program or exits.
    // So all that it uses lives long enough, and nobody else writes to it. It runs on a stack of its own, which grows
    // down from the end of `stack`, and is aligned as the elements are. `execute` makes only system calls, neither
    // allocates nor panics, and never returns. No handler of the forker runs in it: all signals are blocked until it
    // has given each its default action.
    let pid = unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let top = stack.as_mut_ptr_range().end;
        let pid = libc::clone(execute, top.cast(), flags, (&raw mut begun).cast());
        let failed = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
        Pid::from_raw(pid).filter(|_| pid > 0).ok_or(failed)?
    };
    // SAFETY: `begun` is a valid value of this process. The compiler can't know that another one has changed it.
    let errno = unsafe { (&raw const begun.errno).read_volatile() };
    Ok(match errno {
        0 => Ok(pid),
        errno => Err(Unexecuted { pid, error: io::Error::from_raw_os_error(errno) }),
    })
}

/// What a new process shares with the forker until it executes its program.
struct Begun<'a> {
    program: &'a Program<'a>,
    args: &'a [*const c_char],
    env: &'a [*const c_char],
    /// Why the program isn't executed.
    errno: c_int,
}

/// Executes the program of a new process. `begun` is a [`Begun`].
extern "C" fn execute(begun: *mut c_void) -> c_int {
    // SAFETY: see `spawn`. The texts and lists have a NUL and a null pointer at their ends, and the files are open.
    unsafe {
        let begun = begun.cast::<Begun<'_>>();
        (*begun).run();
        let errno = *libc::__errno_location();
        (&raw mut (*begun).errno).write_volatile(errno);
        libc::_exit(NOT_EXECUTED)
    }
}

impl Begun<'_> {
    /// Makes the system calls up to the execution of the program. Returns only if one of them fails.
    ///
    /// # Safety
    /// To be called only in a process that `spawn` has started.
    unsafe fn run(&self) {
        let Self { program, args, env, .. } = self;
        // SAFETY: each call gets numbers, or pointers to what outlives it.
        unsafe {
            let pid = libc::getpid();
            let offset = program.pid.offset();
            let written = libc::pwrite(
                program.pid.file(),
                (&raw const pid).cast(),
                size_of_val(&pid),
                offset,
            );
            if written < 0 || libc::setsid() < 0 {
                return;
            }
            for (file, stream) in program.streams {
                let number = match stream {
                    Standard::Input => libc::STDIN_FILENO,
                    Standard::Output => libc::STDOUT_FILENO,
                    Standard::Error => libc::STDERR_FILENO,
                };
                // The forker has standard streams of its own, so that the files have other numbers.
                if libc::dup2(file.as_raw_fd(), number) < 0 {
                    return;
                }
            }
            if libc::chdir(program.directory.as_ptr()) < 0 {
                return;
            }
            for signal in &program.signals.0 {
                libc::signal(*signal, libc::SIG_DFL);
            }
            let mut none = MaybeUninit::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), null_mut());
            libc::execve(program.program.as_ptr(), args.as_ptr(), env.as_ptr());
        }
    }
}

/// Closes the files of this process from number 3 on, except those in `keep`.
///
/// Call only in a new process, before it executes a program, and with all files in `keep` that it uses later.
pub(super) fn close_others(keep: &[i32]) {
    let mut keep = keep.to_vec();
    keep.sort_unstable();
    // SAFETY: the files are copies of the forker's, which still has them. What refers to them in the memory of this
    // process is never used or dropped: it executes a program or exits.
    unsafe { CloseFdsBuilder::new().keep_fds_sorted(&keep).closefrom(3) }
}

/// A child that has exited and isn't reaped yet, with its wait status.
pub(super) fn exited_child() -> io::Result<Option<(Pid, i32)>> {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `waitid` fills in the structure, which is plain data, and the accessors read the fields that it fills in
    // for children.
    let (pid, status, code) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        if libc::waitid(libc::P_ALL, 0, &raw mut info, options) < 0 {
            let error = io::Error::last_os_error();
            let none = error.raw_os_error() == Some(Errno::CHILD.raw_os_error());
            return if none { Ok(None) } else { Err(error) };
        }
        (info.si_pid(), info.si_status(), info.si_code)
    };
    let status = match code {
        libc::CLD_EXITED => (status & 0xff) << 8,
        libc::CLD_DUMPED => status | 0x80,
        _ => status,
    };
    Ok(Pid::from_raw(pid).filter(|_| pid > 0).map(|pid| (pid, status)))
}
