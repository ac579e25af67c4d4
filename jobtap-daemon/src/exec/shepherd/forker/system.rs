//! The system calls of the forker that no safe interface covers: to start a process in a session of its own, and to
//! look at a child that has exited before it is reaped.
//!
//! Together with [`signals`](crate::exec::signals) and `fatal_signals`, this is the only unsafe code of this crate.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_short};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

use close_fds::CloseFdsBuilder;
use rustix::io::Errno;
use rustix::process::Pid;

use super::request::Standard;

/// The number of the last signal.
const LAST_SIGNAL: c_int = 64;

/// Starts a process that runs `child` and exits with the code that it returns. It has none of this process's signal
/// handlers, and ignores no signal.
///
/// To be called only in a process with a single thread.
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

/// Starts a process that executes `program` with these arguments and environment, in `directory` and in a session of
/// its own, with these standard streams. It has no files of this process except these streams and the files that aren't
/// closed at exec, and ignores no signal. An error means that the program was not executed, and that no process is
/// left.
pub(super) fn spawn(
    (program, args, env): (&CStr, &[CString], &[CString]),
    directory: &CStr,
    streams: &[(BorrowedFd<'_>, Standard)],
) -> io::Result<Pid> {
    let pointers = |texts: &[CString]| -> Vec<*mut c_char> {
        texts.iter().map(|text| text.as_ptr().cast_mut()).chain([null_mut()]).collect()
    };
    let (args, env) = (pointers(args), pointers(env));
    let done = |errno: c_int| match errno {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    };
    // SAFETY: the structures are initialized by the first two calls before anything else uses them, and destroyed once,
    // after the last use; where a call in between fails, `prepare` returns and they are destroyed all the same. The
    // pointers are to texts with a NUL at their end, in lists with a null pointer at their end, which live until this
    // function returns; the system doesn't write to them. The numbers of the streams are those of open files.
    unsafe {
        let mut actions = MaybeUninit::<libc::posix_spawn_file_actions_t>::uninit();
        done(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
        let mut attributes = MaybeUninit::<libc::posix_spawnattr_t>::uninit();
        if let Err(error) = done(libc::posix_spawnattr_init(attributes.as_mut_ptr())) {
            libc::posix_spawn_file_actions_destroy(actions.as_mut_ptr());
            return Err(error);
        }
        let mut prepare = || -> io::Result<()> {
            for (file, stream) in streams {
                let number = match stream {
                    Standard::Input => libc::STDIN_FILENO,
                    Standard::Output => libc::STDOUT_FILENO,
                    Standard::Error => libc::STDERR_FILENO,
                };
                let actions = actions.as_mut_ptr();
                done(libc::posix_spawn_file_actions_adddup2(actions, file.as_raw_fd(), number))?;
            }
            let actions = actions.as_mut_ptr();
            done(libc::posix_spawn_file_actions_addchdir_np(actions, directory.as_ptr()))?;
            let mut set = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            done(libc::posix_spawnattr_setsigmask(attributes.as_mut_ptr(), set.as_ptr()))?;
            // The only signal that this process ignores.
            libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
            done(libc::posix_spawnattr_setsigdefault(attributes.as_mut_ptr(), set.as_ptr()))?;
            let flags = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
            let flags = c_short::try_from(flags).unwrap_or_default() | libc::POSIX_SPAWN_SETSID;
            done(libc::posix_spawnattr_setflags(attributes.as_mut_ptr(), flags))
        };
        let mut pid = 0;
        let started = prepare().and_then(|()| {
            done(libc::posix_spawn(
                &raw mut pid,
                program.as_ptr(),
                actions.as_ptr(),
                attributes.as_ptr(),
                args.as_ptr(),
                env.as_ptr(),
            ))
        });
        libc::posix_spawnattr_destroy(attributes.as_mut_ptr());
        libc::posix_spawn_file_actions_destroy(actions.as_mut_ptr());
        started?;
        Pid::from_raw(pid).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Closes the files of this process from number 3 on, except those in `keep`.
///
/// To be called only in a new process, before it executes a program, and with all files in `keep` that it uses later.
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
