//! The guide's page about a day's work: its commands are run in one shell, and must print what the page shows, except
//! for ids, numbers and times. `UPDATE_DOCS=1 cargo test -p jobtap-tests --test a_day` writes the outputs again.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Stdio};

use jobtap_tests::terminal::Terminal;
use jobtap_tests::{Process, clean, jobtap, run, serve, temporary, workspace};

/// What the shell prints after the output of each command.
const END: &str = "--- end of the output, with exit code ";

/// The names that the page has in place of the real ones.
const USER: &str = "ada";
const HOME: &str = "/home/ada/day";

/// A command of the page, with its continuation lines, and what it prints.
#[derive(Debug, Default)]
struct Step {
    /// As the page shows it, each line with its prompt.
    shown: String,
    /// Without the prompts.
    command: String,
    output: String,
}

/// A part of the page.
#[derive(Debug)]
enum Part {
    Text(String),
    Session(Vec<Step>),
}

fn parts(page: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut steps: Option<Vec<Step>> = None;
    for line in page.lines() {
        match (&mut steps, line) {
            (None, _) => {
                match parts.last_mut() {
                    Some(Part::Text(text)) => writeln!(text, "{line}").unwrap(),
                    _ => parts.push(Part::Text(format!("{line}\n"))),
                }
                if line == "```console" {
                    steps = Some(Vec::new());
                }
            }
            (Some(_), "```") => {
                parts.push(Part::Session(steps.take().unwrap()));
                parts.push(Part::Text("```\n".to_owned()));
            }
            (Some(steps), line) => {
                if line.starts_with("$ ") {
                    steps.push(Step::default());
                }
                let Some(step) = steps.last_mut() else {
                    panic!("a session begins with a command, and not with {line:?}")
                };
                match line.strip_prefix("$ ").or_else(|| line.strip_prefix("> ")) {
                    Some(words) if step.output.is_empty() => {
                        writeln!(step.shown, "{line}").unwrap();
                        writeln!(step.command, "{words}").unwrap();
                    }
                    _ => writeln!(step.output, "{line}").unwrap(),
                }
            }
        }
    }
    assert!(steps.is_none(), "the last session has no end");
    parts
}

/// The shell in which the commands run.
struct Shell {
    _process: Process,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    directory: tempfile::TempDir,
    user: String,
}

impl Shell {
    fn start() -> Self {
        let directory = temporary();
        let mut command = clean(Path::new("bash"));
        let programs = jobtap().parent().unwrap().display();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{programs}:{path}"));
        // Job ids begin with `ƒ`, which distinguishes them from words.
        command.env_remove("FLUX_F58_FORCE_ASCII");
        command.args(["-c", "exec 2>&1; exec bash --noprofile --norc"]);
        command.current_dir(directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = serve(&mut command);
        let (stdin, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let user = run(std::process::Command::new("id").arg("-un")).ok();
        Self { _process: process, stdin, stdout: BufReader::new(stdout), directory, user }
    }

    /// Runs a command and returns what it prints.
    fn says(&mut self, command: &str) -> String {
        // The command must not read the shell's own input, which has the commands that follow.
        write!(self.stdin, "{{\n{command}}} </dev/null\necho \"{END}$?\"\n").unwrap();
        let mut output = String::new();
        loop {
            let mut line = String::new();
            let read = self.stdout.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "the shell has ended in {command}: {output}");
            if line.starts_with(END) {
                return self.neutral(&output);
            }
            output.push_str(&line);
        }
    }

    /// What `top` shows once the last job of its list is there; `None` if script(1) is missing.
    fn top(&mut self) -> Option<String> {
        let uri = self.says("echo $JOBTAP_URI\n").trim().to_owned();
        let uri = uri.replace(HOME, self.directory.path().to_str().unwrap());
        let mut terminal = Terminal::open_at(&uri, "$JOBTAP top", &[])?;
        let seen = terminal.until(|shown| shown.contains("large-2") && shown.contains("q quit"));
        terminal.press("q");
        terminal.end();
        Some(self.neutral(&seen))
    }

    /// The output without what is specific to this host and user.
    fn neutral(&self, output: &str) -> String {
        let output = output.replace(self.directory.path().to_str().unwrap(), HOME);
        let mut text = String::new();
        for line in output.lines() {
            text += with_name(line, &self.user).trim_end();
            text.push('\n');
        }
        text
    }
}

/// Replaces the user's name by the name on the page. Columns stay where they are.
fn with_name(line: &str, user: &str) -> String {
    let (mut text, mut rest) = (String::new(), line);
    while let Some((before, after)) = rest.split_once(user) {
        text += before;
        let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || "-_/.".contains(c));
        if inside(text.chars().last()) || inside(after.chars().next()) {
            text += user;
        } else {
            text += USER;
            if after.starts_with(' ') {
                text += &" ".repeat(user.len().saturating_sub(USER.len()));
            }
        }
        rest = after;
    }
    text + rest
}

/// The output without what differs from one run to the next: ids of jobs, numbers, times, and widths of columns.
fn lasting(output: &str) -> String {
    let mut text = String::new();
    for line in output.lines() {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '.').map(|word| {
            let time = word.starts_with(|c: char| c.is_ascii_digit()) || month(word);
            if word.starts_with('ƒ') {
                "ID"
            } else if time {
                "#"
            } else {
                word
            }
        });
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        writeln!(text, "{}", words.join(" ")).unwrap();
    }
    text
}

/// Whether a word is a date such as `Jan02`.
fn month(word: &str) -> bool {
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    const MONTHS: &str = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    name.len() == 3 && MONTHS.split(' ').any(|month| month == name)
}

#[test]
fn the_page_of_a_day_shows_what_its_commands_print() {
    let file = workspace().join("docs/src/a-day.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let mut shell = Shell::start();
    let (mut written, mut differences) = (String::new(), String::new());
    for part in parts(&page) {
        let steps = match part {
            Part::Text(text) => {
                written += &text;
                continue;
            }
            Part::Session(steps) => steps,
        };
        for Step { shown, command, output } in steps {
            let is_screen = command == "jobtap top\n";
            let printed = match is_screen {
                true => shell.top().unwrap_or_else(|| output.clone()),
                false => shell.says(&command),
            };
            // A screen is not compared: it has bars, and numbers that are not words of their own.
            if !is_screen && lasting(&printed) != lasting(&output) {
                let _ = writeln!(differences, "{shown}has printed\n{printed}instead of\n{output}");
            }
            written += &shown;
            written += &printed;
        }
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, written).unwrap();
        return;
    }
    assert!(
        differences.is_empty(),
        "{differences}`UPDATE_DOCS=1 cargo test -p jobtap-tests --test a_day` writes the outputs again; read the \
         difference before you commit it"
    );
}

#[test]
fn outputs_that_differ_in_more_than_numbers_are_told_apart() {
    let same = [
        ("ƒ2oLkTLb  ada  1.25s  Nov26", "ƒabcdefg ada 12s Jan02"),
        ("[Nov26 10:00] submit userid=0", "[Dec01 11:59] submit userid=1000"),
    ];
    for (one, other) in same {
        assert_eq!(lasting(one), lasting(other));
    }
    for (one, other) in [("a  RUN", "a PRIORITY"), ("failed", "failing"), ("one\n", "one\ntwo\n")] {
        assert_ne!(lasting(one), lasting(other));
    }
}

#[test]
fn the_name_of_the_user_is_replaced_as_a_word() {
    assert_eq!(with_name("root     R  x", "root"), "ada      R  x");
    assert_eq!(
        with_name("owner root, /root/x rooted \"root\"", "root"),
        "owner ada, /root/x rooted \"ada\""
    );
}
