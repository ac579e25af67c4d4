//! `completion SHELL`: prints the code with which a shell completes commands, options and their values.
//!
//! The shell asks the program for each completion, so that values are those of the running manager: ids of jobs,
//! queues, loaded plugins, hosts. The shell asks through a variable of the environment, since it completes lines that
//! no parser would accept yet.

mod candidates;
mod kinds;

use std::process::ExitCode;

use clap_complete::CompleteEnv;
use clap_complete::env::Shells;

use super::common::message::CliError;
use super::common::session;
use super::common::usage::{self, Family};

/// The variable by which a shell asks; its value is the name of the shell.
const VARIABLE: &str = "JOBTAP_COMPLETE";

/// Arguments of `completion`.
#[derive(Debug, clap::Args)]
pub(super) struct CompletionArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    shell: String,
}

/// If a shell asks for a completion of the command line, answers it and exits.
pub(super) fn answer(command_line: fn() -> clap::Command) {
    CompleteEnv::with_factory(|| kinds::with_values(command_line()))
        .var(VARIABLE)
        .bin(program())
        .complete();
}

/// Runs the command.
pub(super) fn run(args: &CompletionArgs) -> ExitCode {
    session::run("completion", Family::Script, async {
        session::print(&registration(&args.shell)?)?;
        Ok(0)
    })
}

/// The name that the shell completes: the one by which the program was started.
fn program() -> String {
    usage::program_name(std::env::args_os().next().as_deref())
}

/// The code for a shell.
fn registration(shell: &str) -> Result<String, CliError> {
    let shells = Shells::builtins();
    let found = shells.completer(shell);
    let shell = found.ok_or_else(|| CliError::failure(format!("unknown shell {shell:?}")))?;
    let (program, mut code) = (program(), Vec::new());
    shell.write_registration(VARIABLE, &program, &program, &program, &mut code)?;
    let code = String::from_utf8(code).map_err(CliError::failure)?;
    Ok(if shell.name() == "zsh" { with_first_completion(&code, &program) } else { code })
}

/// The code for zsh, changed so that it also works when zsh loads it from a file of its `fpath`. zsh does that at the
/// first Tab, and takes the file for the function that completes; code that only registers a function wouldn't complete
/// at this first Tab.
fn with_first_completion(code: &str, program: &str) -> String {
    let Some((functions, registered)) = code.trim_end().rsplit_once("\ncompdef ") else {
        return code.to_owned();
    };
    let function = registered.split(' ').next().unwrap_or_default();
    format!(
        "{functions}\nif [[ \"${{funcstack[1]}}\" == \"_{program}\" ]]; then\n    {function} \"$@\"\nelse\n    \
         compdef {registered}\nfi\n"
    )
}
