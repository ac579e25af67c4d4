//! `accounting report`: jobs in the form of Slurm's sacct, or totals by user and queue.

use std::io::{BufWriter, Write, stdout};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use jobtap_core::job::JobId;

use super::columns::{self, Column, Ids, fit};
use super::finished::{display, each_job};
use super::select::{SelectArgs, Span};
use super::totals::{By, Totals};
use crate::cli::common::message::CliError;
use crate::cli::jobs::row::JobRow;

/// Options of `accounting report`.
#[derive(Debug, clap::Args)]
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
    select: SelectArgs,
    /// Jobs of all users
    #[arg(short = 'a', long, alias = "allusers", conflicts_with = "user")]
    all_users: bool,
    /// Columns, each with %WIDTH if its width is to differ: JobID,JobName%30,State
    #[arg(short = 'o', long, value_name = "COLUMN,..")]
    format: Option<String>,
    /// Print the names of all columns
    #[arg(short = 'e', long)]
    helpformat: bool,
    /// Print whole texts, separated by "|"
    #[arg(short = 'P', long)]
    parsable2: bool,
    /// Like --parsable2, with a "|" at the end of each line too
    #[arg(short = 'p', long, conflicts_with = "parsable2")]
    parsable: bool,
    /// Print this in the place of "|"
    #[arg(long, value_name = "TEXT", default_value = "|")]
    delimiter: String,
    /// Print no headings
    #[arg(short = 'n', long)]
    noheader: bool,
    /// Print totals by user, by queue, or by both
    #[arg(long, value_name = "user|queue,..", value_delimiter = ',', conflicts_with = "format")]
    by: Vec<By>,
    /// Only whole jobs; accepted for scripts of sacct: there are no steps here
    #[arg(short = 'X', long, hide = true)]
    allocations: bool,
}

/// Runs the command.
pub(super) fn run(args: &ReportArgs) -> Result<u8, CliError> {
    report(args, Ids::Own, |_| true)
}

/// Runs Slurm's command `sacct`, for these jobs or for those that the options select.
pub(in crate::cli) fn sacct(mut args: ReportArgs, jobs: Option<&[JobId]>) -> Result<u8, CliError> {
    if jobs.is_some() {
        // As in Slurm, whoever's they are, and whenever they ended.
        args.all_users = args.select.user.is_none();
        args.select.since.get_or_insert_with(|| "1970-01-02".to_owned());
    }
    report(&args, Ids::Slurm, |row| jobs.is_none_or(|jobs| jobs.contains(&row.id)))
}

fn report(
    args: &ReportArgs,
    ids: Ids,
    wanted: impl Fn(&JobRow<'_>) -> bool,
) -> Result<u8, CliError> {
    let mut out = BufWriter::with_capacity(64 * 1024, stdout().lock());
    let failed = |error: std::io::Error| CliError::write(&error);
    if args.helpformat {
        for name in columns::names() {
            writeln!(out, "{name}").map_err(failed)?;
        }
        out.flush().map_err(failed)?;
        return Ok(0);
    }
    let display = display();
    let mut select = args.select.clone();
    if select.user.is_none() && !args.all_users {
        select.user = Some(rustix::process::getuid().as_raw().to_string());
    }
    let midnight = midnight(display.now, &display.zone);
    let request = select.request(Span::AlsoActive, midnight, &display.users, &display.zone)?;
    let style = Style::from_args(args);
    if args.by.is_empty() {
        let columns = columns::chosen(args.format.as_deref().unwrap_or(columns::DEFAULT), ids)?;
        if !args.noheader {
            let names = columns.iter().map(|column| match style {
                Style::Table => column.heading(),
                Style::Parsable { .. } => column.name.to_owned(),
            });
            writeln!(out, "{}", style.line(&columns, names)).map_err(failed)?;
            if style == Style::Table {
                let rules = columns.iter().map(Column::rule);
                writeln!(out, "{}", style.line(&columns, rules)).map_err(failed)?;
            }
        }
        each_job(&request, &display, |row| {
            if !wanted(row) {
                return Ok(());
            }
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
