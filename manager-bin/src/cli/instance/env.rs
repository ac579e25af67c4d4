//! `env`: prints the environment in which commands of the manager run, or runs a command in it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::cli::common::message::{CliError, system_text};
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::client::Client;
use crate::rpc::uri;

/// Arguments of `env`.
#[derive(Debug, clap::Args)]
pub(crate) struct EnvArgs {
    /// Command to run; without one, the variables are printed
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Runs the command.
pub(crate) fn run(args: EnvArgs) -> ExitCode {
    session::run("env", Family::Compiled, async {
        let variables = variables()?;
        let Some((program, words)) = args.command.split_first() else {
            session::print(&listing(&variables))?;
            return Ok(0);
        };
        // Returns only if the program can't be run.
        let error = Command::new(program).args(words).envs(variables).exec();
        let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
        let text = format!("{}: {}", Path::new(program).display(), system_text(&error));
        Err::<u8, _>(CliError { text, code })
    })
}

/// The variables that this program sets: the search path with the program itself, and the address of the
/// manager, if the environment names one.
fn variables() -> Result<Vec<(&'static str, String)>, CliError> {
    let mut variables = vec![("PATH", path(&std::env::current_exe()?))];
    if let Ok(socket) = Client::socket() {
        let address = uri::of_path(&socket);
        variables.extend([(uri::VARIABLE, address.clone()), (uri::FLUX_VARIABLE, address)]);
    }
    Ok(variables)
}

/// The search path, with the directory of this program in front unless it is there already.
fn path(program: &Path) -> String {
    let present = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&present).collect();
    let own = program.parent().map(Path::to_path_buf);
    let own = own.filter(|own| !directories.contains(own));
    let joined = std::env::join_paths(own.into_iter().chain(directories));
    joined.unwrap_or(present).to_string_lossy().into_owned()
}

/// A line for a shell for each variable.
fn listing(variables: &[(&str, String)]) -> String {
    variables
        .iter()
        .map(|(name, value)| format!("export {name}=\"{}\"\n", escaped(value)))
        .collect()
}

/// The text, escaped for a shell's double quotes.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if matches!(c, '"' | '\\' | '$' | '`') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_for_a_shell() {
        let variables = [("A", "/x:/y z".to_owned()), ("B", "$a`\"\\".to_owned())];
        let wanted = "export A=\"/x:/y z\"\nexport B=\"\\$a\\`\\\"\\\\\"\n";
        assert_eq!(listing(&variables), wanted);
    }
}
