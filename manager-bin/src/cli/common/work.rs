//! The progress of long work: a line on standard error that says what is being done, how much of it is done, and how
//! long it has taken. It is shown only on a terminal and only if the work takes longer than a moment, and it leaves
//! nothing behind.
//!
//! Other output of the command appears above it, since everything is printed through [`beside`].

use std::io::{self, IsTerminal};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::shown;

/// How long work may take before its progress is shown: a line that only flashes is no help.
const MOMENT: Duration = Duration::from_millis(500);

/// The interval at which the line is redrawn, so that its clock runs.
const REDRAW: Duration = Duration::from_millis(200);

/// The line that is shown now.
static CURRENT: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Work that is being done. Dropping it removes its line.
pub(in crate::cli) struct Work {
    line: ProgressBar,
    /// Dropping it ends the thread that waits before the line is first shown.
    _end: Option<Sender<()>>,
}

impl Work {
    /// Begins work of unknown size, such as `waiting for jobs`.
    pub(in crate::cli) fn start(what: &str) -> Self {
        Self::begin(what, None, io::stderr().is_terminal())
    }

    /// Begins work on a known number of things, such as `submitting` 100 `jobs`.
    pub(in crate::cli) fn on(what: &str, total: u64, things: &'static str) -> Self {
        Self::begin(what, Some((total, things)), io::stderr().is_terminal())
    }

    fn begin(what: &str, total: Option<(u64, &'static str)>, terminal: bool) -> Self {
        let line = ProgressBar::with_draw_target(
            total.map(|(total, _)| total),
            ProgressDrawTarget::hidden(),
        );
        line.set_prefix(shown::in_line(what).into_owned());
        line.set_style(match total {
            Some((_, things)) => counted(things),
            None => style("{prefix} {spinner} {msg} {elapsed}"),
        });
        let _end = terminal.then(|| show_later(line.clone())).flatten();
        Self { line, _end }
    }

    /// Whether the progress is shown on a terminal. If not, what is only shown there need not be computed.
    pub(in crate::cli) fn is_watched(&self) -> bool {
        self._end.is_some()
    }

    /// Sets the number of things, once it is known.
    #[cfg(feature = "tools")]
    pub(in crate::cli) fn set_total(&self, total: u64, things: &'static str) {
        if self.line.length() != Some(total) {
            self.line.set_length(total);
            self.line.set_style(counted(things));
        }
    }

    /// Sets the number of things that are done.
    pub(in crate::cli) fn at(&self, done: u64) {
        self.line.set_position(done);
    }

    /// Counts one more thing as done.
    pub(in crate::cli) fn one_more(&self) {
        self.line.inc(1);
    }

    /// Shows a text about the state of the work.
    pub(in crate::cli) fn say(&self, text: &str) {
        self.line.set_message(shown::in_line(text).into_owned());
    }

    /// How long the work has taken.
    #[cfg(feature = "tools")]
    pub(in crate::cli) fn elapsed(&self) -> Duration {
        self.line.elapsed()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that the thread that shows the line either has shown it already or finds it finished.
        self.line.finish_and_clear();
        *current = None;
    }
}

fn counted(things: &str) -> ProgressStyle {
    style(&format!(
        "{{prefix}} {{wide_bar}} {{human_pos}}/{{human_len}} {things} {{msg}} {{elapsed}}"
    ))
}

/// The style for a template, which is one of the constants above.
fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    // Neither the spinner nor the bar needs more than ASCII.
    style.tick_chars("-\\|/ ").progress_chars("#> ")
}

/// Shows a line after a moment, unless the returned sender is dropped first. Returns `None` if no thread can be
/// spawned; then the line is never shown.
fn show_later(line: ProgressBar) -> Option<Sender<()>> {
    let (sender, receiver) = channel();
    let wait = move || {
        if receiver.recv_timeout(MOMENT) == Err(RecvTimeoutError::Timeout) {
            let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
            if !line.is_finished() {
                line.set_draw_target(ProgressDrawTarget::stderr());
                line.enable_steady_tick(REDRAW);
                *current = Some(line);
            }
        }
    };
    std::thread::Builder::new().name("progress".to_owned()).spawn(wait).ok().map(|_| sender)
}

/// Prints other output: the line is cleared first, and redrawn below the output.
pub(in crate::cli) fn beside<T>(print: impl FnOnce() -> T) -> T {
    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match current {
        Some(line) => line.suspend(print),
        None => print(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_nothing_is_ever_shown() {
        let work = Work::begin("waiting", None, false);
        assert!(!work.is_watched() && work.line.is_hidden());
        work.set_total(3, "jobs");
        work.one_more();
        assert_eq!((work.line.position(), work.line.length()), (1, Some(3)));
    }
}
