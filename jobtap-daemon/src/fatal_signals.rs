//! Reports a signal that ends this process, just before it does.
//!
//! A stack overflow, a failed allocation and a panic during a panic end the process by a signal, which no other code of
//! the process notices. A handler of such a signal may do next to nothing: it wakes a thread that waits on a pipe, and
//! waits a bounded time for the thread's answer. Then the signal has the effect that it had before.

use std::ffi::{c_int, c_void};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, sigaction, siginfo_t};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const SIGNALS: [c_int; 5] = [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV];

/// How long a handler waits for the answer.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The ends of the pipes that a handler uses. They exist before a handler can be called.
static HANDLER: OnceLock<Handler> = OnceLock::new();
/// Whether a handler has reported its signal. A signal in another thread then has its effect at once.
static TOLD: AtomicBool = AtomicBool::new(false);

struct Handler {
    tell: PipeWriter,
    answered: PipeReader,
    /// The earlier action of each of [`SIGNALS`].
    before: [sigaction; SIGNALS.len()],
}

/// Receives the signal that ends this process.
pub(crate) struct FatalSignals {
    told: PipeReader,
    answer: PipeWriter,
}

/// A signal that ends this process as soon as this value is dropped.
pub(crate) struct Death<'a> {
    /// Its number.
    pub(crate) signal: i32,
    /// Whether another process has sent it.
    pub(crate) sent: bool,
    /// The thread that received it.
    pub(crate) thread: i32,
    answer: &'a PipeWriter,
}

impl FatalSignals {
    /// Catches the signals from now on. `None` if that was done in this process before.
    ///
    /// # Errors
    /// There are no file descriptors left for the pipes.
    pub(crate) fn catch() -> io::Result<Option<Self>> {
        let (told, tell) = io::pipe()?;
        let (answered, answer) = io::pipe()?;
        let mut first = false;
        HANDLER.get_or_init(|| {
            first = true;
            Handler { tell, answered, before: SIGNALS.map(present) }
        });
        if !first {
            return Ok(None);
        }
        SIGNALS.into_iter().for_each(tell_of);
        Ok(Some(Self { told, answer }))
    }

    /// Waits until a signal ends this process.
    ///
    /// # Errors
    /// The pipe can't be read.
    pub(crate) fn wait(&mut self) -> io::Result<Death<'_>> {
        let mut numbers = [0; 3 * size_of::<i32>()];
        self.told.read_exact(&mut numbers)?;
        let (numbers, _) = numbers.as_chunks();
        let [signal, sent, thread] = [0, 1, 2]
            .map(|at| numbers.get(at).copied().map(i32::from_ne_bytes).unwrap_or_default());
        Ok(Death { signal, sent: sent != 0, thread, answer: &self.answer })
    }
}

impl Drop for Death<'_> {
    fn drop(&mut self) {
        // After an error, the handler waits until its time is up.
        let _ = self.answer.write_all(&[0]);
    }
}

/// The present action of a signal.
#[allow(unsafe_code)]
fn present(signal: c_int) -> sigaction {
    let mut action = MaybeUninit::<sigaction>::zeroed();
    // SAFETY: `action` is writable, and all zeros are a valid `sigaction`, so it is initialized even if the call fails.
    unsafe {
        sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    }
}

/// Calls [`on_signal`] for a signal, on the stack that the standard library gives each thread for signals: the thread's
/// own stack may have overflowed.
#[allow(unsafe_code)]
fn tell_of(signal: c_int) {
    // SAFETY: as in `present`; no signals are masked, and the flags match the handler's signature. `on_signal` does
    // only what POSIX allows a handler at any moment: see there. The call fails for no signal of `SIGNALS`.
    unsafe {
        let mut action = MaybeUninit::<sigaction>::zeroed().assume_init();
        action.sa_sigaction =
            on_signal as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        sigaction(signal, &raw const action, ptr::null_mut());
    }
}

/// Allocates nothing, takes no lock, and calls only functions of the system: `gettid`, `write`, `poll`, `sigaction`,
/// `raise`.
#[allow(unsafe_code)]
extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    let Some(Handler { tell, answered, before }) = HANDLER.get() else { return };
    // SAFETY: with SA_SIGINFO the system passes a valid structure.
    let code = unsafe { (*info).si_code };
    if !TOLD.swap(true, Ordering::SeqCst) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let sent = i32::from(code == libc::SI_USER || code == libc::SI_QUEUE);
        let mut numbers = [0; 3 * size_of::<i32>()];
        for (place, number) in numbers.as_chunks_mut().0.iter_mut().zip([signal, sent, thread]) {
            *place = number.to_ne_bytes();
        }
        if rustix::io::write(tell, &numbers).is_ok() {
            let _ = poll(&mut [PollFd::new(answered, PollFlags::IN)], Some(&PATIENCE));
        }
    }
    let before = SIGNALS.iter().zip(before).find(|(known, _)| **known == signal);
    if let Some((_, before)) = before {
        // SAFETY: the action is what `sigaction` has returned for this signal.
        unsafe { sigaction(signal, before, ptr::null_mut()) };
    }
    // A fault recurs as soon as this returns, since the instruction that caused it is executed again. A signal that a
    // process has sent, even this process by `abort`, does not.
    if code <= 0 {
        // SAFETY: it takes only a number. The signal is blocked until this returns.
        unsafe { libc::raise(signal) };
    }
}
