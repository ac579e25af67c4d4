//! `accounting report`: jobs in the form of Slurm's sacct, or totals by user and queue.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write, stdout};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use jobtap_core::job::JobId;

use super::columns::{self, Column, fit};
use super::finished::{display, each_job};
use super::select::{SelectArgs, Span};
use super::totals::{By, Totals};
use crate::cli::common::message::CliError;
use crate::cli::jobs::row::{DisplayContext, JobRow};
use crate::rpc::services::job_list::List;

/// Options of `accounting report`.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "\
As with sacct, these are your own jobs that ended today and those that are active, unless options say otherwise.
Active jobs come first, then those that ended last. With --until only jobs that have ended are listed.

Examples:
  jobtap accounting report -a --since 2026-03-01
  jobtap accounting report --parsable2 --format JobID,User,State,Elapsed,ExitCode
  jobtap accounting report -a --since -30d --by user,queue
  jobtap accounting report -a -P --since -7d \\
    --format JobIDRaw,UID,Partition,Submit,Start,End,TimelimitRaw,NNodes,AllocCPUS,ReqCPUS > trace.txt

jobtap simulate reads a trace such as the last one.")]
pub(in crate::cli) struct ReportArgs {
    #[command(flatten)]
    pub(in crate::cli) select: SelectArgs,
    /// Jobs of all users
    #[arg(short = 'a', long, alias = "allusers", conflicts_with = "user")]
    pub(in crate::cli) all_users: bool,
    /// Columns, each with %WIDTH if its width is to differ: JobID,JobName%30,State
    #[arg(short = 'o', long, value_name = "COLUMN,..")]
    pub(in crate::cli) format: Option<String>,
    /// Print the names of all columns
    #[arg(short = 'e', long)]
    pub(in crate::cli) helpformat: bool,
    /// Print whole texts, separated by "|"
    #[arg(short = 'P', long)]
    pub(in crate::cli) parsable2: bool,
    /// Like --parsable2, with a "|" at the end of each line too
    #[arg(short = 'p', long, conflicts_with = "parsable2")]
    pub(in crate::cli) parsable: bool,
    /// Print this in the place of "|"
    #[arg(long, value_name = "TEXT", default_value = "|")]
    pub(in crate::cli) delimiter: String,
    /// Print no headings
    #[arg(short = 'n', long)]
    pub(in crate::cli) noheader: bool,
    /// Print totals by user, by queue, or by both
    #[arg(long, value_name = "user|queue,..", value_delimiter = ',', conflicts_with = "format")]
    pub(in crate::cli) by: Vec<By>,
    /// Only whole jobs; accepted for scripts of sacct: there are no steps here
    #[arg(short = 'X', long, hide = true)]
    pub(in crate::cli) allocations: bool,
}

/// Runs the command.
pub(super) fn run(args: &ReportArgs) -> Result<u8, CliError> {
    let mut out = BufWriter::with_capacity(64 * 1024, stdout().lock());
    if args.helpformat {
        return help(out);
    }
    let display = display();
    let request = args.request(&display)?;
    let style = Style::from_args(args);
    if args.by.is_empty() {
        let columns = columns::chosen(args.format.as_deref().unwrap_or(columns::DEFAULT))?;
        out.write_all(args.headings(&columns, &style).as_bytes()).map_err(failed)?;
        each_job(&request, &display, |row| {
            let values = columns.iter().map(|column| column.value(row, &display.zone));
            writeln!(out, "{}", style.line(&columns, values)).map_err(failed)
        })?;
    } else {
        let mut totals = Totals::new(&args.by);
        each_job(&request, &display, |row| {
            totals.add(row);
            Ok(())
        })?;
        let headings = totals.headings();
        let mut print = |cells: &[String]| {
            let line = match &style {
                Style::Table => {
                    let cells = cells.iter().zip(&headings);
                    cells.map(|(cell, (_, width))| fit(cell, *width, false) + " ").collect()
                }
                Style::Parsable { delimiter, last } => {
                    cells.join(delimiter) + if *last { delimiter } else { "" }
                }
            };
            writeln!(out, "{line}").map_err(failed)
        };
        if !args.noheader {
            let names: Vec<String> = headings.iter().map(|(name, _)| (*name).to_owned()).collect();
            print(&names)?;
            if style == Style::Table {
                let rules: Vec<String> =
                    headings.iter().map(|(_, width)| "-".repeat(*width)).collect();
                print(&rules)?;
            }
        }
        for line in totals.lines() {
            print(&line)?;
        }
    }
    out.flush().map_err(failed)?;
    Ok(0)
}

fn failed(error: std::io::Error) -> CliError {
    CliError::write(&error)
}

/// Prints the names of all columns.
fn help(mut out: impl Write) -> Result<u8, CliError> {
    for name in columns::names() {
        writeln!(out, "{name}").map_err(failed)?;
    }
    out.flush().map_err(failed)?;
    Ok(0)
}

impl ReportArgs {
    fn request(&self, display: &DisplayContext) -> Result<List, CliError> {
        let mut select = self.select.clone();
        if select.user.is_none() && !self.all_users {
            select.user = Some(rustix::process::getuid().as_raw().to_string());
        }
        let midnight = midnight(display.now, &display.zone);
        select.request(Span::AlsoActive, midnight, &display.users, &display.zone)
    }

    fn headings(&self, columns: &[Column], style: &Style) -> String {
        if self.noheader {
            return String::new();
        }
        let names = columns.iter().map(|column| match style {
            Style::Table => column.heading(),
            Style::Parsable { .. } => column.name.to_owned(),
        });
        let mut text = style.line(columns, names) + "\n";
        if *style == Style::Table {
            text += &(style.line(columns, columns.iter().map(Column::rule)) + "\n");
        }
        text
    }
}

/// The report in the form of Slurm's command `sacct`: by id, and with Slurm's ids for the jobs of arrays, which the
/// caller looks up for the jobs that it lists.
pub(in crate::cli) struct SlurmReport {
    columns: Vec<Column>,
    style: Style,
    /// The headings, or the names of all columns.
    headings: String,
    /// The columns of each job.
    rows: BTreeMap<JobId, Vec<String>>,
}

impl SlurmReport {
    /// Reads the jobs that the options select and that are `wanted`.
    ///
    /// # Errors
    /// An option is wrong, or the manager can't be asked.
    pub(in crate::cli) fn read(
        args: &ReportArgs,
        wanted: impl Fn(&JobRow<'_>) -> bool,
    ) -> Result<Self, CliError> {
        let format = args.format.as_deref().unwrap_or(columns::DEFAULT);
        let (columns, style) = (columns::chosen(format)?, Style::from_args(args));
        let display = display();
        let mut rows = BTreeMap::new();
        each_job(&args.request(&display)?, &display, |row| {
            if wanted(row) {
                let values = columns.iter().map(|column| column.value(row, &display.zone));
                rows.insert(row.id, values.collect());
            }
            Ok(())
        })?;
        let headings = args.headings(&columns, &style);
        Ok(Self { columns, style, headings, rows })
    }

    /// The listed jobs, if their ids are shown.
    pub(in crate::cli) fn ids(&self) -> Vec<JobId> {
        match self.columns.iter().any(|column| column.name == columns::ID) {
            true => self.rows.keys().copied().collect(),
            false => Vec::new(),
        }
    }

    /// Prints the report. `shown` is a job's id in Slurm's form.
    ///
    /// # Errors
    /// The output can't be written.
    pub(in crate::cli) fn print(&self, shown: impl Fn(JobId) -> String) -> Result<(), CliError> {
        let mut out = BufWriter::with_capacity(64 * 1024, stdout().lock());
        out.write_all(self.headings.as_bytes()).map_err(failed)?;
        for (id, row) in &self.rows {
            let values = row.iter().zip(&self.columns).map(|(value, column)| match column.name {
                columns::ID => shown(*id),
                _ => value.clone(),
            });
            writeln!(out, "{}", self.style.line(&self.columns, values)).map_err(failed)?;
        }
        out.flush().map_err(failed)
    }

    /// Prints the names of all columns.
    ///
    /// # Errors
    /// The output can't be written.
    pub(in crate::cli) fn help() -> Result<u8, CliError> {
        help(stdout().lock())
    }
}

/// How the columns of a line are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Style {
    Table,
    Parsable { delimiter: String, last: bool },
}

impl Style {
    fn from_args(args: &ReportArgs) -> Self {
        match args.parsable || args.parsable2 {
            true => Self::Parsable { delimiter: args.delimiter.clone(), last: args.parsable },
            false => Self::Table,
        }
    }

    fn line(&self, columns: &[Column], values: impl Iterator<Item = String>) -> String {
        match self {
            Self::Table => {
                values.zip(columns).map(|(value, column)| column.fit(&value) + " ").collect()
            }
            Self::Parsable { delimiter, last } => {
                let values: Vec<String> = values.collect();
                values.join(delimiter) + if *last { delimiter } else { "" }
            }
        }
    }
}

/// The beginning of the day.
fn midnight(now: f64, zone: &TimeZone) -> Option<f64> {
    let now = Timestamp::from_second(now as i64).ok()?.to_zoned(zone.clone());
    let midnight = now.start_of_day().ok()?;
    Some(midnight.timestamp().as_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_its_local_midnight() {
        assert_eq!(midnight(1_700_000_000.5, &TimeZone::UTC), Some(1_699_920_000.0));
        let east = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(midnight(1_700_000_000.5, &east), Some(1_699_999_200.0));
    }
}
