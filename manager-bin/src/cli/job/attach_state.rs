//! The status line that shows what a pending job waits for.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use jobtap_core::eventlog::EventEntry;

use super::event_stream::integer;
use crate::cli::message::Prog;

/// After this time the line is shown without an option for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The status line, which is shown until the job has started.
pub(super) struct StatusLine {
    name: String,
    message: Option<&'static str>,
    since: Instant,
    after: Option<Duration>,
    shown: bool,
}

impl StatusLine {
    /// A line for a job. Without an option for it (`asked`), it is shown on terminals only.
    pub(super) fn new(typed: &str, asked: bool, events_shown: bool) -> Self {
        let interactive = std::io::stdin().is_terminal()
            && std::io::stdout().is_terminal()
            && std::io::stderr().is_terminal()
            && std::env::var_os("FLUX_ATTACH_NONINTERACTIVE").is_none();
        let after = match (asked, interactive && !events_shown) {
            (true, _) => Some(Duration::ZERO),
            (false, true) => Some(PATIENCE),
            (false, false) => None,
        };
        let name = typed.to_owned();
        Self { name, message: Some("submitted"), since: Instant::now(), after, shown: false }
    }

    /// Takes an event of the main log into account.
    pub(super) fn note(&mut self, event: &EventEntry) {
        self.message = match &*event.name {
            "submit" => Some("submitted"),
            "validate" => Some("resolving dependencies"),
            "depend" | "urgency" => Some("waiting for priority assignment"),
            "priority" => Some("waiting for resources"),
            "alloc" | "prolog-finish" => Some("starting"),
            "prolog-start" => Some("waiting for prolog"),
            "exception" if integer(event, "severity") == Some(0) => {
                Some("canceling due to exception")
            }
            "start" | "clean" | "finish" => None,
            _ => return,
        };
        if self.message.is_none() {
            self.clear();
        }
    }

    /// Redraws the line. Called every second.
    pub(super) fn tick(&mut self) {
        let elapsed = self.since.elapsed();
        let (Some(message), Some(after)) = (self.message, self.after) else {
            return;
        };
        if elapsed < after {
            return;
        }
        let seconds = elapsed.as_secs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let text = format!("{} {message} {hours:02}:{minutes:02}:{seconds:02}", self.name);
        self.write(&format!("\r{}\x1b[K", Prog::current().plain(super::COMMAND, text)));
        self.shown = true;
    }

    /// Removes the line before something else is printed.
    pub(super) fn clear(&mut self) {
        if self.shown {
            self.write("\r\x1b[K");
            self.shown = false;
        }
    }

    fn write(&self, text: &str) {
        let mut err = std::io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}
