//! `man`: prints or writes the manual pages of the commands, which are generated from the same descriptions as their
//! `--help`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;

use super::common::message::CliError;
use super::common::session;
use super::common::usage::Family;

/// The name of the manual in the foot of the pages.
const MANUAL: &str = "jobtap manual";

/// Options and arguments of `man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jobtap man submit | man -l -\n  jobtap man -o man1")]
pub(super) struct ManArgs {
    /// Write the pages of all commands to DIR, a new or an empty directory
    #[arg(short, long, value_name = "DIR", conflicts_with = "command")]
    output: Option<PathBuf>,
    /// The command whose page is printed, such as "submit" or "job attach" [default: the program]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the command for the commands of the program, which `top` contains.
pub(super) fn run(mut top: Command, args: &ManArgs) -> ExitCode {
    session::run("man", Family::Script, async {
        // Gives each subcommand the name of its page, `jobtap-job-attach`, and its usage.
        top.build();
        match &args.output {
            Some(directory) => write_all(&top, directory)?,
            None => session::print(&page(named(&top, &args.command)?)?)?,
        }
        Ok(0)
    })
}

fn named<'a>(top: &'a Command, words: &[String]) -> Result<&'a Command, CliError> {
    words.iter().try_fold(top, |command, word| {
        command.find_subcommand(word).ok_or_else(|| {
            let inside = command.get_bin_name().unwrap_or_default();
            CliError::failure(format!("{inside} has no command {word:?}; see '{inside} --help'"))
        })
    })
}

/// The text of a page, in the language of man(7).
fn page(command: &Command) -> io::Result<String> {
    let mut text = Vec::new();
    manual(command).render(&mut text)?;
    String::from_utf8(text).map_err(io::Error::other)
}

fn manual(command: &Command) -> Man {
    Man::new(command.clone()).manual(MANUAL)
}

fn write_all(top: &Command, directory: &Path) -> Result<(), CliError> {
    let at = |error: io::Error| CliError::failure(format!("{}: {error}", directory.display()));
    match fs::create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if fs::read_dir(directory).map_err(at)?.next().is_some() {
                return Err(CliError::failure(format!(
                    "{} is not empty: name a new or an empty directory",
                    directory.display()
                )));
            }
        }
        made => made.map_err(at)?,
    }
    let mut commands = vec![top];
    while let Some(command) = commands.pop() {
        let file = directory.join(manual(command).get_filename());
        let written =
            page(command).and_then(|text| File::create_new(&file)?.write_all(text.as_bytes()));
        written.map_err(|error| CliError::failure(format!("{}: {error}", file.display())))?;
        commands.extend(command.get_subcommands().filter(|inner| !inner.is_hide_set()));
    }
    Ok(())
}
