//! `bulksubmit`: submits a job for each input, or for each combination of inputs.

mod array;
mod define;
#[cfg(feature = "fuzz")]
pub(in crate::cli) mod foreign;
mod inputs;
mod replace;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::process::ExitCode;

use serde_json::json;

use self::array::Source;
use self::inputs::Inputs;
use self::replace::{Fields, ReplaceError};
use super::common::array_end::wait_for_array;
use super::common::escapes::unescaped;
use super::common::ids::show_id;
use super::common::json::spaced_json;
use super::common::message::CliError;
use super::common::session;
use super::common::usage::Family;
use super::submit::args::{Copies, CopyArgs, SubmitArgs};
use super::submit::caller::Caller;
use super::submit::wait::Wait;
use super::submit::{Submission, list_plugins, submissions, submit_all};
use crate::client::Client;
use crate::files::input;
use crate::rpc::services::ingest::Submitted;

const COMMAND: &str = "bulksubmit";

/// Options and arguments of `bulksubmit`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Lists of inputs follow COMMAND: `::: A B ...`, or `:::: FILE ...` for the lines of files (- for\n\
standard input). A job is submitted for each combination of their inputs; lists after `:::+` and\n\
`::::+` add no jobs, but give each job their next input, from the first again at their end. Without a list, the\n\
lines of standard input are read. In COMMAND and in options, {} or {0} is replaced by the input from the first list,\n\
{1} by that from the second; {.%} removes its extension, {./} its directory, {./%} both, {.//} is\n\
its directory; {seq} and {seq1} number the jobs from 0 and 1.")]
pub(crate) struct BulkSubmitCommand {
    /// Submit the jobs in random order
    #[arg(long)]
    shuffle: bool,
    /// Separator of inputs in files; "none" for white space [default: newline]
    #[arg(long, value_name = "STR", default_value = "\n", hide_default_value = true)]
    sep: String,
    /// Replace {.NAME} by the value of a Python expression of the input x (repeatable, needs python3)
    #[arg(long, value_name = "NAME=CODE")]
    define: Vec<String>,
    /// Submit all jobs as one job array, whose elements become jobs when their turn comes. {} may be in COMMAND, and in
    /// --job-name, --input, --output, --error and --cwd
    #[arg(long)]
    array: bool,
    /// With --array: the maximum number of elements that are jobs at once
    #[arg(long, value_name = "N", requires = "array")]
    at_once: Option<NonZeroU32>,
    #[command(flatten)]
    job: SubmitArgs,
    #[command(flatten)]
    copies: CopyArgs,
}

impl From<ReplaceError> for CliError {
    fn from(error: ReplaceError) -> Self {
        Self::failure(error)
    }
}

/// Runs the command.
pub(crate) fn run(args: BulkSubmitCommand) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        if args.job.list_plugins {
            return list_plugins();
        }
        if args.array {
            return submit_array(&args).await;
        }
        let jobs = jobs(&args)?;
        if args.job.dry_run || args.job.verbose > 0 {
            let lines = jobs.iter().map(|(job, copies)| command_line(job.clone(), copies, &args));
            session::print(&lines.collect::<Result<String, CliError>>()?)?;
        }
        if args.job.dry_run {
            return Ok(0);
        }
        let caller = Caller::current()?;
        let requests: Result<Vec<Vec<Submission>>, CliError> =
            jobs.iter().map(|(job, copies)| submissions(job, copies, &caller)).collect();
        let requests = requests?.into_iter().flatten().collect();
        let wait = Wait::from_args(args.job.verbose, args.job.label_io, &args.copies);
        let progress = (COMMAND, &args.copies.progress);
        submit_all(args.job.quiet, wait, requests, progress).await
    })
}

/// Submits all jobs as one array, prints its id, and waits for it if the options say so.
async fn submit_array(args: &BulkSubmitCommand) -> Result<u8, CliError> {
    let copies = &args.copies;
    let other = [
        ("--cc", copies.cc.is_some()),
        ("--bcc", copies.bcc.is_some()),
        ("--watch", copies.watch),
        ("--wait-event", copies.wait_event.is_some()),
        ("--log", copies.log.is_some()),
        ("--log-stderr", copies.log_stderr.is_some()),
    ];
    if let Some((option, _)) = other.iter().find(|(_, given)| *given) {
        return Err(CliError::failure(format!("{option} can't be used with --array")));
    }
    let caller = Caller::current()?;
    let inputs = inputs(args, &caller)?;
    let defined = define::all(&args.define, inputs.values())?;
    let order = args.shuffle.then(|| shuffled(inputs.count()));
    let source = Source { inputs: &inputs, defined: &defined, order: order.as_deref() };
    let request = array::request(&args.job, args.at_once, &source, &caller)?;
    if args.job.dry_run {
        let shown = json!({"jobspec": request.submit.jobspec, "elements": request.elements});
        session::print(&format!("{}\n", spaced_json(&shown)))?;
        return Ok(0);
    }
    let count = request.elements.len() as u64;
    let client = Client::connect().await?;
    let Submitted { id, messages } = client.call(request).await?;
    session::print_plugin_messages(COMMAND, &messages);
    if !args.job.quiet {
        session::print(&format!("{}\n", show_id(id)))?;
    }
    match copies.wait {
        true => wait_for_array(&client, id, count).await,
        false => Ok(0),
    }
}

/// A random order of so many jobs.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    // Each `RandomState` has different random keys, so that the hash of a constant is a random number.
    order.sort_by_cached_key(|_| RandomState::new().hash_one(0));
    order
}

fn inputs(args: &BulkSubmitCommand, caller: &Caller) -> Result<Inputs, CliError> {
    if args.sep.is_empty() {
        return Err(CliError::failure("empty separator"));
    }
    let inputs = Inputs::parse(&args.job.command, &unescaped(&args.sep), |name| match name {
        "-" => input::stdin_text(),
        name => input::text(caller.file(name)),
    })?;
    Ok(inputs)
}

/// The options of each job, with the fields in braces replaced.
fn jobs(args: &BulkSubmitCommand) -> Result<Vec<(SubmitArgs, CopyArgs)>, CliError> {
    let caller = Caller::current()?;
    let inputs = inputs(args, &caller)?;
    let defined = define::all(&args.define, inputs.values())?;
    let mut template = args.job.clone();
    template.command.clone_from(&inputs.command);
    let mut jobs = Vec::new();
    for seq in 0..inputs.count() {
        let fields = Fields { inputs: &inputs.combination(seq), seq, defined: &defined };
        jobs.push((filled(&template, &fields)?, copies(&args.copies, &fields)?));
    }
    if jobs.is_empty() {
        return Err(CliError::failure("no jobs provided for bulk submission"));
    }
    if args.shuffle {
        jobs.sort_by_cached_key(|_| RandomState::new().hash_one(0));
    }
    Ok(jobs)
}

fn filled(template: &SubmitArgs, fields: &Fields<'_>) -> Result<SubmitArgs, ReplaceError> {
    let mut job = template.clone();
    let texts = job.texts();
    for (option, text) in texts.single {
        let is_shape = option == "--shape=";
        *text = if is_shape { fields.fill_shape(text)? } else { fields.fill(text)? };
    }
    for (_, list) in texts.lists {
        *list = fields.fill_list(list)?;
    }
    Ok(job)
}

fn copies(template: &CopyArgs, fields: &Fields<'_>) -> Result<CopyArgs, ReplaceError> {
    let fill = |text: &Option<String>| text.as_ref().map(|text| fields.fill(text)).transpose();
    let (log, log_stderr) = (fill(&template.log)?, fill(&template.log_stderr)?);
    let (cc, bcc) = (fill(&template.cc)?, fill(&template.bcc)?);
    let wait_event = fill(&template.wait_event)?;
    Ok(CopyArgs { cc, bcc, log, log_stderr, wait_event, ..template.clone() })
}

/// The order of options in the line about a job, as Flux has it. Others come after these.
const ORDER: &[&str] = &[
    "-q",
    "-B",
    "-n",
    "-N",
    "-c",
    "-g",
    "-t",
    "--env=",
    "--urgency=",
    "-o",
    "-S",
    "--job-name=",
    "--input=",
    "--output=",
    "--error=",
    "--output-pack=",
    "--cc=",
    "--log=",
    "--log-stderr=",
    "--wait-event=",
    "--dependency=",
    "--taskmap=",
    "--requires=",
    "--cwd=",
    "--flags=",
    "--signal=",
];

/// The line about a job: its command, and the options in which it differs from the other jobs. Words aren't
/// quoted, since the line is for people.
fn command_line(
    mut job: SubmitArgs,
    copies: &CopyArgs,
    args: &BulkSubmitCommand,
) -> Result<String, CliError> {
    let mut options: Vec<(&str, String)> = Vec::new();
    // As in Flux, not `--bcc`.
    let cc = copies.copies()?.filter(|(kind, _)| matches!(kind, Copies::Cc));
    options.extend(cc.map(|(kind, ids)| (kind.option(), ids.to_string())));
    let mut template = args.job.clone();
    let (texts, given) = (job.texts(), template.texts());
    let single = texts.single.into_iter().zip(given.single);
    let filled = single.filter(|((_, text), (_, given))| text != given);
    options.extend(filled.map(|((option, text), _)| (option, text.clone())));
    for (option, name, given) in [
        ("--log=", &copies.log, &args.copies.log),
        ("--log-stderr=", &copies.log_stderr, &args.copies.log_stderr),
        ("--wait-event=", &copies.wait_event, &args.copies.wait_event),
    ] {
        options.extend(name.iter().filter(|_| name != given).map(|name| (option, name.clone())));
    }
    let mut command = Vec::new();
    for ((option, list), (_, given)) in texts.lists.into_iter().zip(given.lists) {
        // The command is the list without an option.
        if option.is_empty() {
            command.clone_from(list);
        } else if list != given {
            options.extend(list.iter().map(|text| (option, text.clone())));
        }
    }
    options.sort_by_key(|(option, _)| {
        ORDER.iter().position(|known| known == option).unwrap_or(ORDER.len())
    });
    let mut words = vec![format!("{COMMAND}: submit")];
    words.extend(options.iter().map(|(option, text)| format!("{option}{text}")));
    words.append(&mut command);
    Ok(format!("{}\n", words.join(" ")))
}
