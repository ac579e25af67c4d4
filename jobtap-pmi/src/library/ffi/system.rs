//! The C functions that are called. Every libc has them, and the program that loads the library has a libc.

use core::ffi::{CStr, c_char, c_int, c_long, c_short, c_ulong, c_void};
use core::ptr::null_mut;

use super::super::client::Socket;
use super::super::error::Error;
use super::super::text::Text;
use super::pointers;

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    fn send(socket: c_int, data: *const c_void, length: usize, flags: c_int) -> isize;
    fn recv(socket: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize;
    fn write(file: c_int, data: *const c_void, length: usize) -> isize;
    fn poll(files: *mut PollFile, count: c_ulong, milliseconds: c_int) -> c_int;
    #[link_name = "exit"]
    fn c_exit(code: c_int) -> !;
    fn __errno_location() -> *mut c_int;
}

/// `struct pollfd`. It only declares the type of `poll`: none is passed.
#[repr(C)]
struct PollFile {
    file: c_int,
    events: c_short,
    happened: c_short,
}

/// Linux: sending to a socket whose other end is closed is an error instead of a signal.
const MSG_NOSIGNAL: c_int = 0x4000;
const EINTR: c_int = 4;

/// The number of a socket that the launcher has opened for this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor(pub(super) c_int);

impl Socket for Descriptor {
    fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let sent = uninterrupted(|| {
                // SAFETY: the pointer and the length belong to one slice.
                unsafe { send(self.0, rest.as_ptr().cast(), rest.len(), MSG_NOSIGNAL) }
            })?;
            rest = rest.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        uninterrupted(|| {
            // SAFETY: the pointer and the length belong to one mutable slice.
            unsafe { recv(self.0, buffer.as_mut_ptr().cast(), buffer.len(), 0) }
        })
    }
}

/// Repeats a system call while signals interrupt it; returns the number of bytes that it has transferred.
fn uninterrupted(mut call: impl FnMut() -> isize) -> Result<usize, Error> {
    loop {
        match usize::try_from(call()) {
            Ok(bytes) => return Ok(bytes),
            // SAFETY: the pointer is to this thread's `errno` and is valid while the thread runs.
            Err(_) if unsafe { __errno_location().read() } == EINTR => {}
            Err(_) => return Err(Error::Fail),
        }
    }
}

/// Returns an environment variable that holds a number; `None` if it isn't set or is longer than any number.
pub(super) fn variable(name: &CStr) -> Option<Text<11>> {
    // SAFETY: `name` is NUL-terminated, and a program must not change its environment during a call of PMI.
    let value = unsafe { getenv(name.as_ptr()) };
    // SAFETY: `getenv` returns null or a NUL-terminated string, which isn't used after this function.
    let value = unsafe { pointers::text(value, 11, Error::Length) };
    Text::concat(&[value.ok()?])
}

/// Sleeps for this time, so that other threads and processes can run.
pub(super) fn pause(milliseconds: c_int) {
    // SAFETY: the count is 0, so `poll` doesn't use the pointer.
    unsafe { poll(null_mut(), 0, milliseconds) };
}

pub(super) fn write_to_stderr(text: &[u8]) {
    // SAFETY: the pointer and the length belong to one slice.
    let _ = unsafe { write(2, text.as_ptr().cast(), text.len()) };
}

pub(super) fn exit(code: c_int) -> ! {
    // SAFETY: `exit` accepts any code.
    unsafe { c_exit(code) }
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    write_to_stderr(b"libpmi: internal error\n");
    exit(134)
}

const _: () =
    assert!(size_of::<c_long>() == size_of::<usize>(), "Linux's ssize_t is as wide as a long");
