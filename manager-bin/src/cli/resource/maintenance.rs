//! `resource maintenance`: plans, lists and cancels the maintenance of nodes.

use jiff::tz::TimeZone;

use super::drain::joined;
use super::messages::refused;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::when::{self, parse_when};
use crate::client::Client;
use crate::columns::{Column, Side, table};
use crate::rpc::services::resource::{AddMaintenance, GetStatus, Maintenance, RemoveMaintenance};

/// Arguments of `resource maintenance`.
#[derive(Debug, clap::Args)]
pub(super) struct MaintenanceArgs {
    #[command(subcommand)]
    command: MaintenanceCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum MaintenanceCommand {
    /// Plan maintenance: start no job on the nodes that could still run when it begins; print its id
    Add(AddArgs),
    /// List current and planned maintenance
    List(ListArgs),
    /// Cancel maintenance
    Remove(RemoveArgs),
}

/// Options and arguments of `resource maintenance add`.
#[derive(Debug, clap::Args)]
struct AddArgs {
    /// Beginning: a date, +FSD or now
    #[arg(long, value_name = "WHEN", default_value = "now", allow_hyphen_values = true)]
    from: String,
    /// End: a date or +FSD [default: unknown]
    #[arg(long, value_name = "WHEN")]
    to: Option<String>,
    /// Ranks or hosts
    #[arg(value_name = "TARGETS")]
    targets: String,
    /// Reason
    #[arg(value_name = "REASON")]
    reason: Vec<String>,
}

/// Options of `resource maintenance list`.
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `resource maintenance remove`.
#[derive(Debug, clap::Args)]
struct RemoveArgs {
    /// Id of the maintenance
    #[arg(value_name = "ID")]
    id: u64,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &MaintenanceArgs) -> Result<u8, CliError> {
    match &args.command {
        MaintenanceCommand::Add(args) => add(client, args).await,
        MaintenanceCommand::List(args) => list(client, args).await,
        MaintenanceCommand::Remove(args) => {
            let response = client.call(RemoveMaintenance { id: args.id }).await;
            response.map(|_| 0).map_err(|error| refused(&error))
        }
    }
}

async fn add(client: &Client, args: &AddArgs) -> Result<u8, CliError> {
    let now = when::now();
    let when = |text: &str| {
        parse_when(text, now, &TimeZone::system())
            .ok_or_else(|| CliError::failure(format!("invalid time {text:?}: use a date or +FSD")))
    };
    let to = args.to.as_deref().map(when).transpose()?;
    let request = AddMaintenance {
        targets: args.targets.clone(),
        from: Some(when(&args.from)?),
        to,
        reason: joined(&args.reason),
    };
    let added = client.call(request).await.map_err(|error| refused(&error))?;
    session::print(&format!("{}\n", added.id))?;
    Ok(0)
}

async fn list(client: &Client, args: &ListArgs) -> Result<u8, CliError> {
    if args.json {
        let status = client.call_raw(GetStatus {}).await.map_err(|error| refused(&error))?;
        let entries = status.get("maintenance").cloned().unwrap_or_default();
        session::print(&format!("{entries}\n"))?;
        return Ok(0);
    }
    let status = client.call(GetStatus {}).await.map_err(|error| refused(&error))?;
    let columns = [
        Column("ID", Side::Right),
        Column("FROM", Side::Left),
        Column("TO", Side::Left),
        Column("REASON", Side::Left),
        Column("NODELIST", Side::Left),
    ];
    let row = |entry: Maintenance| {
        // Maintenance from the configuration file has the id 0 and can't be removed by id.
        let id = if entry.id == 0 { "-".to_owned() } else { entry.id.to_string() };
        vec![id, time(entry.from), time(entry.to), entry.reason, entry.nodelist]
    };
    session::print(&table(&columns, status.maintenance.into_iter().map(row)))?;
    Ok(0)
}

/// Formats a time in the local time zone; `-` for an unknown time.
fn time(seconds: Option<f64>) -> String {
    let instant = seconds.and_then(|s| jiff::Timestamp::from_microsecond((s * 1e6) as i64).ok());
    instant.map_or_else(
        || "-".to_owned(),
        |at| at.to_zoned(TimeZone::system()).strftime("%F %R").to_string(),
    )
}
