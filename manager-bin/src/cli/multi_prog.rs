//! `multi-prog`: becomes the program that a file names for this task, so that the tasks of a job run different
//! programs.
//!
//! Each line of the file has tasks and a command: `0-1 ./server %t`. The command is split into words as a shell does.
//! `%t` is the rank of the task, `%o` its position among the tasks of the line.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use jobtap_core::resource::Idset;

use super::common::message::{CliError, system_text};
use super::common::session;
use super::common::usage::Family;
use super::common::words::{Comments, Escapes, split};

const COMMAND: &str = "multi-prog";

/// The variables with the rank of a task.
const RANK: [&str; 2] = ["FLUX_TASK_RANK", "JOBTAP_TASK_RANK"];

/// The longest file that is read.
const LONGEST: u64 = 16 << 20;

/// Stands for all tasks that no line names.
const OTHERS: &str = "*";

/// Options and arguments of `multi-prog`.
#[derive(Debug, clap::Args)]
pub(crate) struct MultiProgArgs {
    /// Run nothing: print what these tasks would run
    #[arg(short = 'n', long, value_name = "RANKS", value_parser = ranks)]
    dry_run: Option<Idset>,
    /// File with a line for each program: ranks of tasks, or * for all others, and the command. In it, %t is the rank,
    /// and %o the place among the ranks of the line
    #[arg(value_name = "CONFIG")]
    config: String,
}

/// A text that is no set of ranks.
#[derive(Debug, thiserror::Error)]
#[error("invalid IDset value: '{0}'")]
struct NoRanks(String);

fn ranks(text: &str) -> Result<Idset, NoRanks> {
    text.parse().map_err(|_| NoRanks(text.to_owned()))
}

/// Runs the command.
pub(crate) fn run(args: MultiProgArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async move {
        let failed = |text: String| CliError::failure(text);
        let text = read(&args.config)
            .map_err(|error| failed(format!("{}: '{}'", system_text(&error), args.config)))?;
        let programs = Programs::parse(&text);
        let programs = programs.map_err(|error| failed(format!("{}: {error}", args.config)))?;
        let missing = |rank| failed(format!("{}: No matching line for rank {rank}", args.config));
        if let Some(ranks) = args.dry_run {
            for rank in ranks.iter() {
                let words = programs.command(rank).ok_or_else(|| missing(rank))?;
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                session::print(&format!("{rank}: {}\n", words.join(" ")))?;
            }
            return Ok(0);
        }
        let rank = RANK.iter().find_map(|name| std::env::var(name).ok()?.parse::<u32>().ok());
        let rank = rank.ok_or_else(|| failed("FLUX_TASK_RANK not found or invalid".to_owned()))?;
        let words = programs.command(rank).ok_or_else(|| missing(rank))?;
        let Some((program, arguments)) = words.split_first() else { return Err(missing(rank)) };
        // Returns only if the program can't be executed.
        let error = Command::new(program).args(arguments).exec();
        Err(failed(format!("{program}: {}", system_text(&error))))
    })
}

fn read(path: &str) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if read as u64 > LONGEST {
        let text = format!("it has more than {LONGEST} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(text)
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {number}: {fault}")]
struct BadLine {
    number: usize,
    fault: Fault,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("invalid idset: {0}")]
    Ranks(String),
    #[error("'{0}': No closing quotation")]
    Quote(String),
}

/// The commands of a file.
#[derive(Debug, Default)]
struct Programs {
    /// The commands of tasks that are named, in the order of their lines. The first line that names a task counts.
    named: Vec<(Idset, Vec<String>)>,
    /// The command of all other tasks. The last such line counts.
    others: Option<Vec<String>>,
}

impl Programs {
    fn parse(text: &str) -> Result<Self, BadLine> {
        let mut programs = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let bad = |fault| BadLine { number, fault };
            let words = split(line, Comments::Anywhere, Escapes::QuoteAndBackslash)
                .map_err(|_| bad(Fault::Quote(line.to_owned())))?;
            let mut words = words.into_iter();
            match words.next() {
                None => {}
                Some(ranks) if ranks == OTHERS => programs.others = Some(words.collect()),
                Some(text) => {
                    let ranks = text.parse().map_err(|_| bad(Fault::Ranks(text)))?;
                    programs.named.push((ranks, words.collect()));
                }
            }
        }
        Ok(programs)
    }

    /// The words of a task's command; `None` if the file has none for it.
    fn command(&self, rank: u32) -> Option<Vec<String>> {
        let named = self.named.iter().find(|(ranks, _)| ranks.contains(rank));
        let (words, place) = match named {
            Some((ranks, words)) => (words, ranks.iter().take_while(|id| *id < rank).count()),
            None => (self.others.as_ref()?, 0),
        };
        let filled = |word: &String| filled(word, rank, place);
        (!words.is_empty()).then(|| words.iter().map(filled).collect())
    }
}

/// The word with its tokens replaced. Replacements aren't searched for tokens, and any other `%` remains.
fn filled(word: &str, rank: u32, place: usize) -> String {
    let mut text = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let token = match after.chars().next() {
            Some('t') => Some(rank.to_string()),
            Some('o') => Some(place.to_string()),
            _ => None,
        };
        rest = match token {
            Some(number) => {
                text.push_str(&number);
                after.get(1..).unwrap_or_default()
            }
            None => {
                text.push('%');
                after
            }
        };
    }
    text + rest
}

/// The word, quoted for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r#"'"'"'"#))
}

/// The commands of a file, for fuzzers.
#[cfg(feature = "fuzz")]
pub(in crate::cli) mod foreign {
    use super::Programs;

    /// The command of a task; `None` if the file is refused, or has none for it.
    pub fn programs(text: &str, rank: u32) -> Option<Vec<String>> {
        Programs::parse(text).ok()?.command(rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str, rank: u32) -> Option<String> {
        Some(Programs::parse(text).unwrap().command(rank)?.join("|"))
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn each_task_has_the_command_of_its_line() {
        let text = "# programs\n0-1 app a # first\n\n  2,5 app \"b c\" %t %o\n";
        assert_eq!(command(text, 1), some("app|a"));
        assert_eq!(command(text, 5), some("app|b c|5|1"));
        assert_eq!(command(text, 3), None);
        assert_eq!(command("0\n", 0), None, "a line without a command");
    }

    #[test]
    fn a_star_is_for_the_others_and_the_first_line_counts() {
        let text = "* a\n0-2 b\n1 c\n* d %t %o\n";
        assert_eq!(command(text, 1), some("b"));
        assert_eq!(command(text, 7), some("d|7|0"));
    }

    #[test]
    fn tokens_are_replaced_anywhere_in_a_word() {
        assert_eq!(filled("./x%t-%o.%t%%t%", 12, 3), "./x12-3.12%12%");
        assert_eq!(filled("%d%", 1, 2), "%d%");
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = |text: &str| Programs::parse(text).unwrap_err().to_string();
        assert_eq!(error("0 a\nx b\n"), "line 2: invalid idset: x");
        assert_eq!(error("0 'a\n"), "line 1: '0 'a': No closing quotation");
    }

    #[test]
    fn words_are_shown_as_a_shell_reads_them() {
        let words = ["a-b", "", "a b", "$HOME", "it's", "%t"].map(quoted);
        assert_eq!(words, ["a-b", "''", "'a b'", "'$HOME'", r#"'it'"'"'s'"#, "%t"]);
    }
}
