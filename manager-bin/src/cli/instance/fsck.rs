//! `fsck`: checks the store of a manager that isn't running, and can repair it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::daemon::statedir::{self, StateDir};
use crate::store;

const COMMAND: &str = "fsck";

/// The exit code if the store is damaged.
const DAMAGED: u8 = 1;
/// The exit code if the store was repaired by removing data.
const REPAIRED: u8 = 3;

/// Options of `fsck`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit code is 0 if nothing is damaged, 1 if something is damaged or the store \
                  can't be checked, and 3 if the store was repaired."
)]
pub(crate) struct FsckArgs {
    /// State directory
    #[arg(long, value_name = "DIR", conflicts_with = "dir")]
    state_dir: Option<PathBuf>,
    /// Remove and report what is damaged; the old database is kept beside the new one
    #[arg(long)]
    repair: bool,
    /// State directory
    #[arg(value_name = "DIR", required_unless_present = "state_dir")]
    dir: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: FsckArgs) -> ExitCode {
    session::run(COMMAND, Family::Compiled, async move { fsck(args) })
}

fn fsck(args: FsckArgs) -> Result<u8, CliError> {
    let named = args.state_dir.or(args.dir).unwrap_or_default();
    // Checked before the state directory is opened, which would create a missing one.
    let dir = statedir::existing(&named).filter(|dir| dir.join("store").is_dir());
    let Some(dir) = dir else {
        let text = format!("{} holds no state of a manager", named.display());
        return Err(CliError::failure(text));
    };
    let store = dir.join("store");
    let _state = StateDir::open(&dir).map_err(CliError::failure)?;
    match args.repair {
        true => repair(&store),
        false => check(&store),
    }
}

fn check(store: &Path) -> Result<u8, CliError> {
    let damages = store::check(store).map_err(CliError::failure)?;
    if damages.is_empty() {
        return print_undamaged(store);
    }
    let lines: String = damages.iter().map(|damage| format!("{damage}\n")).collect();
    let hint = match damages.iter().all(store::Damage::is_repairable) {
        true => "`fsck --repair` removes what is damaged and keeps the rest",
        false => "this can't be repaired: restore the store from a backup",
    };
    session::print(&format!("{lines}{} is damaged: {hint}\n", store.display()))?;
    Ok(DAMAGED)
}

fn repair(store: &Path) -> Result<u8, CliError> {
    let Some(repaired) = store::repair(store).map_err(CliError::failure)? else {
        return print_undamaged(store);
    };
    session::print(&format!("{repaired}\n{} is repaired\n", store.display()))?;
    Ok(REPAIRED)
}

fn print_undamaged(store: &Path) -> Result<u8, CliError> {
    session::print(&format!("{}: nothing is damaged\n", store.display()))?;
    Ok(0)
}
