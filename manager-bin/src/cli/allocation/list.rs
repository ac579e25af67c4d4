//! `allocation list`: lists the allocations of an elastic instance, or its tables.

use std::borrow::Cow;

use super::COMMAND;
use crate::cli::common::format::named::NamedFormats;
use crate::cli::common::format::{FieldValue, Row};
use crate::cli::common::message::CliError;
use crate::cli::common::when::now;
use crate::cli::resource::ListingArgs;
use crate::client::Client;
use crate::rpc::services::allocation::{Allocation, Allocations, List, Table};

/// The builtin formats of allocations: name, description, format.
const ALLOCATIONS: &[(&str, &str, &str)] = &[(
    "default",
    "Allocations, and why they wait",
    "{id:>4} {table:<12.12+} {state:<8} ?:{job:>10} {nnodes:>6} {t_left!F:>8} {nodelist:<16} ?:{reason}",
)];

/// The builtin formats of tables.
const TABLES: &[(&str, &str, &str)] = &[(
    "default",
    "Tables, and why they aren't asked",
    "{name:<12.12+} {engine:<8} {count:>5} {max:>5} {nodes:>5} {cores:>5} {requests:>8} {core_hours:>10} \
     {t_next!F:>8} ?:{refusal}",
)];

/// Options of `allocation list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    listing: ListingArgs,
    /// List the tables of the configuration, with the requests of the last hour and the last refusal
    #[arg(long)]
    tables: bool,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &ListArgs) -> Result<u8, CliError> {
    match args.tables {
        true => {
            let formats = NamedFormats::builtin(COMMAND, TABLES);
            let Some(listing) = args.listing.listing::<Table>(formats)? else { return Ok(0) };
            listing.print(all(client).await?.tables)?;
        }
        false => {
            let formats = NamedFormats::builtin(COMMAND, ALLOCATIONS);
            let Some(listing) = args.listing.listing::<Allocation>(formats)? else { return Ok(0) };
            listing.print(all(client).await?.allocations)?;
        }
    }
    Ok(0)
}

async fn all(client: &Client) -> Result<Allocations, CliError> {
    client.call(List {}).await.map_err(|error| CliError::failure(error.to_string()))
}

/// The value of a field that may have none.
fn optional<T>(value: Option<T>, shown: impl FnOnce(T) -> FieldValue) -> FieldValue {
    value.map_or_else(FieldValue::empty, shown)
}

fn text(value: &str) -> FieldValue {
    FieldValue::Text(value.to_owned())
}

fn count(value: u64) -> FieldValue {
    FieldValue::Int(value.into())
}

/// The seconds until a time.
fn until(at: f64) -> FieldValue {
    FieldValue::Float((at - now()).max(0.0))
}

/// The heading of a field of these.
fn heading(
    headings: &'static [(&'static str, &'static str)],
    name: &str,
) -> Option<Cow<'static, str>> {
    let heading = headings.iter().find(|(field, _)| *field == name);
    heading.map(|(_, heading)| Cow::Borrowed(*heading))
}

impl Row for Allocation {
    fn heading(name: &str) -> Option<Cow<'static, str>> {
        heading(
            &[
                ("id", "ID"),
                ("table", "TABLE"),
                ("state", "STATE"),
                ("job", "JOB"),
                ("reason", "REASON"),
                ("ranks", "RANKS"),
                ("nnodes", "NNODES"),
                ("nodelist", "NODELIST"),
                ("online", "ONLINE"),
                ("time_limit", "LIMIT"),
                ("t_asked", "T_ASKED"),
                ("t_started", "T_STARTED"),
                ("t_end", "T_END"),
                ("t_left", "LEFT"),
                ("t_idle", "IDLE"),
            ],
            name,
        )
    }

    fn field(&self, name: &str) -> Option<FieldValue> {
        Some(match name {
            "id" => count(self.id),
            "table" => text(&self.table),
            "state" => text(&self.state),
            "job" => optional(self.job.as_deref(), text),
            "reason" => optional(self.reason.as_deref(), text),
            "ranks" => text(&self.ranks),
            "nnodes" => count(self.nodes),
            "nodelist" => text(&self.hosts),
            "online" => text(&self.online),
            "time_limit" => optional(self.time_limit, FieldValue::Float),
            "t_asked" => FieldValue::Float(self.t_asked),
            "t_started" => optional(self.t_started, FieldValue::Float),
            "t_end" => optional(self.t_end, FieldValue::Float),
            "t_left" => optional(self.t_end, until),
            "t_idle" => optional(self.t_idle, |since| FieldValue::Float((now() - since).max(0.0))),
            _ => return None,
        })
    }
}

impl Row for Table {
    fn heading(name: &str) -> Option<Cow<'static, str>> {
        heading(
            &[
                ("name", "TABLE"),
                ("engine", "ENGINE"),
                ("nodes", "NODES"),
                ("cores", "CORES"),
                ("gpus", "GPUS"),
                ("min", "MIN"),
                ("max", "MAX"),
                ("count", "COUNT"),
                ("time_limit", "LIMIT"),
                ("core_hours", "CORE-HOURS"),
                ("core_hours_per_day", "PER-DAY"),
                ("requests", "REQUESTS"),
                ("requests_per_hour", "PER-HOUR"),
                ("refusals", "REFUSALS"),
                ("refusal", "REFUSAL"),
                ("t_next", "NEXT"),
            ],
            name,
        )
    }

    fn field(&self, name: &str) -> Option<FieldValue> {
        Some(match name {
            "name" => text(&self.name),
            "engine" => text(&self.engine),
            "nodes" => count(self.nodes),
            "cores" => count(self.cores),
            "gpus" => count(self.gpus),
            "min" => count(self.min),
            "max" => count(self.max),
            "count" => count(self.count),
            "time_limit" => optional(self.time_limit, FieldValue::Float),
            "core_hours" => FieldValue::Float((self.core_hours * 100.0).round() / 100.0),
            "core_hours_per_day" => optional(self.core_hours_per_day, FieldValue::Float),
            "requests" => count(self.requests),
            "requests_per_hour" => count(self.requests_per_hour),
            "refusals" => count(self.refusals),
            "refusal" => optional(self.refusal.as_deref(), text),
            "t_next" => optional(self.t_next, until),
            _ => return None,
        })
    }
}
