//! `jobs`: lists jobs.

pub(super) mod fetch;
mod instance;
pub(super) mod options;
pub(super) mod query;
mod recursive;
pub(super) mod row;
mod table;
#[cfg(test)]
mod tests;

use std::io;
use std::process::ExitCode;

use serde_json::Value;

use self::fetch::{JobSource, fetch, print_stats, read_rows};
use self::instance::add_instances;
use self::options::{COMMAND, FORMATS, JobsArgs, Setting};
use self::recursive::Recursion;
use self::row::JobRow;
use self::table::{sort, table_text};
use crate::cli::common::format::{FormatError, Template};
use crate::cli::common::json::spaced_json;
use crate::cli::common::message::{CliError, Streams};
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::client::Client;
use crate::shown;

/// Runs the command.
pub(super) fn run(args: JobsArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        let setting = Setting::current(COMMAND, FORMATS)?;
        let mut streams = Streams {
            input: &mut io::stdin().lock(),
            out: &mut io::stdout().lock(),
            err: &mut io::stderr(),
        };
        let connect = async || Ok(Client::connect().await?);
        execute(&args, &setting, connect, &mut streams).await.map(ExitCode::from)
    })
}

/// Runs the command in the given setting and returns the exit code. Calls `connect` only if a manager is
/// needed: `-o help` and `--from-stdin` work without one.
pub(super) async fn execute<S: JobSource>(
    args: &JobsArgs,
    setting: &Setting,
    connect: impl AsyncFnOnce() -> Result<S, CliError>,
    streams: &mut Streams<'_>,
) -> Result<u8, CliError> {
    let chosen = args.format.as_deref().unwrap_or("default");
    if let Some(help) = format_help(chosen, setting)? {
        streams.print(&help)?;
        return Ok(0);
    }
    if args.json && (args.stats || args.stats_only) {
        return Err(CliError::failure("--json incompatible with --stats or --stats-only"));
    }
    let template = template(setting.formats.resolve(chosen)?)?;
    if args.from_stdin {
        let mut rows = read_rows(streams.input, &setting.display)?;
        if !args.json {
            sort(args, &template, &mut rows)?;
        }
        let text = match args.json {
            true => {
                let text = json_text(args, rows.iter().map(JobRow::to_json).collect());
                shown::lines(&text).into_owned()
            }
            false => table_text(args, setting, &template, &rows)?,
        };
        streams.print(&text)?;
        return Ok(0);
    }
    let source = connect().await?;
    if args.stats || args.stats_only {
        let active = print_stats(&source, args.queues().as_deref(), streams).await?;
        if args.stats_only {
            return Ok(u8::from(!active));
        }
    }
    let fetched = fetch(args, setting, &source, streams).await?;
    let mut rows = fetched.rows;
    // As in Flux, JSON is not sorted: its reader can sort it.
    if !args.json {
        add_instances(args, setting, &template, &source, &mut rows).await;
        sort(args, &template, &mut rows)?;
    }
    let recursion = Recursion { args, setting, template: &template };
    if args.json {
        let jobs = recursion.nested_json(&source, &rows, &[], streams).await?;
        streams.print(&shown::lines(&json_text(args, jobs)))?;
    } else if !fetched.none_found {
        streams.print(&table_text(args, setting, &template, &rows)?)?;
        recursion.print_inner(&source, &rows, "", &[], streams).await?;
    }
    Ok(u8::from(fetched.none_found))
}

/// Parses a format for jobs. As in Flux, its errors begin with words that say where the format comes from, unlike those
/// of other listings.
pub(super) fn template(format: &str) -> Result<Template, CliError> {
    Template::parse::<JobRow<'_>>(format).map_err(|error| match error {
        FormatError::UnknownField(_) | FormatError::Syntax(_) => {
            CliError::failure(format!("Error in user format: {error}"))
        }
        error => CliError::failure(error),
    })
}

/// The text that `-o help` and `-o get-config=NAME` print.
fn format_help(chosen: &str, setting: &Setting) -> Result<Option<String>, CliError> {
    let formats = &setting.formats;
    match chosen.strip_prefix("get-config=") {
        Some(name) => formats.config_of(name).map(Some),
        None if chosen == "help" => Ok(Some(formats.help(&setting.prog.command(COMMAND)))),
        None => Ok(None),
    }
}

/// The text of `--json`: `{"jobs": [..]}`, or the bare object if the command line names one job.
fn json_text(args: &JobsArgs, mut jobs: Vec<Value>) -> String {
    match args.jobids.len() {
        1 => jobs.pop().map_or_else(String::new, |job| format!("{}\n", spaced_json(&job))),
        _ => format!("{}\n", spaced_json(&serde_json::json!({"jobs": jobs}))),
    }
}
