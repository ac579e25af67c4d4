//! `new`: creates the crate of a plugin, or the manifest of a manager.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

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

/// The text that says what to do with a new plugin.
fn after_plugin(name: &str, program: &str) -> String {
    format!(
        "{name}/src/lib.rs is a plugin with a setting, a handler and tests. Next:\n  \
         cd {name} && cargo test && cd ..\n  \
         {program} build --with {name}={name} -o site-manager\n  \
         ./site-manager start\n"
    )
}

/// The text that says what to do with a new manager.
fn after_manager(name: &str, program: &str) -> String {
    format!(
        "{name}/jobtap-build.toml lists what the manager is built from. Next:\n  \
         cd {name}\n  \
         {program} build add PLUGIN=PATH\n  \
         {program} build\n"
    )
}

/// How to start this program from another directory, as a word for a shell: by the name by which it was started,
/// if the shell found it in its PATH.
fn program() -> String {
    let started = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let by_name = started.components().count() == 1 && !started.as_os_str().is_empty();
    let path = match std::env::current_exe() {
        Ok(own) if !by_name => own,
        _ => started,
    };
    word(&path.display().to_string())
}

/// A text as one word of a shell.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@%,:=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Runs the command.
pub(crate) fn run(args: NewArgs) -> ExitCode {
    let (created, next) = match &args.command {
        NewCommand::Plugin(Name { name }) => {
            (jobtap_builder::new_plugin(name, Path::new(name)), after_plugin(name, &program()))
        }
        NewCommand::Manager(Name { name }) => {
            (jobtap_builder::new_manager(name, Path::new(name)), after_manager(name, &program()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(word("/opt/jobtap-0.1/bin/jobtap"), "/opt/jobtap-0.1/bin/jobtap");
        assert_eq!(word("/home/a b/it's"), r"'/home/a b/it'\''s'");
    }
}
