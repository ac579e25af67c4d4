//! The last line of the log when a signal ends the manager. It names the plugin and the handler that was running.
//!
//! Panics are caught; a stack overflow, a failed memory allocation and a panic during a panic are not. Without this
//! line the reader of the log would have to guess which plugin it was.

use std::io;
use std::sync::Arc;

use jobtap_core::engine::Level;
use jobtap_core::host::Calls;

use crate::daemon::log::Log;
use crate::fatal_signals::FatalSignals;
use crate::{shown, stderr};

/// The name of the thread on which handlers are called.
pub(in crate::daemon) const ENGINE: &str = "engine";

/// Starts the thread that writes the line if a fatal signal comes. In a process with several managers, `calls` and
/// `log` of the first one are used.
///
/// # Errors
/// No thread can be started, or no pipe can be made.
pub(super) fn keep(calls: Calls, log: Arc<Log>) -> io::Result<()> {
    let Some(mut signals) = FatalSignals::catch()? else { return Ok(()) };
    std::thread::Builder::new().name("last words".to_owned()).spawn(move || {
        if let Ok(death) = signals.wait() {
            let call = calls.present().map(|call| calls.describe(call));
            let thread = thread_name(death.thread);
            log.write(Level::Error, &words(death.signal, death.sent, &thread, call.as_deref()));
            stderr::flush();
            // The process ends when this is dropped.
            drop(death);
        }
    })?;
    Ok(())
}

fn thread_name(thread: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
    shown::in_line(name.unwrap_or_default().trim_end()).into_owned()
}

fn words(signal: i32, sent: bool, thread: &str, call: Option<&str>) -> String {
    let signal = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        _ => "SIGSEGV",
    };
    match (sent, call) {
        (true, None) => format!("another process ends the manager by {signal}"),
        (true, Some(call)) => {
            format!("another process ends the manager by {signal}, while it is at {call}")
        }
        (false, Some(call)) if thread == ENGINE => format!(
            "{call}: the handler ends the manager by {signal}: it has overflowed its stack, could not allocate memory, \
             panicked during a panic, or has `unsafe` code that is wrong. Jobs go on, and the next manager takes them over"
        ),
        (false, _) => format!(
            "the thread '{thread}' ends the manager by {signal}. Jobs go on, and the next manager takes them over"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_engine_is_at_a_handler() {
        let call = Some("a: job.new");
        assert!(words(libc::SIGSEGV, false, ENGINE, call).starts_with("a: job.new: the handler"));
        assert!(words(libc::SIGSEGV, false, ENGINE, None).starts_with("the thread 'engine' ends"));
        assert!(!words(libc::SIGABRT, false, "futures of b", call).contains("a: job.new"));
    }

    #[test]
    fn a_signal_of_another_process_is_not_blamed_on_the_handler() {
        let text = words(libc::SIGABRT, true, "main", Some("a: job.new"));
        let expected = "another process ends the manager by SIGABRT, while it is at a: job.new";
        assert_eq!(text, expected);
    }
}
