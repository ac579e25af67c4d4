//! `dmesg`: prints or clears the manager's log.

use std::process::ExitCode;

use jiff::tz::TimeZone;
use jobtap_core::eventlog::EventEntry;
use jobtap_core::eventlog::format::{EntryFormat, Formatter, TimeFormat};
use jobtap_core::job::Timestamp;

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::job::{LocalZone, color_wanted, local_zone};
use crate::client::Client;
use crate::rpc::services::log::{Clear, Dmesg, Line};
use crate::shown;

const COMMAND: &str = "dmesg";

/// Options of `dmesg`.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
pub(crate) struct DmesgArgs {
    /// Clear the log without printing it
    #[arg(short = 'C', long)]
    clear: bool,
    /// Print the log, then clear it
    #[arg(short = 'c', long)]
    read_clear: bool,
    /// Print the log and then new lines as they are logged
    #[arg(short = 'f', long)]
    follow: bool,
    /// Print only new lines as they are logged
    #[arg(short = 'n', long)]
    new: bool,
    /// Print times in a readable form
    #[arg(short = 'H', long)]
    human: bool,
    /// With --human, print the time since the previous line
    #[arg(short = 'd', long)]
    delta: bool,
    /// Colour lines: always, never or auto
    #[arg(short = 'L', long, value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_value = "auto", default_missing_value = "always")]
    color: String,
}

/// Runs the command.
pub(crate) fn run(args: DmesgArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Compiled, async |client| dmesg(&client, &args).await)
}

async fn dmesg(client: &Client, args: &DmesgArgs) -> Result<u8, CliError> {
    if args.delta && !args.human {
        return Err(CliError::failure("--delta can only be used with --human"));
    }
    let mut printer = Printer::new(args)?;
    if !args.clear && (args.follow || args.new) {
        let mut responses = client.stream(Dmesg { nobacklog: args.new }).await?;
        while let Some(response) = responses.next().await {
            response?.into_lines().iter().try_for_each(|line| printer.print(line))?;
        }
        return Ok(0);
    }
    if !args.clear {
        let lines = client.call(Dmesg::default()).await?.into_lines();
        lines.iter().try_for_each(|line| printer.print(line))?;
    }
    if args.clear || args.read_clear {
        client.call(Clear {}).await?;
    }
    Ok(0)
}

/// Prints the lines of the log.
struct Printer {
    formatter: Formatter<LocalZone>,
    delta: bool,
    color: bool,
    /// The time of the previous line.
    last: Option<Timestamp>,
}

impl Printer {
    fn new(args: &DmesgArgs) -> Result<Self, CliError> {
        let (time, zone) = match args.human {
            true => (TimeFormat::Human, local_zone(TimeZone::system())),
            false => (TimeFormat::Iso, local_zone(TimeZone::UTC)),
        };
        let formatter = Formatter::new(EntryFormat::Text, time, zone);
        Ok(Self { formatter, delta: args.delta, color: color_wanted(&args.color)?, last: None })
    }

    fn print(&mut self, line: &Line) -> Result<(), CliError> {
        let time = Timestamp::from_secs(line.timestamp);
        session::print_painted(&format!("{}\n", self.line(time, &line.text)))
    }

    fn line(&mut self, at: Timestamp, text: &str) -> String {
        let text = &*shown::in_line(text);
        let entry = EventEntry { timestamp: at, name: "".into(), context: None };
        let mut time = self.formatter.time(&entry);
        if let Some(last) = self.last.replace(at)
            && self.delta
            && !time.dated
        {
            time.text = format!("[{:+11.6}]", at - last);
        }
        if !self.color {
            return format!("{} {text}", time.text);
        }
        let (source, message) = text.split_once(": ").unwrap_or(("", text));
        let time_color = if time.dated { "1;32" } else { "32" };
        let message_color = match source.rsplit('.').next().unwrap_or_default() {
            error if error.starts_with("err") => "1;31",
            warning if warning.starts_with("warning") => "1;33",
            _ => "0",
        };
        format!(
            "\x1b[{time_color}m{}\x1b[0m \x1b[33m{source}\x1b[0m: \x1b[{message_color}m{message}\x1b[0m",
            time.text
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(human: bool, delta: bool, color: bool) -> Vec<String> {
        let time = if human { TimeFormat::Human } else { TimeFormat::Iso };
        let formatter = Formatter::new(EntryFormat::Text, time, local_zone(TimeZone::UTC));
        let mut printer = Printer { formatter, delta, color, last: None };
        let text = "job-manager.err[0]: bad: worse";
        let times = [1_699_995_759.25, 1_699_995_759.5, 1_699_995_759.75];
        times.map(|at| printer.line(Timestamp::from_secs(at), text)).to_vec()
    }

    #[test]
    fn times_are_absolute_or_human_readable() {
        let text = "job-manager.err[0]: bad: worse";
        assert_eq!(lines(false, false, false)[0], format!("2023-11-14T21:02:39.250000Z {text}"));
        let human = lines(true, false, false);
        assert_eq!(human[0], format!("[Nov14 21:02] {text}"));
        assert_eq!(human[2], format!("[  +0.500000] {text}"));
        assert_eq!(lines(true, true, false)[2], format!("[  +0.250000] {text}"));
        assert!(lines(false, false, true)[0].ends_with("\x1b[1;31mbad: worse\x1b[0m"));
    }
}
