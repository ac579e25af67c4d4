//! The functions of `pmi.h` and `pmi2.h` as C calls them, and all unsafe code of this library.
//!
//! Why it is sound:
//!
//! - C's pointers are accessed only by the functions in `pointers`, none of which dereferences a null pointer, writes
//!   beyond the length that the caller states, or reads a string beyond its NUL or its maximum length. Besides, they
//!   rely on what the headers require of callers: a pointer that isn't null points to memory of the stated length or to
//!   a NUL-terminated string, and nobody else writes to that memory during the call. References to such memory don't
//!   outlive the call. Nothing is assumed about alignment, the content of a string, or lengths, which may be negative.
//! - The state of the process is behind a lock ([`shared`]), so that calls from several threads are serialized.
//! - The C functions that are called (`system`) get pointers and lengths of Rust slices, or constants.
//! - No function unwinds into C: the library is compiled with `panic=abort`, so a panic, of which none is known, ends
//!   the process.
//!
//! A call from a signal handler during another call waits forever for the lock. [`abort`] doesn't take the lock.

#![allow(unsafe_code)]

mod pmi1;
mod pmi2;
mod pointers;
mod shared;
mod system;

use core::ffi::c_int;

use super::client::abort_request;
use super::error::Error;
use super::process::Process;
use super::text::{Text, decimal, number};
use shared::with_state;
use system::Descriptor;

/// The process, once it has initialized PMI.
type Own = Process<Descriptor>;

/// Calls `act` with the process; fails if it hasn't initialized PMI.
fn with_process<T>(act: impl FnOnce(&mut Own) -> Result<T, Error>) -> Result<T, Error> {
    with_state(|state| act(state.as_mut().ok_or(Error::Init)?))
}

/// Initializes PMI. A second call does nothing.
fn initialize() -> Result<(), Error> {
    with_state(|state| {
        if state.is_some() {
            return Ok(());
        }
        *state = Some(match system::variable(c"PMI_FD") {
            None => Own::ALONE,
            Some(socket) => {
                let number_of = |name| system::variable(name).and_then(|text| number(text.bytes()));
                let rank = number_of(c"PMI_RANK").ok_or(Error::Fail)?;
                let size = number_of(c"PMI_SIZE").ok_or(Error::Fail)?;
                let socket = number(socket.bytes()).filter(|socket| *socket >= 0);
                Own::task(Descriptor(socket.ok_or(Error::Fail)?), rank, size)?
            }
        });
        Ok(())
    })
}

/// Ends the use of PMI. The process, or a program that it executes later, can initialize PMI again.
fn finalize() -> Result<(), Error> {
    with_state(|state| state.take().ok_or(Error::Init)?.finish())
}

/// Whether another job of the same user has started this one, according to the launcher.
fn is_spawned() -> c_int {
    system::variable(c"PMI_SPAWNED").and_then(|text| number(text.bytes())).unwrap_or(0)
}

/// Aborts the whole job and exits this process.
fn abort(exit_code: c_int, why: &[u8]) -> ! {
    let socket = system::variable(c"PMI_FD").and_then(|text| number(text.bytes()));
    if let Some(socket) = socket.filter(|socket| *socket >= 0) {
        // Nothing can be done if it fails: this process ends anyway.
        let _ =
            super::client::Socket::send(&Descriptor(socket), abort_request(exit_code, why).bytes());
    } else {
        let mut line = Text::<1200>::EMPTY;
        for part in [b"PMI_Abort with exit code ", decimal(exit_code).bytes(), b": ", why, b"\n"] {
            let _ = line.push(part);
        }
        system::write_to_stderr(line.bytes());
    }
    system::exit(exit_code)
}
