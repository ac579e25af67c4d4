//! The interface to Flux, and the only module of this crate with unsafe code.
//!
//! | file | content |
//! |---|---|
//! | `sys` | declarations of the functions of libflux and jansson |
//! | `json` | jansson's JSON values, deserialized by serde |
//! | `plugin` | the implementation of the safe trait [`Flux`](crate::flux::Flux) |
//! | `entry` | the functions that Flux calls |
//!
//! All of it runs on the job manager's thread, unless an item says otherwise.

#![allow(unsafe_code)]

mod entry;
mod json;
mod plugin;
mod sys;

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

pub use entry::init;
pub use json::Json;

/// Makes `fd` file descriptor 3 of the process that a command starts.
pub(crate) fn pass_as_fd_3(command: &mut Command, fd: &impl AsFd) -> std::io::Result<()> {
    // Use a number above 3: if `fd` were 3 itself, `dup2` would do nothing, and 3 would keep its close-on-exec flag.
    let fd = rustix::io::fcntl_dupfd_cloexec(fd, 10)?;
    // SAFETY: only async-signal-safe functions may be called between fork and exec. `dup2` is one, and the closure
    // doesn't allocate.
    unsafe {
        command.pre_exec(move || match sys::dup2(fd.as_raw_fd(), 3) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    Ok(())
}
