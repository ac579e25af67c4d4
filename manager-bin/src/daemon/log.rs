//! The manager's log: a ring of the last lines in memory, and grave lines on stderr.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use jobtap_core::engine::Level;
use serde_json::{Value, json};

/// Lines kept in memory.
const KEPT: usize = 4096;

/// One line of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// When, seconds since the UNIX epoch.
    pub time: f64,
    /// How grave.
    pub level: Level,
    /// The message.
    pub text: String,
}

impl Line {
    /// The line as `log.dmesg` answers it.
    pub fn to_json(&self) -> Value {
        json!({"timestamp": self.time, "text": render(self.level, &self.text)})
    }
}

/// The log; shared by all threads of the manager.
#[derive(Debug)]
pub struct Log {
    ring: Mutex<VecDeque<Line>>,
    to_stderr: Level,
}

impl Log {
    /// A log that repeats lines of at least this gravity on stderr.
    pub fn new(to_stderr: Level) -> Self {
        Self { ring: Mutex::new(VecDeque::new()), to_stderr }
    }

    /// Adds a message; several lines of text become several log lines.
    pub fn write(&self, level: Level, text: &str) {
        let time = super::now().as_secs();
        for text in text.lines() {
            if level <= self.to_stderr {
                eprintln!("{}", render(level, text));
            }
            let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
            if ring.len() == KEPT {
                ring.pop_front();
            }
            ring.push_back(Line { time, level, text: text.to_owned() });
        }
    }

    /// The lines still in memory, oldest first.
    pub fn lines(&self) -> Vec<Line> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// A line in the form of `flux dmesg`: service, severity, rank.
fn render(level: Level, text: &str) -> String {
    let severity = match level {
        Level::Error => "err",
        Level::Warning => "warning",
        Level::Info => "info",
        Level::Debug => "debug",
    };
    format!("job-manager.{severity}[0]: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_service_severity_and_rank() {
        assert_eq!(render(Level::Error, "bad"), "job-manager.err[0]: bad");
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let log = Log::new(Level::Error);
        for i in 0..KEPT + 2 {
            log.write(Level::Debug, &i.to_string());
        }
        let lines = log.lines();
        assert_eq!(lines.len(), KEPT);
        assert_eq!(lines.first().map(|line| line.text.as_str()), Some("2"));
    }
}
