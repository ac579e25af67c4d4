//! `plugin stats`: prints how often handlers were called, their errors and panics, and how long they took.

use super::unknown::{Among, explain};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::Client;
use crate::columns::{Column, Side, table};
use crate::rpc::services::plugin::{Bucket, GetStats, Handler, PluginStats, Stats, Threads};

/// Options and arguments of `plugin stats`.
#[derive(Debug, clap::Args)]
pub(super) struct StatsArgs {
    /// Print JSON, with times in nanoseconds
    #[arg(long)]
    json: bool,
    /// Show the distribution of times; one call in 64 is timed
    #[arg(long, conflicts_with = "json")]
    histogram: bool,
    /// Show only this plugin
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

/// The columns for work that computes or blocks for long.
const THREADS: [Column; 4] = [
    Column("PLUGIN", Side::Left),
    Column("RUNNING", Side::Right),
    Column("WAITING", Side::Right),
    Column("GIVEN-UP", Side::Right),
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
    let request = GetStats { name: args.plugin.clone() };
    let text = if args.json {
        client.call_raw(request).await.map(|response| format!("{response}\n"))
    } else {
        client.call(request).await.map(|stats| match args.histogram {
            true => table(&HISTOGRAM, rows(&stats, buckets)),
            false => {
                let handlers = rows(&stats, |name, handler| vec![row(name, handler)]);
                table(&COLUMNS, handlers) + &threads(&stats)
            }
        })
    };
    match text {
        Ok(text) => session::print(&text)?,
        Err(error) => {
            let name = args.plugin.as_deref().unwrap_or_default();
            return Err(explain(client, error, name, Among::Loaded).await);
        }
    }
    Ok(0)
}

/// The table of the plugins that use threads, below a blank line; empty if none does.
fn threads(stats: &Stats) -> String {
    let used = stats.plugins.iter().filter(|plugin| plugin.threads != Threads::default());
    let mut rows = used.map(thread_row).peekable();
    match rows.peek() {
        Some(_) => format!("\n{}", table(&THREADS, rows)),
        None => String::new(),
    }
}

fn thread_row(plugin: &PluginStats) -> Vec<String> {
    let Threads { running, waiting, given_up } = plugin.threads;
    let counts = [running, waiting, given_up].map(|count| count.to_string());
    std::iter::once(plugin.name.clone()).chain(counts).collect()
}

/// The rows of a table. `of` returns the rows of a handler of the named plugin.
fn rows(
    stats: &Stats,
    of: impl Fn(&str, &Handler) -> Vec<Vec<String>>,
) -> impl Iterator<Item = Vec<String>> {
    stats.plugins.iter().flat_map(move |plugin| {
        let of = |handler| of(&plugin.name, handler);
        plugin.handlers.iter().flat_map(of).collect::<Vec<_>>()
    })
}

/// A row for each bucket of a handler's histogram.
fn buckets(plugin: &str, handler: &Handler) -> Vec<Vec<String>> {
    let Handler { topic, handler, histogram, .. } = handler;
    let bucket = |Bucket { below, calls }: &Bucket| {
        let (time, calls) = (duration(*below), calls.to_string());
        vec![plugin.to_owned(), topic.clone(), handler.clone(), time, calls]
    };
    histogram.iter().map(bucket).collect()
}

fn row(plugin: &str, handler: &Handler) -> Vec<String> {
    let time = |time: Option<u64>| time.map_or_else(|| "-".to_owned(), duration);
    vec![
        plugin.to_owned(),
        handler.topic.clone(),
        handler.handler.clone(),
        handler.calls.to_string(),
        handler.errors.to_string(),
        handler.panics.to_string(),
        time(handler.p50),
        time(handler.p99),
    ]
}

/// Formats an upper bound of a duration: `<512ns`, `<2.1ms`.
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
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_upper_bounds_in_fitting_units() {
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
        let stats = json!({"plugins": [{"name": "a", "handlers": [
            {"topic": "job.new", "handler": "seen", "calls": 64, "errors": 1, "panics": 0,
             "p50": 512, "p99": null},
        ]}, {"name": "b", "handlers": []}]});
        let stats = Stats::deserialize(stats).unwrap();
        let rows = rows(&stats, |name, handler| vec![row(name, handler)]);
        let rows: Vec<String> = rows.map(|row| row.join(" ")).collect();
        assert_eq!(rows, ["a job.new seen 64 1 0 <512ns -"]);
    }

    #[test]
    fn plugins_that_use_threads_have_a_row_of_their_own() {
        let stats = |threads| {
            Stats::deserialize(
                json!({"plugins": [{"name": "a"}, {"name": "b", "threads": threads}]}),
            )
            .unwrap()
        };
        let used = stats(json!({"running": 1, "waiting": 12, "given_up": 2}));
        assert_eq!(
            threads(&used),
            "\nPLUGIN  RUNNING  WAITING  GIVEN-UP\nb             1       12         2\n"
        );
        assert_eq!(threads(&stats(json!({}))), "");
    }

    #[test]
    fn each_bucket_of_a_histogram_has_a_row() {
        let stats = json!({"plugins": [{"name": "a", "handlers": [
            {"topic": "job.new", "handler": "seen",
             "histogram": [{"below": 512, "calls": 3}, {"below": 2048, "calls": 1}]},
            {"topic": "unload", "handler": "goes", "histogram": []},
        ]}]});
        let stats = Stats::deserialize(stats).unwrap();
        let rows: Vec<String> = rows(&stats, buckets).map(|row| row.join(" ")).collect();
        assert_eq!(rows, ["a job.new seen <512ns 3", "a job.new seen <2.0us 1"]);
    }
}
