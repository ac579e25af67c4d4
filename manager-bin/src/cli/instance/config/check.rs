//! `config check`: shows each mistake of configuration files at its line.

use std::io::IsTerminal;
use std::ops::Range;
use std::path::{Path, PathBuf};

use codespan_reporting::diagnostic::{Diagnostic, Label, Severity};
use codespan_reporting::files::SimpleFiles;
use codespan_reporting::term::{self, termcolor};
use serde_json::{Map, Value};
use toml_edit::{Document, Item};

use crate::cli::common::message::{CliError, plural};
use crate::cli::common::session;
use crate::daemon::config;
use crate::daemon::config::check::{Finding, check};
use crate::daemon::config::place::{self, Step};
use crate::daemon::config::slurm_file;
use crate::files::input;
use crate::shown;

/// Arguments of `config check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A manager need not run. The plugins are those that are linked into this program."
)]
pub(super) struct CheckArgs {
    /// What reads the files: a manager, or plugins inside a real Slurm, whose file is jobtap.toml
    #[arg(long, value_name = "HOST", value_enum, default_value = "manager")]
    host: Reader,
    /// TOML or JSON files, or directories of such files; later ones override earlier ones
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

/// What reads a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Reader {
    Manager,
    Slurm,
}

/// A file with its text.
struct Source {
    path: PathBuf,
    text: String,
    /// The text with the positions of its values; `None` for JSON.
    document: Option<Document<String>>,
}

/// Runs the command. The exit code is 1 if a manager, or slurmctld with plugins, would not start with these files.
pub(super) fn run(args: &CheckArgs) -> Result<u8, CliError> {
    let (mut whole, mut sources, mut problems) =
        (Value::Object(Map::new()), Vec::new(), Vec::new());
    for path in &args.paths {
        for file in config::files(path).map_err(CliError::failure)? {
            let text = read(&file)?;
            let source = Source { document: text.parse().ok(), path: file, text };
            match config::load_file(&source.path) {
                Ok(value) => config::merge(&mut whole, value),
                Err(error) => problems.push(unreadable(&source, sources.len(), &error)),
            }
            sources.push(source);
        }
    }
    // Values may depend on a file that can't be read, so nothing is checked if there is one.
    if problems.is_empty() {
        let directory = args.paths.last().map(|path| match path.is_dir() {
            true => path.clone(),
            false => path.parent().unwrap_or(Path::new("")).to_owned(),
        });
        let found = match args.host {
            Reader::Manager => check(&whole, directory.as_deref()),
            Reader::Slurm => slurm_file::check(&whole, directory.as_deref()),
        };
        problems.extend(found.iter().map(|finding| shown_in(finding, &sources)));
    }
    problems
        .sort_by_key(|found| found.labels.first().map(|label| (label.file_id, label.range.start)));
    session::print(&rendered(&problems, &sources, std::io::stdout().is_terminal())?)?;
    let count = |wanted| problems.iter().filter(|found| found.severity == wanted).count() as u64;
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let files = plural(sources.len() as u64, "file");
    let (shown_errors, shown_warnings) = (plural(errors, "error"), plural(warnings, "warning"));
    session::print(&format!("{files}: {shown_errors}, {shown_warnings}\n"))?;
    Ok(u8::from(errors > 0))
}

fn read(path: &Path) -> Result<String, CliError> {
    let text = input::text(path);
    text.map_err(|error| CliError::failure(format!("{}: {error}", path.display())))
}

/// The message for a file that is not TOML or JSON.
fn unreadable(source: &Source, file: usize, error: &config::ConfigError) -> Diagnostic<usize> {
    let parsed = Document::parse(source.text.as_str()).err();
    let spans = parsed.filter(|_| !is_json(&source.path));
    match (spans.and_then(|error| Some((error.span()?, error.message().to_owned()))), error) {
        (Some((span, message)), _) => {
            Diagnostic::error().with_message(message).with_label(Label::primary(file, span))
        }
        (None, config::ConfigError::Parse { line, message, .. }) => {
            let span = line_span(&source.text, *line);
            Diagnostic::error().with_message(message).with_label(Label::primary(file, span))
        }
        (None, error) => Diagnostic::error().with_message(error.to_string()),
    }
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// The span of a line, counted from 1.
fn line_span(text: &str, line: usize) -> Range<usize> {
    let start = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let length = text.get(start..).and_then(|rest| rest.lines().next()).map_or(0, str::len);
    start..start + length
}

/// The message for a finding, at its value in the last file that has it.
fn shown_in(finding: &Finding, sources: &[Source]) -> Diagnostic<usize> {
    let message = match finding.is_warning {
        true => Diagnostic::warning(),
        false => Diagnostic::error(),
    };
    let message = message.with_message(shown::lines(&finding.text));
    // The place as a whole, or else the table around it.
    for length in (1..=finding.place.len()).rev() {
        let Some(steps) = finding.place.get(..length) else { break };
        for (file, source) in sources.iter().enumerate().rev() {
            let document = source.document.as_ref();
            if let Some(span) = document.and_then(|document| span(document.as_item(), steps)) {
                return message.with_label(Label::primary(file, span));
            }
        }
    }
    // JSON has no spans.
    match finding.place.is_empty() {
        true => message,
        false => message.with_note(format!("at {}", place::show(&finding.place))),
    }
}

/// The span of the value at the end of these steps, with its key.
fn span(item: &Item, steps: &[Step]) -> Option<Range<usize>> {
    let mut item = item;
    let mut found = None;
    for step in steps {
        match step {
            Step::Key(name) => {
                let (key, value) = item.as_table_like()?.get_key_value(name)?;
                let (key, whole) = (key.span(), value.span());
                found = match (key, whole) {
                    // `key = value` on one line; a table begins elsewhere than its key in a dotted header.
                    (Some(key), Some(value))
                        if key.end <= value.start && value.start - key.end <= 4 =>
                    {
                        Some(key.start..value.end)
                    }
                    (key, value) => value.or(key),
                };
                item = value;
            }
            Step::Index(index) => {
                item = item.get(*index)?;
                found = item.span();
            }
        }
    }
    found
}

fn rendered(
    problems: &[Diagnostic<usize>],
    sources: &[Source],
    color: bool,
) -> Result<String, CliError> {
    let mut files = SimpleFiles::new();
    for source in sources {
        files.add(source.path.display().to_string(), source.text.as_str());
    }
    let mut out = match color {
        true => termcolor::Buffer::ansi(),
        false => termcolor::Buffer::no_color(),
    };
    for problem in problems {
        let written =
            term::emit_to_write_style(&mut out, &term::Config::default(), &files, problem);
        written.map_err(CliError::failure)?;
    }
    Ok(String::from_utf8_lossy(out.as_slice()).into_owned())
}
