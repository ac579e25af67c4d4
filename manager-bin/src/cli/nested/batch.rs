//! `batch`: submits a script as the initial program of a manager that runs as a job.

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use serde_json::{Value, json};

use super::args::NestedArgs;
use super::directives::{Directive, directives};
use crate::cli::common::ids::show_id;
use crate::cli::common::message::{CliError, system_text};
use crate::cli::common::session;
use crate::cli::common::usage::{self, Family};
use crate::cli::submit::caller::Caller;
use crate::cli::submit::{list_plugins, print_jobspec};
use crate::client::Client;
use crate::files::input;
use crate::rpc::services::ingest::Submitted;

const COMMAND: &str = "batch";

/// The name of a script from standard input, and of its job.
const STDIN: &str = "batch";

/// The file of the job with the script.
const SCRIPT: &str = "script";

/// The mode of a regular file that only its owner may read, write and execute.
const EXECUTABLE: u32 = 0o100_700;

/// The file for the output, unless an option names another one.
const OUTPUT: &str = "flux-{{id}}.out";

/// Options and arguments of `batch`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    mut_arg("command", |arg| arg.value_name("SCRIPT")
        .help("Batch script with its arguments [default: standard input]")),
    after_help = "Options may also be in the script, in lines such as `#flux: -n4 -t 5m` (RFC 36). \
                  Those of the command line override them.",
)]
pub(in crate::cli) struct BatchCommand {
    #[command(flatten)]
    nested: NestedArgs,
    /// Make a script of the arguments, or of standard input: #!/bin/sh and the text
    #[arg(long)]
    wrap: bool,
}

/// The options of directives and the command line together.
#[derive(Debug, Parser)]
#[command(name = COMMAND)]
struct Line {
    #[command(flatten)]
    batch: BatchCommand,
}

/// Runs the command.
pub(in crate::cli) fn run(args: BatchCommand) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        if args.nested.job.list_plugins {
            return list_plugins();
        }
        // The words after the program and the command.
        let words: Vec<String> =
            std::env::args_os().skip(2).map(|word| word.to_string_lossy().into_owned()).collect();
        let caller = Caller::current()?;
        let (name, text) = read(&args, &caller)?;
        let args = with_directives(args, &name, &text, &words)?;
        submit(args, &name, text, &caller).await
    })
}

/// The name and the text of the script.
fn read(args: &BatchCommand, caller: &Caller) -> Result<(String, String), CliError> {
    let words = &args.nested.job.command;
    let (name, data) = match words.first() {
        Some(first) if args.wrap => (first.clone(), words.join(" ").into_bytes()),
        Some(file) => {
            let data = input::bytes(caller.file(file))
                .map_err(|error| CliError::failure(format!("{}: '{file}'", system_text(&error))))?;
            (file.clone(), data)
        }
        None => {
            let data = input::stdin_up_to(input::LARGEST)?;
            (STDIN.to_owned(), data)
        }
    };
    let text = String::from_utf8(data).map_err(|_| {
        CliError::failure(format!(
            "{name} does not appear to be a script, or failed to encode as utf-8"
        ))
    })?;
    Ok((name, if args.wrap { wrapped(&text) } else { text }))
}

fn wrapped(text: &str) -> String {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("#!/bin/sh\n{text}{end}")
}

/// The options of the script's directives and of the command line (`words`), which override them.
fn with_directives(
    args: BatchCommand,
    name: &str,
    text: &str,
    words: &[String],
) -> Result<BatchCommand, CliError> {
    let found = directives(name, text).map_err(CliError::failure)?;
    if found.is_empty() {
        return Ok(args);
    }
    for Directive { line, words } in &found {
        let refused = |text: String| {
            CliError::usage(format!("argument parsing failed at {name} line {line}\n{text}"))
        };
        let parsed = parse(words).map_err(|report| refused(report.text))?;
        if let Some(word) = parsed.nested.job.command.first() {
            return Err(refused(format!("Unknown directive: {word}")));
        }
    }
    let wrap = args.wrap;
    let all = found.into_iter().flat_map(|directive| directive.words);
    let all: Vec<String> = all.chain(words.iter().cloned()).collect();
    // Whether the script is wrapped was decided when it was read.
    let all = parse(&all).map_err(|report| CliError::usage(report.text))?;
    Ok(BatchCommand { wrap, ..all })
}

/// Parses options. The report, whose text ends without a newline, contains the usage and the reason.
fn parse(words: &[String]) -> Result<BatchCommand, usage::Report> {
    let program = usage::program_name(std::env::args_os().next().as_deref());
    let mut command = Line::command().bin_name(format!("{program} {COMMAND}"));
    let line = [COMMAND.to_owned()].into_iter().chain(words.iter().cloned());
    Line::try_parse_from(line).map(|line| line.batch).map_err(|error| {
        let usage = command.render_usage().to_string();
        let usage = usage.trim_start_matches("Usage:").trim().to_owned();
        let path = vec![COMMAND.to_owned()];
        let last_word = String::new();
        let place = usage::Place { program, path, usage, last_word, left_out: None };
        let report = usage::describe(&error, &place, Family::Script);
        usage::Report { text: report.text.trim_end().to_owned(), ..report }
    })
}

async fn submit(
    mut args: BatchCommand,
    name: &str,
    text: String,
    caller: &Caller,
) -> Result<u8, CliError> {
    args.nested.check()?;
    if !text.starts_with("#!") {
        return Err(CliError::failure(format!("{name} does not appear to start with '#!'")));
    }
    let job = &mut args.nested.job;
    let file = Path::new(name).file_name().map(|file| file.to_string_lossy().into_owned());
    job.job_name.get_or_insert_with(|| file.unwrap_or_else(|| STDIN.to_owned()));
    if !job.setopt.iter().any(|option| option.starts_with("output.stdout.")) {
        job.output.get_or_insert_with(|| OUTPUT.to_owned());
    }
    let mut command = vec![format!("{{{{tmpdir}}}}/{SCRIPT}")];
    command.extend(job.command.iter().skip(1).cloned());
    let script = json!({ "mode": EXECUTABLE, "data": Value::String(text), "encoding": "utf-8" });
    let (dry_run, quiet) = (job.dry_run, job.quiet);
    let submission = args.nested.submission(&command, vec![(SCRIPT, script)], caller)?;
    if dry_run {
        print_jobspec(&submission.request)?;
        return Ok(0);
    }
    let client = Client::connect().await?;
    let Submitted { id, messages } =
        session::print_refusal_messages(COMMAND, client.call(submission.request).await)?;
    session::print_plugin_messages(COMMAND, &messages);
    if !quiet {
        session::print(&format!("{}\n", show_id(id)))?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn read_with(script: &str, line: &str) -> Result<BatchCommand, CliError> {
        let line = words(line);
        with_directives(parse(&line).unwrap(), "job.sh", script, &line)
    }

    #[test]
    fn the_command_line_overrides_and_adds_to_directives() {
        let script = "#!/bin/sh\n#flux: -n2 -t 5m --env=A=1\n#flux: -n3 --conf=a.b=1 --dump\n";
        let read = read_with(script, "-t1 --env=B=2 job.sh -n9").unwrap();
        let job = &read.nested.job;
        assert_eq!((job.ntasks.as_deref(), job.time_limit.as_deref()), (Some("3"), Some("1")));
        assert_eq!(job.env.0, words("A=1 B=2"));
        assert_eq!(job.command, words("job.sh -n9"));
        assert_eq!(read.nested.dump.as_deref(), Some(super::super::args::DUMP));
        assert_eq!(read.nested.conf, ["a.b=1"]);
    }

    #[test]
    fn a_wrong_directive_is_refused_by_its_line() {
        let script = "#!/bin/sh\n#flux: -n1\n#flux: --foo\n";
        let refused = read_with(script, "job.sh").unwrap_err();
        let lines: Vec<&str> = refused.text.lines().collect();
        assert_eq!((lines[0], refused.code), ("argument parsing failed at job.sh line 3", 2));
        assert!(lines[1].starts_with("usage: "), "{refused}");
        assert!(
            lines[lines.len() - 1].ends_with("-batch: error: unrecognized arguments: --foo"),
            "{refused}"
        );
        let refused = read_with("#!/bin/sh\n#flux: -n x\n", "job.sh").unwrap_err();
        let text = "-batch: error: argument --nslots: invalid int value: 'x'";
        assert!(refused.text.ends_with(text), "{refused}");
        let refused = read_with("#!/bin/sh\n#flux: -n1 foo\n", "job.sh").unwrap_err();
        assert!(refused.text.ends_with("line 2\nUnknown directive: foo"), "{refused}");
    }

    #[test]
    fn slots_have_to_be_given_and_options_for_tasks_are_refused() {
        let refusal =
            |line: &str| parse(&words(line)).unwrap().nested.check().err().map(|e| e.text);
        assert_eq!(refusal("-n2 -c2 -g1 x"), None);
        assert_eq!(refusal("-N2 x"), None);
        assert_eq!(refusal("--resources-shape=node=2 x"), None);
        for line in ["x", "-n0 x"] {
            assert_eq!(refusal(line).unwrap(), "Number of slots to allocate must be specified");
        }
        let refused = parse(&words("-n1 --cores=4 x")).unwrap_err().text;
        assert!(refused.ends_with("-batch: error: unrecognized arguments: --cores"), "{refused}");
        assert!(parse(&words("--nslots=1 --cores-per-slot=2 x")).is_ok());
        assert!(parse(&words("--ntasks=1 x")).is_err());
    }

    #[test]
    fn a_wrapped_command_is_a_script() {
        assert_eq!(wrapped("echo a b"), "#!/bin/sh\necho a b\n");
        assert_eq!(wrapped("hostname\n"), "#!/bin/sh\nhostname\n");
    }
}
