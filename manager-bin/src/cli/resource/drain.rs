//! `resource drain` and `resource undrain`: drain nodes, list drained nodes, and undo it.

use super::listing::ListingArgs;
use super::selection::NodeArgs;
use super::status::{Nodes, StatusRow};
use super::{COMMAND, refused};
use crate::cli::common::message::{CliError, Prog};
use crate::cli::common::session;
use crate::client::Client;
use crate::rpc::errno::EEXIST;
use crate::rpc::services::resource::{Drain, Undrain};

/// The builtin formats: name, description, format.
const FORMATS: &[(&str, &str, &str)] = &[
    (
        "default",
        "Drained nodes with time and reason",
        "{timestamp!d:%b%d %R::<12} {state:<8.8} {reason:<30.30+} {nodelist}",
    ),
    (
        "long",
        "The default with ranks",
        "{timestamp!d:%b%d %R::<12} {state:<8.8} {ranks:<8.8+} +:{reason:<30.30+} {nodelist}",
    ),
];

/// Options and arguments of `resource drain`.
#[derive(Debug, clap::Args)]
pub(super) struct DrainArgs {
    /// Overwrite the reason of drained nodes; if given twice, the time as well
    #[arg(short = 'f', long, action = clap::ArgAction::Count)]
    force: u8,
    /// Change nothing about drained nodes, except for setting a missing reason
    #[arg(short = 'u', long)]
    update: bool,
    #[command(flatten)]
    listing: ListingArgs,
    #[command(flatten)]
    nodes: NodeArgs,
    /// Ranks or hosts; without any, drained nodes are listed
    #[arg(value_name = "TARGETS")]
    targets: Option<String>,
    /// Reason
    #[arg(value_name = "REASON")]
    reason: Vec<String>,
}

/// Options and arguments of `resource undrain`.
#[derive(Debug, clap::Args)]
pub(super) struct UndrainArgs {
    /// Don't fail for nodes that aren't drained
    #[arg(short = 'f', long)]
    force: bool,
    /// The same as --force
    #[arg(short = 'u', long)]
    update: bool,
    /// Ranks or hosts
    #[arg(value_name = "TARGETS")]
    targets: String,
    /// Reason
    #[arg(value_name = "REASON")]
    reason: Vec<String>,
}

/// Joins the words of a reason. `None` without words.
pub(super) fn joined(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(" "))
}

/// Runs `resource drain`.
pub(super) async fn run(client: &Client, args: &DrainArgs) -> Result<u8, CliError> {
    let Some(targets) = &args.targets else {
        let Some(listing) = args.listing.listing::<StatusRow>(COMMAND, Some("drain"), FORMATS)?
        else {
            return Ok(0);
        };
        let nodes = Nodes::fetch(client, &args.nodes).await?;
        listing.print(nodes.drain_rows(&listing))?;
        return Ok(0);
    };
    let mode = match (args.force, args.update) {
        (0, false) => None,
        (0, true) => Some(Drain::UPDATE),
        (1, false) => Some(Drain::OVERWRITE),
        (_, false) => Some(Drain::FORCE_OVERWRITE),
        (_, true) => {
            return Err(CliError::failure("Only one of --force and --update may be specified"));
        }
    };
    let (targets, reason) = (targets.clone(), joined(&args.reason));
    match client.call(Drain { targets, reason, mode: mode.map(str::to_owned) }).await {
        Ok(_) => Ok(0),
        Err(error) if error.errno == EEXIST => {
            let prog = Prog::current();
            session::print_message(&prog.error(COMMAND, refused(&error)));
            let hint = "Use --force to overwrite existing drain reason";
            session::print_message(&prog.info(COMMAND, hint));
            Ok(1)
        }
        Err(error) => Err(refused(&error)),
    }
}

/// Runs `resource undrain`.
pub(super) async fn undrain(client: &Client, args: &UndrainArgs) -> Result<u8, CliError> {
    let mode = (args.force || args.update).then(|| Undrain::FORCE.to_owned());
    let (targets, reason) = (args.targets.clone(), joined(&args.reason));
    // Without errno, unlike `drain`: scripts compare these texts with those of Flux.
    client.call(Undrain { targets, reason, mode }).await.map_err(CliError::failure)?;
    Ok(0)
}
