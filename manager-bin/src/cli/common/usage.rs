//! Reports usage errors. Scripts depend on the form of the message and on the exit code, so both are those of Flux,
//! whose commands form two families that differ in both.

use std::error::Error as _;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::num::ParseIntError;
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use jobtap_core::suggest::nearest;

/// The family of a command, which determines the form of its errors and its exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Flux's scripts: `submit`, `run`, `jobs`, `cancel`, ... A usage error is the usage, then
    /// `PROG-NAME: error: TEXT`, with exit code 2.
    Script,
    /// Flux's compiled commands: `job`, `start`, `config`, ... A usage error is `PROG-NAME: TEXT`, then the
    /// usage, with exit code 1.
    Compiled,
    /// Slurm's `sbatch`: `sbatch: error: TEXT`, whatever the program is called. A usage error is one of clap's,
    /// in the form of the scripts.
    Slurm,
}

/// A value that should be an integer.
#[derive(Debug, thiserror::Error)]
#[error("invalid int value: '{0}'")]
pub(crate) struct NoInteger(pub(crate) String);

/// An option that only other commands with the same options accept.
#[derive(Debug, thiserror::Error)]
#[error("unrecognized arguments")]
pub(crate) struct NoOption;

/// The output for a usage error or a request for help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    /// All lines, with a newline at the end.
    pub(crate) text: String,
    /// The exit code of the command: 0 for help.
    pub(crate) code: u8,
}

/// The name by which the program was started, for its messages: the file name of `argv[0]`.
pub(crate) fn program_name(argv0: Option<&OsStr>) -> String {
    let name = argv0.and_then(|path| Path::new(path).file_name());
    name.map_or_else(|| "jobtap".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The command that is about to report an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The name by which the program was started.
    pub(crate) program: String,
    /// The command and its subcommands, as they were named.
    pub(crate) path: Vec<String>,
    /// The usage of the innermost of them. The usage in clap's error can't be used: it shows only the wrong argument.
    pub(crate) usage: String,
    /// The last word of the command line.
    pub(crate) last_word: String,
    /// What the command lacks that one of the same name has elsewhere.
    pub(crate) left_out: Option<String>,
}

/// Commands that are parts of Flux's program itself, and so have a space in their names.
const PARTS_OF_FLUX: &[&str] = &[
    "config", "dmesg", "dump", "env", "fsck", "getattr", "lsattr", "proxy", "setattr", "shutdown",
    "startlog", "uptime", "version",
];

impl Place {
    /// The name of the command in messages about its options: `PROG-COMMAND SUBCOMMAND`.
    fn name(&self) -> String {
        let command = self.command();
        let between = if PARTS_OF_FLUX.contains(&command) { ' ' } else { '-' };
        let inner: String = self.inner().iter().map(|word| format!(" {word}")).collect();
        format!("{}{between}{command}{inner}", self.program)
    }

    fn command(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }

    fn inner(&self) -> &[String] {
        self.path.get(1..).unwrap_or_default()
    }
}

/// Turns clap's error into the form of the family.
pub(crate) fn describe(error: &clap::Error, place: &Place, family: Family) -> Report {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Report { text: error.render().to_string(), code: 0 };
    }
    let Place { program, usage, .. } = place;
    let command = place.command();
    // On its own line, since scripts compare the line of the error with Flux's.
    let hint =
        suggestion(error).map(|meant| format!("{program}-{command}: did you mean '{meant}'?\n"));
    let hint = hint.unwrap_or_default();
    match family {
        Family::Script | Family::Slurm => {
            let unknown = error.kind() == ErrorKind::UnknownArgument;
            let left_out = place.left_out.as_ref().filter(|_| unknown);
            let left_out = left_out.map(|text| format!("{program}-{command}: {text}\n"));
            let text = script_text(error);
            let text = format!(
                "usage: {usage}\n{program}-{command}: error: {text}\n{hint}{}",
                left_out.unwrap_or_default()
            );
            Report { text, code: 2 }
        }
        Family::Compiled => {
            let name = place.name();
            let (text, more) = match compiled_text(error, place) {
                Compiled::Option(text) => (text, try_help(&name) + "\n"),
                Compiled::Value(text) => (text, String::new()),
                Compiled::Arguments(text) => (text, format!("Usage: {usage}\n")),
            };
            Report { text: format!("{name}: {text}\n{hint}{more}"), code: 1 }
        }
    }
}

/// Prints help to standard output and errors to standard error, and returns the exit code.
pub(crate) fn report(error: &clap::Error, place: &Place, family: Family) -> ExitCode {
    let Report { text, code } = describe(error, place, family);
    // An error is ignored: only the exit code can report it.
    let _ = if code == 0 {
        io::stdout().write_all(text.as_bytes())
    } else {
        io::stderr().write_all(text.as_bytes())
    };
    ExitCode::from(code)
}

fn script_text(error: &clap::Error) -> String {
    let argument = argument(error);
    let value = string(error, ContextKind::InvalidValue).unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument => format!("{NoOption}: {argument}"),
        // clap reports a missing value as an empty one.
        ErrorKind::InvalidValue if value.is_empty() => {
            format!("argument {argument}: expected one argument")
        }
        ErrorKind::InvalidValue => {
            let choices: Vec<_> =
                strings(error, ContextKind::ValidValue).iter().map(|v| format!("'{v}'")).collect();
            let choices = choices.join(", ");
            format!("argument {argument}: invalid choice: '{value}' (choose from {choices})")
        }
        ErrorKind::ValueValidation => match error.source() {
            Some(source) if source.is::<NoOption>() => format!("{NoOption}: {argument}"),
            // The source contains the whole message, as in Flux's scripts.
            Some(source) if source.is::<NoInteger>() => format!("argument {argument}: {source}"),
            Some(source) => format!("argument {argument}: invalid value '{value}': {source}"),
            None => format!("argument {argument}: invalid value '{value}'"),
        },
        ErrorKind::TooManyValues => {
            format!("argument {argument}: ignored explicit argument '{value}'")
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = strings(error, ContextKind::InvalidArg);
            format!("the following arguments are required: {}", missing.join(", "))
        }
        ErrorKind::InvalidSubcommand => {
            let name = string(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            format!("invalid choice: '{name}'")
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "the following arguments are required: subcommand".to_owned()
        }
        _ => plain(error),
    }
}

/// The hint that points to the help of a command.
pub(crate) fn try_help(name: &str) -> String {
    format!("Try `{name} --help' for more information.")
}

/// The message of a compiled command. The variants differ in what follows the message.
enum Compiled {
    /// An option doesn't exist or takes no value. The hint that points to the help follows.
    Option(String),
    /// The value of an option is missing or wrong. Nothing follows.
    Value(String),
    /// Arguments or subcommands are wrong. The usage follows.
    Arguments(String),
}

fn compiled_text(error: &clap::Error, place: &Place) -> Compiled {
    let argument = argument(error);
    let value = string(error, ContextKind::InvalidValue).unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            Compiled::Option(format!("unrecognized option '{argument}'"))
        }
        ErrorKind::TooManyValues => {
            Compiled::Option(format!("option '{argument}' doesn't allow an argument"))
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            Compiled::Value(format!("'{}' missing argument", as_typed(&argument, &place.last_word)))
        }
        ErrorKind::ValueValidation
            if error.source().is_some_and(|source| source.is::<ParseIntError>()) =>
        {
            let name = match place.inner().last() {
                Some(name) => name.clone(),
                None => format!("{}-{}", place.program, place.command()),
            };
            let option = argument.trim_start_matches('-');
            Compiled::Value(format!("{name}: Option '{option}' requires an integer argument"))
        }
        ErrorKind::UnknownArgument => {
            Compiled::Arguments(format!("unexpected argument '{argument}'"))
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = strings(error, ContextKind::InvalidArg).join(", ");
            Compiled::Arguments(format!("missing {missing}"))
        }
        ErrorKind::InvalidSubcommand => {
            let name = string(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            Compiled::Arguments(format!("Unknown subcommand: {name}"))
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Compiled::Arguments("missing subcommand".to_owned())
        }
        _ => Compiled::Arguments(plain(error)),
    }
}

/// The option that lacks its value, as the user typed it: the last word.
fn as_typed<'a>(option: &'a str, last_word: &'a str) -> &'a str {
    if last_word.starts_with('-') { last_word } else { option }
}

/// The command or option that a misspelled one was probably meant to be. clap suggests names that share enough letters,
/// however much they differ otherwise; of these, only near ones count, as everywhere in this program.
pub(crate) fn suggestion(error: &clap::Error) -> Option<&str> {
    let (word, kind) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand)
        }
        _ => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
    };
    let known: Vec<&str> = match error.get(kind)? {
        ContextValue::String(name) => vec![name],
        ContextValue::Strings(names) => names.iter().map(String::as_str).collect(),
        _ => return None,
    };
    nearest(string(error, word)?, known)
}

/// The argument that the error is about, without the name of its value.
fn argument(error: &clap::Error) -> String {
    let argument = string(error, ContextKind::InvalidArg).unwrap_or_default();
    argument.split([' ', '=']).next().unwrap_or_default().trim_end_matches(['[', '.']).to_owned()
}

fn string(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

fn strings(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::Strings(texts)) => {
            texts.iter().map(|text| text.replace(['<', '>'], "")).collect()
        }
        _ => Vec::new(),
    }
}

/// The first line of clap's own text.
fn plain(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    fn place(last_word: &str) -> Place {
        Place {
            program: "site-jobtap".to_owned(),
            path: vec!["demo".to_owned()],
            usage: "site-jobtap demo [OPTIONS] JOBID".to_owned(),
            last_word: last_word.to_owned(),
            left_out: None,
        }
    }

    fn wrong(words: &[&str], family: Family) -> Report {
        let command = Command::new("jobtap").subcommand(
            Command::new("demo")
                .arg(Arg::new("ntasks").short('n').long("ntasks").value_name("N"))
                .arg(Arg::new("kind").long("kind").value_parser(["a", "b"]))
                .arg(Arg::new("count").long("count").value_parser(clap::value_parser!(u8)))
                .arg(
                    Arg::new("color").long("color").value_parser(["auto", "never"]).num_args(0..=1),
                )
                .arg(Arg::new("id").value_name("JOBID").required(true)),
        );
        let place = place(words.last().unwrap_or(&""));
        let words = ["jobtap", "demo"].iter().chain(words);
        let error = command.try_get_matches_from(words).unwrap_err();
        describe(&error, &place, family)
    }

    /// The error message in both forms.
    fn lines(words: &[&str]) -> (String, String) {
        let script = wrong(words, Family::Script);
        let compiled = wrong(words, Family::Compiled);
        assert_eq!((script.code, compiled.code), (2, 1));
        assert_eq!(script.text.lines().next(), Some("usage: site-jobtap demo [OPTIONS] JOBID"));
        let script = script.text.trim_end().rsplit('\n').next().unwrap().to_owned();
        let script = script.strip_prefix("site-jobtap-demo: error: ").unwrap().to_owned();
        let compiled = compiled.text.lines().next().unwrap();
        (script, compiled.strip_prefix("site-jobtap-demo: ").unwrap().to_owned())
    }

    fn both(script: &str, compiled: &str) -> (String, String) {
        (script.to_owned(), compiled.to_owned())
    }

    #[test]
    fn each_family_has_its_own_form_and_exit_code() {
        assert_eq!(
            lines(&["1", "--foo"]),
            both("unrecognized arguments: --foo", "unrecognized option '--foo'")
        );
        assert_eq!(
            lines(&["1", "2"]),
            both("unrecognized arguments: 2", "unexpected argument '2'")
        );
        assert_eq!(
            lines(&["1", "-n"]),
            both("argument --ntasks: expected one argument", "'-n' missing argument")
        );
        assert_eq!(
            lines(&[]),
            both("the following arguments are required: JOBID", "missing JOBID")
        );
        assert_eq!(
            lines(&["1", "--kind=c"]).0,
            "argument --kind: invalid choice: 'c' (choose from 'a', 'b')"
        );
        assert_eq!(
            lines(&["1", "--color=c"]).0,
            "argument --color: invalid choice: 'c' (choose from 'auto', 'never')"
        );
        let (script, compiled) = lines(&["1", "--count=x"]);
        assert!(script.starts_with("argument --count: invalid value 'x': "), "{script}");
        assert_eq!(compiled, "site-jobtap-demo: Option 'count' requires an integer argument");
    }

    #[test]
    fn compiled_commands_say_where_to_read_on() {
        let after = |words: &[&str]| {
            let text = wrong(words, Family::Compiled).text;
            text.split_once('\n').unwrap().1.to_owned()
        };
        assert_eq!(after(&["1", "--foo"]), "Try `site-jobtap-demo --help' for more information.\n");
        assert_eq!(after(&[]), "Usage: site-jobtap demo [OPTIONS] JOBID\n");
        assert_eq!(after(&["1", "--ntasks"]), "");
        let name = |path: &[&str]| {
            let path = path.iter().map(|word| (*word).to_owned()).collect();
            Place { program: "flux".to_owned(), path, ..place("") }.name()
        };
        assert_eq!(name(&["job", "wait-event"]), "flux-job wait-event");
        assert_eq!(name(&["config", "get"]), "flux config get");
        assert_eq!(as_typed("--timeout", "-vt"), "-vt");
        assert_eq!(as_typed("--timeout", ""), "--timeout");
    }

    #[test]
    fn a_misspelt_option_or_subcommand_is_told() {
        let hint = |words: &[&str]| {
            let [script, compiled] =
                [Family::Script, Family::Compiled].map(|family| wrong(words, family).text);
            let hint = script.lines().last().unwrap().to_owned();
            assert!(compiled.lines().nth(1).is_some_and(|line| line == hint), "{compiled}");
            hint
        };
        assert_eq!(hint(&["1", "--ntaks=3"]), "site-jobtap-demo: did you mean '--ntasks'?");
        for word in ["--foo", "--mind-this", "2"] {
            let text = wrong(&["1", word], Family::Script).text;
            assert!(
                text.trim_end().ends_with(&format!("unrecognized arguments: {word}")),
                "{text}"
            );
        }
        let command = || Command::new("jobtap").subcommand(Command::new("attach"));
        let told = |word: &str| {
            let error = command().subcommand_required(true).try_get_matches_from(["jobtap", word]);
            suggestion(&error.unwrap_err()).map(str::to_owned)
        };
        assert_eq!(told("atach").as_deref(), Some("attach"));
        assert_eq!(told("ach"), None);
    }

    #[test]
    fn help_exits_with_0() {
        let help = wrong(&["--help"], Family::Compiled);
        assert_eq!(help.code, 0);
        assert!(help.text.contains("--ntasks"));
    }

    #[test]
    fn the_program_name_is_the_file_name_of_argv0() {
        let name = |path: &str| program_name(Some(OsStr::new(path)));
        assert_eq!(name("/usr/bin/jobtap"), "jobtap");
        assert_eq!(name("./site-manager"), "site-manager");
        assert_eq!(program_name(None), "jobtap");
    }
}
