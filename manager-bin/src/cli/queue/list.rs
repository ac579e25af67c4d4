//! `queue list`: lists queues with their state, limits and resources.

use std::io::{self, IsTerminal};

use jiff::tz::TimeZone;

use super::name::COMMAND;
use super::row::QueueRow;
use crate::cli::common::format::named::NamedFormats;
use crate::cli::common::format::{RenderOptions, Template, render, sort_rows};
use crate::cli::common::message::{CliError, Prog};
use crate::cli::common::session;
use crate::client::Client;
use crate::rpc::services::queue::{GetOverview, Overview};

/// The builtin formats: name, description, format.
const FORMATS: &[(&str, &str, &str)] = &[
    (
        "default",
        "State and limits, reduced to the resources that exist",
        "?:{queuem:<8.8} ?:{parent:<8.8} {color_enabled}{enabled:>2}{color_off} \
         {color_started}{started:>2}{color_off} {defaults.timelimit!F:>8} \
         {limits.timelimit!F:>8} {limits.range.effective.nnodes:>10} \
         {limits.range.effective.ncores:>10} {limits.range.effective.ngpus:>10}",
    ),
    (
        "policy",
        "State and limits as configured",
        "?:{queuem:<8.8} ?:{parent:<8.8} {color_enabled}{enabled:>2}{color_off} \
         {color_started}{started:>2}{color_off} {defaults.timelimit!F:>8} \
         {limits.timelimit!F:>8} {limits.range.nnodes:>10} {limits.range.ncores:>10} \
         {limits.range.ngpus:>10}",
    ),
    (
        "nodes",
        "State and nodes",
        "?:{queuem:<8.8} ?:{parent:<8.8} {color_enabled}{enabled:>2}{color_off} \
         {color_started}{started:>2}{color_off} {resources.all.nnodes:>6} \
         {resources.up.nnodes:>10} {resources.down.nnodes:>10} \
         {resources.allocated.nnodes:>11} {resources.free.nnodes:>10}",
    ),
];

/// Options of `queue list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// List these queues
    #[arg(short = 'q', long, value_name = "QUEUE,..")]
    queue: Vec<String>,
    /// Output format, or the name of one ("help" lists the names)
    #[arg(short = 'o', long, value_name = "FORMAT")]
    format: Option<String>,
    /// Print no header line
    #[arg(short = 'n', long)]
    no_header: bool,
}

/// Runs `queue list`.
pub(super) async fn run(client: &Client, args: &ListArgs) -> Result<u8, CliError> {
    let formats = NamedFormats::builtin(COMMAND, FORMATS).of_subcommand("list");
    let formats = formats.with_environment(|name| std::env::var_os(name))?;
    let chosen = args.format.as_deref().unwrap_or("default");
    if chosen == "help" {
        session::print(&formats.help(&Prog::current().command("queue list")))?;
        return Ok(0);
    }
    if let Some(name) = chosen.strip_prefix("get-config=") {
        session::print(&formats.config_of(name)?)?;
        return Ok(0);
    }
    let template =
        Template::parse::<QueueRow>(formats.resolve(chosen)?).map_err(CliError::failure)?;
    let response = client.call(GetOverview {}).await?;
    let mut rows = chosen_rows(response, &args.queue, colors())?;
    sort_rows(&mut rows, template.sort_keys()).map_err(CliError::failure)?;
    let options = RenderOptions { header: !args.no_header, zone: TimeZone::system() };
    let table = render(&template, &rows, &options).map_err(CliError::failure)?;
    let filled = table.lines.iter().filter(|line| !line.trim().is_empty());
    let lines: String = table.header.iter().chain(filled).map(|line| format!("{line}\n")).collect();
    // The rendered fields have been escaped already, except for the colors.
    session::print_painted(&lines)?;
    Ok(0)
}

/// Returns true if the output is colored.
fn colors() -> bool {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !no_color && io::stdout().is_terminal()
}

/// The rows of the queues in `lists`, each a list of names separated by commas, or of all queues.
fn chosen_rows(
    overview: Overview,
    lists: &[String],
    color: bool,
) -> Result<Vec<QueueRow>, CliError> {
    let rows = overview.queues.into_iter().map(|queue| QueueRow { queue, color });
    let rows: Vec<QueueRow> = rows.collect();
    if lists.is_empty() {
        return Ok(rows);
    }
    let names: Vec<&str> = lists.iter().flat_map(|list| list.split(',')).collect();
    match names.iter().find(|name| !rows.iter().any(|row| row.name() == **name)) {
        Some(unknown) => Err(CliError::failure(format!("No such queue: {unknown}"))),
        None => Ok(rows.into_iter().filter(|row| names.contains(&row.name())).collect()),
    }
}
