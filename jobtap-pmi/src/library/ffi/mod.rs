//! The functions of `pmi.h` and `pmi2.h` as C calls them, and all that is unsafe in this library.
//!
//! Why it is sound:
//!
//! - What C passes comes in by the functions of `pointers`, none of which touches a null pointer, writes beyond the
//!   length that the caller states, or reads a text beyond its zero or the most that it may have. What they rely on
//!   besides is what the headers demand of callers: that a pointer which isn't null leads to memory of the stated
//!   length, or to a text that a zero ends, and that nobody else writes there during the call. References to such
//!   memory don't outlive the call. Nothing is assumed of alignment, of the content of a text, or of lengths, which may
//!   be negative.
//! - The state of the process is behind a lock ([`shared`]), so that calls of several threads follow each other.
//! - The functions of C that are called (`system`) get pointers and lengths of slices of Rust, or constants.
//! - No function unwinds into C: the library is compiled so that a panic, of which none is known, ends the process.
//!
//! A call from a handler of signals during another call waits for ever; [`abort`] alone doesn't take the lock.

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

/// Calls `act` with the process; an error if it hasn't initialized PMI.
fn with_process<T>(act: impl FnOnce(&mut Own) -> Result<T, Error>) -> Result<T, Error> {
    with_state(|state| act(state.as_mut().ok_or(Error::Init)?))
}

/// Initializes PMI, once.
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

/// Ends the use of PMI. A program that is executed later in the same task begins again.
fn finalize() -> Result<(), Error> {
    with_state(|state| state.take().ok_or(Error::Init)?.finish())
}

/// Whether another job of the same user has started this one, as the launcher says.
fn is_spawned() -> c_int {
    system::variable(c"PMI_SPAWNED").and_then(|text| number(text.bytes())).unwrap_or(0)
}

/// Ends the whole job, and this process.
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
