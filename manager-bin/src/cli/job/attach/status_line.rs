//! The status line of an attached client, which shows why a pending job hasn't started.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use jobtap_core::eventlog::EventEntry;

use crate::cli::common::message::Prog;
use crate::cli::job::COMMAND;
use crate::cli::job::event_stream::integer;

/// After this time the line is shown even without `--show-status`.
const DELAY: Duration = Duration::from_secs(2);

/// The status line. It disappears when the job starts.
pub(super) struct StatusLine {
    name: String,
    message: Option<&'static str>,
    since: Instant,
    after: Option<Duration>,
    shown: bool,
}

impl StatusLine {
    /// The line for a job. Without the option `--show-status` (`requested`) it is shown on terminals only,
    /// and not together with events.
    pub(super) fn new(typed: &str, requested: bool, events_shown: bool) -> Self {
        let interactive = std::io::stdin().is_terminal()
            && std::io::stdout().is_terminal()
            && std::io::stderr().is_terminal()
            && std::env::var_os("FLUX_ATTACH_NONINTERACTIVE").is_none();
        let after = match (requested, interactive && !events_shown) {
            (true, _) => Some(Duration::ZERO),
            (false, true) => Some(DELAY),
            (false, false) => None,
        };
        let name = typed.to_owned();
        Self { name, message: Some("submitted"), since: Instant::now(), after, shown: false }
    }

    /// Updates the message for an event of the main eventlog.
    pub(super) fn update(&mut self, event: &EventEntry) {
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

    /// Redraws the line; to be called every second.
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
        self.write(&format!("\r{}\x1b[K", Prog::current().plain(COMMAND, text)));
        self.shown = true;
    }

    /// Erases the line, so that something else can be printed.
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
