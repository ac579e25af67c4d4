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
    let text = if args.json { format!("{answer}\n") } else { table(&COLUMNS, rows(&answer)) };
    session::print(&text)?;
    Ok(0)
}

fn rows(answer: &Value) -> impl Iterator<Item = Vec<String>> {
    let list = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    list(answer, "plugins").into_iter().flat_map(move |plugin| {
        let name = plugin.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let handlers = list(&plugin, "handlers").into_iter();
        handlers.map(move |handler| row(&name, &handler))
    })
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
        let rows: Vec<String> = rows(&answer).map(|row| row.join(" ")).collect();
        assert_eq!(rows, ["a job.new seen 64 1 0 <512ns -"]);
    }
}
