//! `bench`: measures the time and memory that jobs take on this machine.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use crate::bench::figures::{Found, Machine, count, shown};
use crate::bench::measures::{MOST_JOBS, Part};
use crate::bench::pair::{self, Compared};
use crate::bench::process::INTERRUPTED;
use crate::bench::runner::{self, RunError, Wanted};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::instance::version;

const COMMAND: &str = "bench";

/// The number of times that `--pair` measures each binary.
const ROUNDS_OF_PAIRS: u64 = 3;

/// Options of `bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each measurement runs in a process of its own, with a manager of its own in a temporary directory,
which is removed at the end and at an interrupt. TMPDIR names the file system on which the stores lie:
it should be on a disk like that of the manager's state. 100k jobs take up to 0.8 GB there and 0.5 GB of
memory; without options a run takes about two minutes, with --full about half an hour.")]
pub(crate) struct BenchArgs {
    /// What to measure [default: everything]
    #[arg(value_name = "PART")]
    parts: Vec<Part>,
    /// Numbers of jobs, each in a measurement of its own [default: a few for each part]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = number)]
    jobs: Vec<u64>,
    /// Measure with up to a million jobs
    #[arg(long)]
    full: bool,
    /// How often everything is measured; the medians are printed [default: 1, with --pair 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=99))]
    rounds: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Run this binary and another one in turns, and compare their figures
    #[arg(long, value_name = "BINARY")]
    pair: Option<PathBuf>,
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Interrupted => CliError { text: "interrupted".to_owned(), code: INTERRUPTED },
            RunError::Failed(error) => Self::failure(error),
        }
    }
}

/// Runs the measurements and prints each result as soon as it is available.
pub(crate) fn run(args: BenchArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async move {
        let BenchArgs { parts, jobs, full, rounds, json, pair } = args;
        let rounds = rounds.unwrap_or(if pair.is_some() { ROUNDS_OF_PAIRS } else { 1 });
        let wanted = Wanted { parts, jobs, full, rounds };
        let program = format!("{} {}", version::name(), version::short());
        match pair {
            None => alone(&wanted, program, json).await?,
            Some(other) => {
                // A file, not a program of the search path.
                let other = std::path::absolute(&other)?;
                if !other.is_file() {
                    let text = format!("--pair: {} is not a file", other.display());
                    return Err(CliError::usage(text));
                }
                paired(&wanted, program, other, json).await?;
            }
        }
        Ok(0)
    })
}

async fn alone(wanted: &Wanted, program: String, json: bool) -> Result<(), CliError> {
    if !json {
        session::print(&heading(&program, &runner::machine()))?;
        session::print(&row("FIGURE", "JOBS", &["VALUE"], "UNIT", ""))?;
    }
    let tell = |found: &Found| if json { Ok(()) } else { printed(session::print(&rows(found))) };
    let report = runner::run(wanted, program, tell).await?;
    if json { print_json(&report) } else { Ok(()) }
}

async fn paired(
    wanted: &Wanted,
    program: String,
    other: PathBuf,
    json: bool,
) -> Result<(), CliError> {
    if !json {
        session::print(&heading(&program, &runner::machine()))?;
        let text =
            format!("compared with {}: medians of {} rounds\n", other.display(), wanted.rounds);
        session::print(&text)?;
        session::print(&row("FIGURE", "JOBS", &["THIS", "OTHER", "THIS/OTHER"], "UNIT", ""))?;
    }
    let tell = |figures: &[Compared], missing: Option<&str>| {
        if json {
            return Ok(());
        }
        let mut text: String = figures.iter().map(pair_row).collect();
        text.extend(missing.map(|reason| format!("{reason}\n")));
        printed(session::print(&text))
    };
    let report = pair::run(wanted, &other, program, tell).await?;
    if json { print_json(&report) } else { Ok(()) }
}

/// Turns an error of the output into an error of the run, which ends it.
fn printed(result: Result<(), CliError>) -> Result<(), RunError> {
    result.map_err(|error| std::io::Error::other(error.text).into())
}

fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value).map_err(CliError::failure)?;
    session::print(&format!("{text}\n"))
}

fn heading(program: &str, machine: &Machine) -> String {
    let Machine { cpus, kernel, directory, filesystem } = machine;
    let mut text = format!(
        "{program} on {cpus} processors, {kernel}; stores on {filesystem} in {directory}\n"
    );
    if filesystem == "tmpfs" {
        text.push_str(
            "that is memory, which costs nothing to write: set TMPDIR to a directory on a disk\n",
        );
    }
    text
}

fn rows(found: &Found) -> String {
    let mut text = String::new();
    for figure in &found.figures {
        let value = shown(figure.value);
        text += &row(&figure.name, &count(figure.jobs), &[&value], &figure.unit, &figure.text);
    }
    for skipped in &found.skipped {
        text += &format!("{}: {}\n", skipped.name, skipped.reason);
    }
    text
}

fn pair_row(figure: &Compared) -> String {
    let value = |value: Option<f64>| value.map_or_else(|| "missing".to_owned(), shown);
    let ratio = figure.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
    let values = [value(figure.this), value(figure.other), ratio];
    let values = values.each_ref().map(String::as_str);
    row(&figure.name, &count(figure.jobs), &values, &figure.unit, &figure.text)
}

fn row(name: &str, jobs: &str, values: &[&str], unit: &str, text: &str) -> String {
    let values: String = values.iter().map(|value| format!(" {value:>10}")).collect();
    let line = format!("{name:<28} {jobs:>6}{values} {unit:<7} {text}");
    format!("{}\n", line.trim_end())
}

/// A text that is no number of jobs.
#[derive(Debug, thiserror::Error)]
enum CountError {
    #[error("not a number such as 500, 10k or 1M")]
    NoNumber,
    #[error("more than the {} jobs that can be measured", count(MOST_JOBS))]
    TooMany,
}

/// Parses a count such as `500`, `10k` or `1M`.
fn number(text: &str) -> Result<u64, CountError> {
    let (digits, scale) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let count = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(scale));
    let count = count.filter(|count| *count > 0);
    let count = count.ok_or(CountError::NoNumber)?;
    if count > MOST_JOBS {
        return Err(CountError::TooMany);
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_accept_the_suffixes_k_and_m() {
        let read: Vec<u64> = ["7", "10k", "1M"].iter().map(|text| number(text).unwrap()).collect();
        assert_eq!(read, [7, 10_000, 1_000_000]);
        for text in ["", "0", "k", "1G", "-1", "99999999999999M", "11M"] {
            assert!(number(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_figure_that_one_binary_lacks_is_shown_as_missing() {
        let figure = Compared {
            name: "run.rate".to_owned(),
            jobs: 2000,
            unit: "jobs/s".to_owned(),
            better: crate::bench::figures::Better::More,
            text: String::new(),
            this: Some(630.4),
            other: None,
            ratio: None,
            this_values: Vec::new(),
            other_values: Vec::new(),
        };
        let words: Vec<String> = pair_row(&figure).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["run.rate", "2k", "630", "missing", "-", "jobs/s"]);
    }
}
