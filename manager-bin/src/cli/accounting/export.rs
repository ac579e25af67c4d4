//! `accounting export`: a line of JSON for each finished job, with the same members in each line.

use std::io::{BufWriter, IsTerminal, Write, stdout};

use jobtap_core::job::Encoding;
use serde_json::{Value, json};

use super::finished::{display, each_job};
use super::select::{SelectArgs, Span};
use crate::cli::common::message::{CliError, plural};
use crate::cli::common::work::Work;
use crate::cli::jobs::row::JobRow;

/// Options of `accounting export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The jobs that ended last come first. A job that was purged is not known any more. Members without a value are
null. Times are seconds since 1970-01-01 UTC, durations are seconds.

Examples:
  jobtap accounting export > jobs.jsonl
  jobtap accounting export --since 2026-03-01 --until 2026-04-01 --user alice
  jobtap accounting export | jq -s 'map(.core_seconds) | add'")]
pub(super) struct ExportArgs {
    #[command(flatten)]
    select: SelectArgs,
}

/// Runs the command.
pub(super) fn run(args: &ExportArgs) -> Result<u8, CliError> {
    let display = display();
    let request = args.select.request(Span::Finished, None, &display.users, &display.zone)?;
    // A line at a time would cost a system call each.
    let mut out = BufWriter::with_capacity(64 * 1024, stdout().lock());
    // On a terminal the lines themselves show the progress.
    let work = (!stdout().is_terminal()).then(|| Work::start("exporting"));
    let mut jobs = 0;
    each_job(&request, &display, |row| {
        jobs += 1;
        work.iter().for_each(|work| work.say(&plural(jobs, "job")));
        // JSON escapes only the control characters of ASCII; this escapes all others that could harm a terminal.
        let line = crate::shown::lines(&record(row).to_string()).into_owned();
        writeln!(out, "{line}").map_err(|error| CliError::write(&error))
    })?;
    out.flush().map_err(|error| CliError::write(&error))?;
    Ok(0)
}

/// A finished job as an exported object. The guide's page on accounting describes its members.
fn record(row: &JobRow<'_>) -> Value {
    let as_is = |name: &str| match row.attributes.get(name) {
        Some(Value::String(text)) if text.is_empty() => Value::Null,
        Some(value) => value.clone(),
        None => Value::Null,
    };
    let time = |name: &str| match row.float(name) {
        time if time > 0.0 => json!(time),
        _ => Value::Null,
    };
    let runtime = row.runtime();
    let of_size = |name: &str| {
        let number = row.int(name).unwrap_or(0);
        json!(number as f64 * runtime)
    };
    // A job that never ran waited until it ended.
    let begun = match row.float("t_run") {
        run if run > 0.0 => run,
        _ => row.float("t_inactive"),
    };
    json!({
        "id": row.id.as_u64(),
        "jobid": row.id.encode(Encoding::F58Plain),
        "userid": row.userid(),
        "user": row.username(),
        "name": as_is("name"),
        "queue": as_is("queue"),
        "bank": as_is("bank"),
        "project": as_is("project"),
        "cwd": as_is("cwd"),
        "result": row.final_result().map(|result| result.long_name()),
        "success": as_is("success"),
        "returncode": row.returncode(),
        "exception_type": as_is("exception_type"),
        "exception_note": as_is("exception_note"),
        "urgency": as_is("urgency"),
        "priority": as_is("priority"),
        "ntasks": as_is("ntasks"),
        "ncores": as_is("ncores"),
        "nnodes": as_is("nnodes"),
        "nodelist": as_is("nodelist"),
        "ranks": as_is("ranks"),
        "time_limit": time("duration"),
        "t_submit": time("t_submit"),
        "t_depend": time("t_depend"),
        "t_sched": time("t_sched"),
        "t_run": time("t_run"),
        "t_cleanup": time("t_cleanup"),
        "t_inactive": time("t_inactive"),
        "waited": (begun - row.float("t_submit")).max(0.0),
        "runtime": runtime,
        "core_seconds": of_size("ncores"),
        "node_seconds": of_size("nnodes"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exported(job: Value) -> Value {
        let display = display();
        record(&JobRow::from_json(job, &display).unwrap())
    }

    #[test]
    fn usage_is_of_the_time_that_a_job_ran() {
        let job = exported(
            json!({"id": 7, "state": 64, "result": 1, "ncores": 8, "nnodes": 2, "waitstatus": 0,
            "t_submit": 100.0, "t_run": 110.0, "t_cleanup": 130.0, "t_inactive": 131.0, "name": "a"}),
        );
        for (member, value) in [
            ("result", json!("COMPLETED")),
            ("runtime", json!(20.0)),
            ("waited", json!(10.0)),
            ("core_seconds", json!(160.0)),
            ("node_seconds", json!(40.0)),
            ("returncode", json!(0)),
            ("time_limit", Value::Null),
            ("queue", Value::Null),
            ("name", json!("a")),
        ] {
            assert_eq!(job[member], value, "{member}");
        }
    }

    #[test]
    fn each_line_has_all_members() {
        let job = json!({"id": 7, "state": 64, "result": 4, "t_submit": 100.0, "t_inactive": 103.0, "ncores": 1});
        let never_ran = exported(job);
        assert_eq!((&never_ran["waited"], &never_ran["core_seconds"]), (&json!(3.0), &json!(0.0)));
        assert_eq!(never_ran["t_run"], Value::Null);
        assert_eq!(never_ran.as_object().unwrap().len(), 32);
    }
}
