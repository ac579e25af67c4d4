//! `resource drain` and `undrain`.

use super::listing::FormArgs;
use super::selection::NodeArgs;
use super::status::{Nodes, StatusRow};
use super::{COMMAND, refused};
use crate::cli::message::{CliError, Prog};
use crate::cli::session;
use crate::client::Client;
use crate::rpc::errno::EEXIST;
use crate::rpc::services::resource::{Drain, Undrain};

/// The builtin formats: name, description, format.
const FORMATS: &[(&str, &str, &str)] = &[
    (
        "default",
        "Drained nodes, since when and why",
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
    /// Replace the reason of nodes that are drained; twice: also the time
    #[arg(short = 'f', long, action = clap::ArgAction::Count)]
    force: u8,
    /// Leave nodes that are drained as they are, but give them a reason if they have none
    #[arg(short = 'u', long)]
    update: bool,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    nodes: NodeArgs,
    /// Ranks or hosts
    #[arg(value_name = "TARGETS")]
    targets: Option<String>,
    /// Why
    #[arg(value_name = "REASON")]
    reason: Vec<String>,
}

/// Options and arguments of `resource undrain`.
#[derive(Debug, clap::Args)]
pub(super) struct UndrainArgs {
    /// Nodes that aren't drained are no error
    #[arg(short = 'f', long)]
    force: bool,
    /// The same
    #[arg(short = 'u', long)]
    update: bool,
    /// Ranks or hosts
    #[arg(value_name = "TARGETS")]
    targets: String,
    /// Why
    #[arg(value_name = "REASON")]
    reason: Vec<String>,
}

/// Words of a reason as one text, if there are any.
pub(super) fn joined(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(" "))
}

/// Runs `resource drain`.
pub(super) async fn run(client: &Client, args: &DrainArgs) -> Result<u8, CliError> {
    let Some(targets) = &args.targets else {
        let Some(listing) = args.form.listing::<StatusRow>("resource-drain", FORMATS)? else {
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
            session::note(&prog.error(COMMAND, refused(&error)));
            let hint = "Use --force to overwrite existing drain reason";
            session::note(&prog.info(COMMAND, hint));
            Ok(1)
        }
        Err(error) => Err(refused(&error)),
    }
}

/// Runs `resource undrain`.
pub(super) async fn undrain(client: &Client, args: &UndrainArgs) -> Result<u8, CliError> {
    let mode = (args.force || args.update).then(|| Undrain::FORCE.to_owned());
    let (targets, reason) = (args.targets.clone(), joined(&args.reason));
    client.call(Undrain { targets, reason, mode }).await.map_err(|error| refused(&error))?;
    Ok(0)
}
