//! The file descriptor that a launcher has left open for this process, by its number in the environment.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};

/// Takes the socket with this number. `None` if there is none, or if it is one of the three standard streams.
///
/// It must be called once in a process, before anything else can have opened a descriptor that has this number.
pub(super) fn take(number: i32) -> Option<File> {
    let opened = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    if number <= 2 || !opened.as_os_str().as_encoded_bytes().starts_with(b"socket:") {
        return None;
    }
    // SAFETY: the descriptor is open, as the line above shows. No other part of this process owns it: `start` calls this
    // before it opens any file that it keeps, and the launcher has left this one open for the process to use.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    Some(File::from(descriptor))
}
