//! `new`: creates the crate of a plugin, or the manifest of a manager.

use std::path::Path;
use std::process::ExitCode;

use crate::build;
use crate::cli::common::message::{CliError, Prog};
use crate::cli::common::session;

/// Arguments of `new`.
#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    #[command(subcommand)]
    command: NewCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum NewCommand {
    /// Create the crate of a plugin, with tests, CI and the SDK, in the directory NAME
    Plugin(Name),
    /// Create the manifest of a manager, for `build`, in the directory NAME
    Manager(Name),
}

#[derive(Debug, clap::Args)]
struct Name {
    /// Name, which must be a valid name of a crate
    #[arg(value_name = "NAME")]
    name: String,
}

/// What to do with a new plugin.
fn after_plugin(name: &str) -> String {
    format!(
        "{name}/src/lib.rs is a plugin with a setting, a handler and tests. Next:\n  \
         cd {name} && cargo test && cd ..\n  \
         jobtap build --with {name}={name} -o site-manager\n  \
         ./site-manager start\n"
    )
}

/// What to do with a new manager.
fn after_manager(name: &str) -> String {
    format!(
        "{name}/jobtap-build.toml lists what the manager is built from. Next:\n  \
         cd {name}\n  \
         jobtap build add PLUGIN=PATH\n  \
         jobtap build\n"
    )
}

/// Runs the command.
pub(crate) fn run(args: NewArgs) -> ExitCode {
    let (created, next) = match &args.command {
        NewCommand::Plugin(Name { name }) => {
            (build::new_plugin(name, Path::new(name)), after_plugin(name))
        }
        NewCommand::Manager(Name { name }) => {
            (build::new_manager(name, Path::new(name)), after_manager(name))
        }
    };
    match created.map_err(CliError::from).and_then(|()| session::print(&next)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            session::print_message(&Prog::current().error("new", &error.text));
            ExitCode::from(error.code)
        }
    }
}
