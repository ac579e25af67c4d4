//! Ends a test in which a handler doesn't return, and says which handler that is.
//!
//! Handlers run on the thread of the test, which then can't end itself. So one thread of the process looks at the
//! current calls of all managers. It counts its looks instead of reading a clock, so that time in which a debugger has
//! stopped the process doesn't count.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use crate::host::{Calls, PresentCall};

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// The number of looks after which an unchanged call counts as hanging: ten seconds, as in a real manager.
const LOOKS: u32 = 100;

/// The exit code of a test binary that has failed.
const FAILED: i32 = 101;

/// The managers of this process.
static WATCHED: Mutex<Vec<Watched>> = Mutex::new(Vec::new());

/// Watches the calls of a manager until it is dropped.
#[derive(Debug)]
pub(super) struct Watch(Calls);

struct Watched {
    calls: Calls,
    /// The name of the thread, which is that of the test.
    test: String,
    same: Same<PresentCall>,
}

/// The number of looks in a row that have seen the same call.
struct Same<C> {
    call: Option<C>,
    looks: u32,
}

impl Watch {
    /// Watches these calls, which the current thread makes.
    pub(super) fn new(calls: &Calls) -> Self {
        static THREAD: Once = Once::new();
        THREAD.call_once(|| {
            // If the thread can't be started, a handler that doesn't return hangs the test; nothing else is lost.
            let _ = std::thread::Builder::new().name("hanging handlers".to_owned()).spawn(look);
        });
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        watched().push(Watched { calls: calls.clone(), test, same: Same::NONE });
        Self(calls.clone())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = watched();
        if let Some(at) = watched.iter().position(|one| one.calls.is(&self.0)) {
            watched.swap_remove(at);
        }
    }
}

impl<C: PartialEq> Same<C> {
    const NONE: Self = Self { call: None, looks: 0 };

    /// Returns whether the call has been the same for too long.
    fn look(&mut self, call: Option<C>) -> bool {
        match call.is_some() && self.call == call {
            true => self.looks += 1,
            false => *self = Self { call, looks: 0 },
        }
        self.looks >= LOOKS
    }
}

fn watched() -> MutexGuard<'static, Vec<Watched>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look() -> ! {
    loop {
        std::thread::sleep(LOOK);
        for Watched { calls, test, same } in watched().iter_mut() {
            let present = calls.present();
            if let (true, Some(call)) = (same.look(present), present) {
                fail(test, &calls.describe(call));
            }
        }
    }
}

/// Ends the process, the only way to end another thread that loops. The other tests of the binary end with it;
/// otherwise they would wait for this one.
fn fail(test: &str, call: &str) -> ! {
    let seconds = LOOK.as_secs_f64() * f64::from(LOOKS);
    let text = format!(
        "\ntest {test}: {call}: the handler has not returned for {seconds} s. A handler must not wait, block or loop: make \
         it `async`, and use `Remote`\n"
    );
    // If the message can't be written, the exit code still tells.
    let _ = std::io::stderr().write_all(text.as_bytes());
    std::process::exit(FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_call_that_goes_on_is_too_long() {
        let mut same = Same::NONE;
        for count in 0..3 * u64::from(LOOKS) {
            assert!(!same.look(Some(count)));
        }
        let looks = (0..2 * LOOKS).filter(|_| same.look(Some(7))).count();
        assert_eq!(looks, LOOKS as usize);
        assert!(!same.look(None));
    }
}
