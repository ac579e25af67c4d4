//! Prints the entries of eventlogs with their options for format, time and color: `job eventlog`,
//! `job wait-event` and the commands that print other eventlogs.

use std::io::IsTerminal;

use jiff::Timestamp as Instant;
use jiff::tz::TimeZone;
use jobtap_core::eventlog::format::{EntryFormat, Formatter, TimeFormat};
use jobtap_core::eventlog::{EventEntry, Name};
use jobtap_core::job::Timestamp;
use serde_json::Value;

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::shown;

/// The options for the format of printed events.
#[derive(Debug, Clone, clap::Args)]
pub(in crate::cli) struct FormatArgs {
    /// Format of events: text or json
    #[arg(short = 'f', long, value_name = "FORMAT", default_value = "text")]
    format: String,
    /// Format of times: raw, iso, offset or human
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "raw")]
    time_format: String,
    /// The same as --format=text --time-format=human, whatever these are
    #[arg(short = 'H', long)]
    human: bool,
    /// Colour the output: always, never or auto
    #[arg(short = 'L', long, value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_value = "auto", default_missing_value = "always")]
    color: String,
}

/// The offset of the local time from UTC at a time, in seconds, positive to the east.
pub(in crate::cli) type LocalZone = Box<dyn Fn(Timestamp) -> i32>;

/// Prints the events of one eventlog.
pub(in crate::cli) struct Printer {
    format: EntryFormat,
    time: TimeFormat,
    color: bool,
    formatter: Formatter<LocalZone>,
}

impl FormatArgs {
    /// The printer for these options.
    pub(in crate::cli) fn printer(&self) -> Result<Printer, CliError> {
        let invalid =
            |what: &str, text: &str| CliError::failure(format!("invalid {what} type '{text}'"));
        let (format, time) = if self.human {
            (EntryFormat::Text, TimeFormat::Human)
        } else {
            (
                self.format.parse().map_err(|_| invalid("format", &self.format))?,
                self.time_format.parse().map_err(|_| invalid("time-format", &self.time_format))?,
            )
        };
        Ok(Printer::new(format, time, color_wanted(&self.color)?))
    }
}

impl Printer {
    /// A printer with these formats of events and times; text is colored if `color` says so.
    pub(in crate::cli) fn new(format: EntryFormat, time: TimeFormat, color: bool) -> Self {
        let formatter = Formatter::new(format, time, local_zone(TimeZone::system()));
        Self { format, time, color, formatter }
    }

    /// Takes note of an event that isn't printed: offsets count from the first event of the log.
    pub(in crate::cli) fn skip(&mut self, event: &EventEntry) {
        if self.time == TimeFormat::Offset {
            self.formatter.time(event);
        }
    }

    /// Prints the event as a line.
    pub(in crate::cli) fn print(&mut self, event: &EventEntry) -> Result<(), CliError> {
        if self.color && self.format == EntryFormat::Text {
            return session::print_painted(&format!("{}\n", self.colored(event)));
        }
        session::print(&format!("{}\n", self.formatter.format(event)))
    }

    fn colored(&mut self, event: &EventEntry) -> String {
        let time = self.formatter.time(event);
        let time_color = if time.dated { "1;32" } else { "32" };
        let name_color = if event.name == Name::Exception { "1;31" } else { "33" };
        let mut line = paint(time_color, &time.text);
        line.push(' ');
        line.push_str(&paint(name_color, &event.name));
        for (key, value) in event.context.iter().flatten() {
            let color = if matches!(value, Value::Number(_)) { "37" } else { "35" };
            line.push_str(&format!(" {}={}", paint("34", key), paint(color, &value.to_string())));
        }
        line
    }
}

fn paint(color: &str, text: &str) -> String {
    let text = shown::in_line(text);
    format!("\x1b[{color}m{text}\x1b[0m")
}

/// Returns true if `--color=WHEN` asks for colored output.
pub(in crate::cli) fn color_wanted(when: &str) -> Result<bool, CliError> {
    match when {
        "always" => Ok(true),
        "never" => Ok(false),
        "auto" => Ok(std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()),
        other => Err(CliError::failure(format!("invalid color type '{other}'"))),
    }
}

/// The offsets of a time zone, which depend on the time.
pub(in crate::cli) fn local_zone(zone: TimeZone) -> LocalZone {
    Box::new(move |at: Timestamp| {
        let instant = Instant::from_second(at.as_secs() as i64).unwrap_or(Instant::UNIX_EPOCH);
        zone.to_offset(instant).seconds()
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        format: FormatArgs,
    }

    #[test]
    fn human_output_is_text_whatever_the_other_formats_are() {
        let formats = |words: &[&str]| {
            let line = Line::parse_from(["eventlog"].iter().chain(words));
            line.format.printer().map(|printer| (printer.format, printer.time)).ok()
        };
        assert_eq!(formats(&[]), Some((EntryFormat::Text, TimeFormat::Raw)));
        let json = ["--format=json", "--time-format=iso"];
        assert_eq!(formats(&json), Some((EntryFormat::Json, TimeFormat::Iso)));
        let human = ["-H", "--format=json", "--time-format=iso"];
        assert_eq!(formats(&human), Some((EntryFormat::Text, TimeFormat::Human)));
        assert_eq!(formats(&["--format=yaml"]), None);
    }
}
