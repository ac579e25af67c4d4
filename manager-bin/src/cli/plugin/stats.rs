//! `plugin stats`: how often handlers were called, how they ended and how long they took.

use serde_json::{Value, json};

use super::names::{Among, explain};
use crate::cli::columns::{Column, Side, table};
use crate::cli::message::CliError;
use crate::cli::session;
use crate::client::Client;

/// Options and arguments of `plugin stats`.
#[derive(Debug, clap::Args)]
pub(super) struct StatsArgs {
    /// Print JSON; times are in nanoseconds
    #[arg(long)]
    json: bool,
    /// Show how many of the timed calls took how long; one call in 64 is timed
    #[arg(long, conflicts_with = "json")]
    histogram: bool,
    /// Only of this one; by default of all
    #[arg(value_name = "PLUGIN")]
    plugin: Option<String>,
}

const COLUMNS: [Column; 8] = [
    Column("PLUGIN", Side::Left),
    Column("TOPIC", Side::Left),
    Column("HANDLER", Side::Left),
    Column("CALLS", Side::Right),
    Column("ERRORS", Side::Right),
    Column("PANICS", Side::Right),
    Column("P50", Side::Right),
    Column("P99", Side::Right),
];

const HISTOGRAM: [Column; 5] = [
    Column("PLUGIN", Side::Left),
    Column("TOPIC", Side::Left),
    Column("HANDLER", Side::Left),
    Column("TIME", Side::Right),
    Column("TIMED", Side::Right),
];

/// Runs the command.
pub(super) async fn run(client: &Client, args: &StatsArgs) -> Result<u8, CliError> {
    let payload = json!({ "name": args.plugin });
    let answer = match client.rpc("job-manager.jobtap-stats", payload).await {
        Ok(answer) => answer,
        Err(error) => {
            let name = args.plugin.as_deref().unwrap_or_default();
            return Err(explain(client, error, name, Among::Loaded).await);
        }
    };
    let text = match (args.json, args.histogram) {
        (true, _) => format!("{answer}\n"),
        (false, true) => table(&HISTOGRAM, rows(&answer, buckets)),
        (false, false) => table(&COLUMNS, rows(&answer, |name, handler| vec![row(name, handler)])),
    };
    session::print(&text)?;
    Ok(0)
}

fn list(value: &Value, key: &str) -> Vec<Value> {
    value.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The rows that each handler of each plugin has.
fn rows(
    answer: &Value,
    of: impl Fn(&str, &Value) -> Vec<Vec<String>>,
) -> impl Iterator<Item = Vec<String>> {
    list(answer, "plugins").into_iter().flat_map(move |plugin| {
        let name = plugin.get("name").and_then(Value::as_str).unwrap_or_default();
        list(&plugin, "handlers").iter().flat_map(|handler| of(name, handler)).collect::<Vec<_>>()
    })
}

/// One row for each duration that calls of a handler had.
fn buckets(plugin: &str, handler: &Value) -> Vec<Vec<String>> {
    let text = |key: &str| handler.get(key).and_then(Value::as_str).unwrap_or("-").to_owned();
    let bucket = |bucket: Value| {
        let number = |key: &str| bucket.get(key).and_then(Value::as_u64).unwrap_or(0);
        let (time, calls) = (duration(number("below")), number("calls").to_string());
        vec![plugin.to_owned(), text("topic"), text("handler"), time, calls]
    };
    list(handler, "histogram").into_iter().map(bucket).collect()
}

fn row(plugin: &str, handler: &Value) -> Vec<String> {
    let text = |key: &str| handler.get(key).and_then(Value::as_str).unwrap_or("-").to_owned();
    let count = |key: &str| handler.get(key).and_then(Value::as_u64).unwrap_or(0).to_string();
    let time =
        |key: &str| handler.get(key).and_then(Value::as_u64).map_or("-".to_owned(), duration);
    vec![
        plugin.to_owned(),
        text("topic"),
        text("handler"),
        count("calls"),
        count("errors"),
        count("panics"),
        time("p50"),
        time("p99"),
    ]
}

/// An upper bound, short enough to be compared at a glance.
fn duration(nanoseconds: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let (size, unit) =
        UNITS.into_iter().find(|(size, _)| nanoseconds >= *size).unwrap_or((1, "ns"));
    let number = nanoseconds as f64 / size as f64;
    let digits = if size == 1 || number >= 100.0 { 0 } else { 1 };
    format!("<{number:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_bounds_in_fitting_units() {
        for (nanoseconds, shown) in [
            (16, "<16ns"),
            (1024, "<1.0us"),
            (131_072, "<131us"),
            (2_097_152, "<2.1ms"),
            (1 << 31, "<2.1s"),
        ] {
            assert_eq!(duration(nanoseconds), shown);
        }
    }

    #[test]
    fn each_handler_has_a_row() {
        let answer = json!({"plugins": [{"name": "a", "handlers": [
            {"topic": "job.new", "handler": "seen", "calls": 64, "errors": 1, "panics": 0,
             "p50": 512, "p99": null},
        ]}, {"name": "b", "handlers": []}]});
        let rows = rows(&answer, |name, handler| vec![row(name, handler)]);
        let rows: Vec<String> = rows.map(|row| row.join(" ")).collect();
        assert_eq!(rows, ["a job.new seen 64 1 0 <512ns -"]);
    }

    #[test]
    fn each_duration_of_a_handler_has_a_row() {
        let answer = json!({"plugins": [{"name": "a", "handlers": [
            {"topic": "job.new", "handler": "seen",
             "histogram": [{"below": 512, "calls": 3}, {"below": 2048, "calls": 1}]},
            {"topic": "unload", "handler": "goes", "histogram": []},
        ]}]});
        let rows: Vec<String> = rows(&answer, buckets).map(|row| row.join(" ")).collect();
        assert_eq!(rows, ["a job.new seen <512ns 3", "a job.new seen <2.0us 1"]);
    }
}
