//! `resource drain` and `resource undrain`: drain nodes, list drained nodes, and undrain nodes.

use super::listing::ListingArgs;
use super::messages::{COMMAND, refused};
use super::selection::NodeArgs;
use super::status::{Nodes, StatusRow};
use crate::cli::common::format::named::NamedFormats;
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
        "{timestamp!d:%b%d %R::<12} {state:<8.8} {ranks:<8.8+} +:{reason:<30.30} {nodelist}",
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
    /// Ranks or hosts, and the words of a reason; without any, drained nodes are listed
    #[arg(value_names = ["TARGETS", "REASON"], num_args = 1.., trailing_var_arg = true)]
    words: Vec<String>,
}

/// Options and arguments of `resource undrain`.
#[derive(Debug, clap::Args)]
pub(super) struct UndrainArgs {
    /// Don't fail for nodes that aren't drained; the event tells that, and whether it was given twice
    #[arg(short = 'f', long, action = clap::ArgAction::Count)]
    force: u8,
    /// Don't fail for nodes that aren't drained
    #[arg(short = 'u', long)]
    update: bool,
    /// Ranks or hosts, and the words of a reason
    #[arg(value_names = ["TARGETS", "REASON"], num_args = 1.., trailing_var_arg = true,
          required = true)]
    words: Vec<String>,
}

/// Splits the words after the options into targets and a reason, which may contain words that look like options. `None`
/// without words. A `--` after the targets is not part of the reason.
fn split(words: &[String]) -> Option<(String, Option<String>)> {
    let (targets, reason) = words.split_first()?;
    let reason = match reason.split_first() {
        Some((first, rest)) if first == "--" => rest,
        _ => reason,
    };
    Some((targets.clone(), joined(reason)))
}

/// The mode of the request, which determines what happens to nodes that are in the wanted state already.
fn mode(force: u8, update: bool) -> Result<Option<String>, CliError> {
    let mode = match (force, update) {
        (0, false) => None,
        (0, true) => Some(Drain::UPDATE),
        (1, false) => Some(Drain::OVERWRITE),
        (_, false) => Some(Drain::FORCE_OVERWRITE),
        (_, true) => {
            return Err(CliError::failure("Only one of --force and --update may be specified"));
        }
    };
    Ok(mode.map(str::to_owned))
}

/// Joins the words of a reason. `None` without words.
pub(super) fn joined(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(" "))
}

/// Runs `resource drain`.
pub(super) async fn run(client: &Client, args: &DrainArgs) -> Result<u8, CliError> {
    let Some((targets, reason)) = split(&args.words) else {
        let formats = NamedFormats::builtin(COMMAND, FORMATS).of_subcommand("drain");
        let Some(listing) = args.listing.listing::<StatusRow>(formats)? else {
            return Ok(0);
        };
        let nodes = Nodes::fetch(client, &args.nodes).await?;
        listing.print(nodes.drain_rows(&listing))?;
        return Ok(0);
    };
    let mode = mode(args.force, args.update)?;
    match client.call(Drain { targets, reason, mode }).await {
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
    let mode = mode(args.force, args.update)?;
    let (targets, reason) = split(&args.words).unwrap_or_default();
    // Without errno, unlike `drain`: scripts compare these texts with those of Flux.
    client.call(Undrain { targets, reason, mode }).await.map_err(CliError::failure)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        drain: DrainArgs,
    }

    #[test]
    fn all_words_after_the_targets_are_the_reason() {
        let parsed = |line: &str| {
            let words = ["drain"].into_iter().chain(line.split(' '));
            let drain = Command::try_parse_from(words).unwrap().drain;
            let (targets, reason) = split(&drain.words).unwrap();
            (drain.force, drain.update, targets, reason.unwrap_or_default())
        };
        let drained = |force, update, targets: &str, reason: &str| {
            (force, update, targets.to_owned(), reason.to_owned())
        };
        assert_eq!(parsed("0 -f bad disk"), drained(0, false, "0", "-f bad disk"));
        assert_eq!(parsed("-f 1-2 -u"), drained(1, false, "1-2", "-u"));
        assert_eq!(parsed("-u n1"), drained(0, true, "n1", ""));
        assert_eq!(parsed("0 -- b -- c"), drained(0, false, "0", "b -- c"));
        assert_eq!(parsed("-- 0 c"), drained(0, false, "0", "c"));
    }

    #[test]
    fn force_and_update_exclude_each_other() {
        assert_eq!(mode(2, false).unwrap().as_deref(), Some(Drain::FORCE_OVERWRITE));
        let refused = mode(1, true).unwrap_err();
        assert_eq!(refused.text, "Only one of --force and --update may be specified");
    }
}
