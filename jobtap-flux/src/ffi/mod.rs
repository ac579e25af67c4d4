//! The boundary to Flux: the only module of this crate with unsafe code.
//!
//! | file | what it holds |
//! |---|---|
//! | `sys` | the functions of libflux and jansson, declared |
//! | `json` | JSON values of jansson, read by serde |
//! | `plugin` | the functions behind the safe trait [`Flux`](crate::flux::Flux) |
//! | `entry` | what Flux calls |
//!
//! All of it runs on the job manager's thread, but for what is said at each item.

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

/// Lets a command's process have `fd` as its descriptor 3.
pub(crate) fn pass_as_fd_3(command: &mut Command, fd: &impl AsFd) -> std::io::Result<()> {
    // Above 3, so that `dup2` makes a new descriptor, without the flag that would close it.
    let fd = rustix::io::fcntl_dupfd_cloexec(fd, 10)?;
    // SAFETY: between fork and exec only functions that are safe for signal handlers may be called: `dup2` is,
    // and the closure allocates nothing.
    unsafe {
        command.pre_exec(move || match sys::dup2(fd.as_raw_fd(), 3) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    Ok(())
}
