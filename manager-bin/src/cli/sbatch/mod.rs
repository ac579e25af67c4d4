//! `sbatch`, and `srun` with the same options: submits a batch script with the options of Slurm's command of this name,
//! through Slurm's description of a request.
//!
//! Options come from the script, the environment and the command line, in this order; the last one counts. They are
//! turned into a [`JobDescriptor`](jobtap_core::slurm::JobDescriptor), and that into the jobspec. A job array is one
//! job for each index.

pub(in crate::cli) mod begin;
mod describe;
mod environment;
mod error;
mod options;
mod script;
pub(in crate::cli) mod srun;

use std::fs::File;
use std::mem;
use std::process::ExitCode;

use jobtap_core::job::{JobId, Urgency};
use jobtap_core::jobspec::{Jobspec, JobspecError, path};
use jobtap_core::slurm::JobDescriptor;
use serde_json::Value;

use self::describe::Request;
use self::error::Place;
use crate::cli::common::arrays;
use crate::cli::common::indexes::Indexes;
use crate::cli::common::message::{CliError, system_text};
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::instance::version;
use crate::cli::submit::args::CopyArgs;
use crate::cli::submit::caller::Caller;
use crate::cli::submit::log::Sinks;
use crate::cli::submit::rlimit;
use crate::cli::submit::wait::{Wait, wait_for};
use crate::client::{Client, RpcError};
use crate::rpc::services::ingest::{Submit, Submitted};
use crate::users::Users;

const COMMAND: &str = "sbatch";

/// The name of a script from standard input, and of its job.
const STDIN: &str = "sbatch";

/// The words after `sbatch`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct SbatchCommand {
    /// Options of Slurm's sbatch, the script and its arguments; see --help
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "OPTIONS, SCRIPT, ARGS"
    )]
    words: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: SbatchCommand) -> ExitCode {
    session::run(COMMAND, Family::Slurm, async {
        let caller = Caller::current()?;
        let mut request = match request(&args.words, &caller)? {
            Asked::Job(request) => *request,
            Asked::Help => {
                session::print(&options::help(&program()))?;
                return Ok(0);
            }
            Asked::Version => {
                session::print(&read_version())?;
                return Ok(0);
            }
        };
        for warning in request.warnings.iter().filter(|_| !request.quiet) {
            say(warning);
        }
        let single = match request.desc.dependency.as_deref().filter(|text| has_index(text)) {
            Some(text) => {
                let client = Client::connect().await?;
                let (text, single) = arrays::without_indexes(text, &client).await?;
                request.desc.dependency = Some(text);
                single
            }
            None => Vec::new(),
        };
        if request.test_only {
            if let Some(jobspec) = first_jobspec(&request, &caller)? {
                session::print(&format!("{jobspec}\n"))?;
            }
            return Ok(0);
        }
        submit(&request, &caller, &single).await
    })
}

/// Whether a text of dependencies names jobs of arrays by their indexes.
fn has_index(dependencies: &str) -> bool {
    dependencies.split([',', '?', ':', '+']).any(arrays::is_indexed)
}

/// Prints a line as Slurm's command does, whatever this program is called: `sbatch: LINE` on standard error.
fn say(line: &str) {
    session::print_message(&format!("{COMMAND}: {line}"));
}

/// The lines of the messages that plugins have for the user.
fn lines(messages: &[String]) -> impl Iterator<Item = &str> {
    messages.iter().flat_map(|message| message.lines())
}

pub(in crate::cli) fn read_version() -> String {
    format!("{} {}\n", version::name(), version::short())
}

fn program() -> String {
    crate::cli::common::usage::program_name(std::env::args_os().next().as_deref())
}

/// What the words ask for.
enum Asked {
    Help,
    Version,
    Job(Box<Request>),
}

/// The request that the words describe, with its script.
fn request(words: &[String], caller: &Caller) -> Result<Asked, CliError> {
    let (line, arguments) = options::parse(words, &Place::CommandLine).map_err(CliError::usage)?;
    if line.iter().any(|setting| matches!(setting.name, "help" | "usage")) {
        return Ok(Asked::Help);
    }
    if line.iter().any(|setting| setting.name == "version") {
        return Ok(Asked::Version);
    }
    let wrapped = line.iter().rev().find(|setting| setting.name == "wrap");
    let (name, script) = match (wrapped, arguments.first()) {
        (Some(_), Some(script)) => {
            return Err(CliError::usage(format!("--wrap can't be used with a script: {script}")));
        }
        (Some(wrapped), None) => ("wrap".to_owned(), script::wrap(&wrapped.value)),
        (None, Some(file)) => (file.clone(), read(file, caller)?),
        (None, None) => (STDIN.to_owned(), read_stdin()?),
    };
    let mut settings = script::settings(&name, &script).map_err(CliError::failure)?;
    if let Some(wrap) = settings.iter().find(|setting| setting.name == "wrap") {
        return Err(CliError::failure(format!("{}: a script can't be wrapped", wrap.origin)));
    }
    let variable = |name: &str| caller.env.get(name).map(String::as_str);
    settings.extend(options::from_environment(variable));
    settings.extend(line);
    let mut request = Request::from_settings(&settings, caller).map_err(CliError::failure)?;
    let desc = &mut request.desc;
    let base = name.rsplit('/').next().unwrap_or(&name);
    desc.name.get_or_insert_with(|| base.to_owned());
    // As in Slurm: the whole path of the script, and nothing for a script that is not a file.
    desc.argv = arguments.to_vec();
    if let Some(path) = desc.argv.first_mut().filter(|path| !path.contains('/')) {
        *path = caller.cwd.join(&*path).to_string_lossy().into_owned();
    }
    desc.script = Some(script);
    desc.work_dir.get_or_insert_with(|| caller.cwd.to_string_lossy().into_owned());
    desc.std_in.get_or_insert_with(|| "/dev/null".to_owned());
    let directory = desc.work_dir.clone().unwrap_or_default();
    for file in [&mut desc.std_in, &mut desc.std_out, &mut desc.std_err].into_iter().flatten() {
        if !file.starts_with('/') {
            *file = format!("{directory}/{file}");
        }
    }
    // By the system, as in Slurm: the environment may name another user, or none.
    desc.user_name = Some(Users::system().name(rustix::process::getuid().as_raw()));
    request.desc.environment = environment::build(&request, caller).map_err(CliError::failure)?;
    Ok(Asked::Job(Box::new(request)))
}

/// The description that these words make for the current user. If they name no script, the script does nothing. For
/// `slurm try`.
#[cfg(feature = "builtins")]
pub(super) fn described(words: &[String]) -> Result<JobDescriptor, CliError> {
    let (line, arguments) = options::parse(words, &Place::CommandLine).map_err(CliError::usage)?;
    let mut words = words.to_vec();
    if arguments.is_empty() && line.iter().all(|setting| setting.name != "wrap") {
        words.insert(0, "--wrap=true".to_owned());
    }
    match request(&words, &Caller::current()?)? {
        Asked::Job(request) => Ok(request.desc),
        Asked::Help | Asked::Version => Err(CliError::usage("these options ask for help")),
    }
}

fn read(file: &str, caller: &Caller) -> Result<String, CliError> {
    let opened = File::open(caller.cwd.join(file)).and_then(script::bytes);
    let data =
        opened.map_err(|error| CliError::failure(format!("{file}: {}", system_text(&error))))?;
    script::check(file, data).map_err(CliError::failure)
}

fn read_stdin() -> Result<String, CliError> {
    let data = script::bytes(std::io::stdin().lock())?;
    script::check("standard input", data).map_err(CliError::failure)
}

/// The jobspec of a job, or of a job of an array. If the description names no file for the output, the jobspec has
/// Slurm's default, which plugins and scripts do not see, as in Slurm.
fn jobspec(
    desc: &JobDescriptor,
    caller: &Caller,
    (part, rlimits): (Option<&Part<'_>>, &[String]),
    templates: Value,
) -> Result<Value, CliError> {
    let mut jobspec = desc.to_jobspec().map_err(CliError::failure)?;
    let mut option = |name: &str, value: Value| {
        let place = format!("attributes.system.shell.options.{name}");
        path::set(&mut jobspec, &place, value).map_err(CliError::failure)
    };
    if desc.std_out.is_none() {
        let file =
            part.map_or_else(|| "slurm-%A.out".to_owned(), |p| of_part("slurm-%A_%a.out", p));
        option("output.stdout.type", "file".into())?;
        option("output.stdout.path", file.replace("%A", "{{id.dec}}").into())?;
    }
    option("env-expand", templates)?;
    let limits = rlimit::apply(rlimits, &caller.rlimits)?;
    if !limits.is_empty() {
        option("rlimit", rlimit::to_value(&limits))?;
    }
    Ok(jobspec)
}

/// The jobspec of the job, or of the first job of an array, after its validation.
fn first_jobspec(request: &Request, caller: &Caller) -> Result<Option<Value>, CliError> {
    let part = match &request.array {
        Some(indexes) => {
            indexes.all.first().map(|index| Part { indexes, index: *index, array: None })
        }
        None => None,
    };
    let submission = submission(request, caller, part.as_ref(), &[])?;
    let jobspec = submission.jobspec.and_then(|mut jobspec| jobspec.made().map(mem::take));
    let valid = jobspec.clone().map(Jobspec::from_value).transpose();
    valid.map_err(CliError::failure)?;
    Ok(jobspec)
}

/// A job of an array.
struct Part<'a> {
    indexes: &'a Indexes,
    index: u32,
    /// The id of the array, which is that of its first job; `None` for that job itself.
    array: Option<JobId>,
}

impl Part<'_> {
    /// The numbers of the job in its array: for each the variable of the script, and the key in
    /// `attributes.system.slurm`.
    fn numbers(&self) -> [(&'static str, &'static str, u32); 5] {
        let all = &self.indexes.all;
        let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let (least, most) = (all.first().copied(), all.last().copied());
        [
            ("SLURM_ARRAY_TASK_ID", "array_task_id", self.index),
            ("SLURM_ARRAY_TASK_COUNT", "array_task_cnt", count),
            ("SLURM_ARRAY_TASK_MIN", "array_task_min", least.unwrap_or_default()),
            ("SLURM_ARRAY_TASK_MAX", "array_task_max", most.unwrap_or_default()),
            ("SLURM_ARRAY_TASK_STEP", "array_task_step", self.indexes.step()),
        ]
    }
}

/// The submission of a job, with the dependencies `more` added.
fn submission(
    request: &Request,
    caller: &Caller,
    part: Option<&Part<'_>>,
    more: &[Value],
) -> Result<Submit, CliError> {
    let mut desc = request.desc.clone();
    let mut templates = Vec::new();
    if let Some(part) = part {
        for (name, _, number) in part.numbers() {
            desc.environment.set(name, number.to_string());
        }
        match part.array {
            Some(array) => desc.environment.set("SLURM_ARRAY_JOB_ID", array.as_u64().to_string()),
            None => templates.push(("SLURM_ARRAY_JOB_ID", "{{id.dec}}")),
        }
        for path in [&mut desc.std_in, &mut desc.std_out, &mut desc.std_err].into_iter().flatten() {
            *path = of_part(path, part);
        }
    }
    let templates = environment::templates(&templates);
    let mut jobspec = jobspec(&desc, caller, (part, &request.rlimits), templates)?;
    if let Some(part) = part {
        // For prologs and plugins, which don't see the environment.
        let numbers = part.numbers().map(|(_, key, number)| (key, u64::from(number)));
        let array = part.array.map(|array| ("array_job_id", array.as_u64()));
        for (key, number) in numbers.into_iter().chain(array) {
            path::set(&mut jobspec, &format!("attributes.system.slurm.{key}"), number.into())
                .map_err(CliError::failure)?;
        }
    }
    if !more.is_empty() {
        depend(&mut jobspec, more).map_err(CliError::failure)?;
    }
    Ok(Submit {
        jobspec: Some(jobspec.into()),
        signed: None,
        urgency: Some(desc.urgency().unwrap_or(Urgency::DEFAULT).value().into()),
        flags: None,
    })
}

/// The dependencies of a jobspec.
const DEPENDENCIES: &str = "attributes.system.dependencies";

fn dependencies(jobspec: &Value) -> Vec<Value> {
    path::get(jobspec, DEPENDENCIES).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Adds dependencies to the jobspec. Slurm's text of the existing ones is either a list or alternatives, so it can't
/// always be extended.
fn depend(jobspec: &mut Value, more: &[Value]) -> Result<(), JobspecError> {
    let mut all = dependencies(jobspec);
    all.extend_from_slice(more);
    path::set(jobspec, DEPENDENCIES, all.into())
}

/// Replaces the patterns of arrays in the name of a file: `%a` by the index, padded to the width of `%4a`, `%b` by the
/// last digit of the index, and `%A` by the id of the array.
fn of_part(name: &str, part: &Part<'_>) -> String {
    let mut text = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let letter = after.trim_start_matches(|c: char| c.is_ascii_digit());
        let (width, _) = after.split_at_checked(after.len() - letter.len()).unwrap_or_default();
        let width = width.parse::<usize>().unwrap_or(0).min(10);
        let number = match (letter.chars().next(), part.array) {
            (Some('a'), _) => Some(u64::from(part.index)),
            (Some('b'), _) => Some(u64::from(part.index % 10)),
            (Some('A'), Some(array)) => Some(array.as_u64()),
            _ => None,
        };
        match number {
            Some(number) => {
                text.push_str(&format!("{number:0width$}"));
                rest = letter.get(1..).unwrap_or_default();
            }
            // `%%` is not a pattern, whatever follows it.
            None if after.starts_with('%') => {
                text.push_str("%%");
                rest = after.get(1..).unwrap_or_default();
            }
            None => {
                text.push('%');
                rest = after;
            }
        }
    }
    text + rest
}

/// Submits the job, or the jobs of an array, and prints the id of the first.
async fn submit(request: &Request, caller: &Caller, single: &[JobId]) -> Result<u8, CliError> {
    let client = Client::connect().await?;
    let asked = dependencies(&request.desc.to_jobspec().map_err(CliError::failure)?);
    let more = arrays::others(&client, &asked, single).await;
    let ids = match &request.array {
        None => {
            let (id, messages) = send(&client, submission(request, caller, None, &more)?).await?;
            lines(&messages).for_each(say);
            vec![id]
        }
        Some(indexes) => submit_array(&client, request, caller, (indexes, more)).await?,
    };
    let Some(first) = ids.first() else { return Ok(1) };
    if request.verbose {
        show_kept(request)?;
    }
    let number = first.as_u64();
    session::print(&match request.parsable {
        true => format!("{number}\n"),
        false => format!("Submitted batch job {number}\n"),
    })?;
    if !request.wait {
        return Ok(0);
    }
    let copies = CopyArgs { wait: true, ..CopyArgs::default() };
    let mut highest = 0;
    for id in ids {
        if let Some(wait) = Wait::from_args(0, false, &copies) {
            highest = highest.max(wait_for(client.clone(), id, wait, Sinks::default()).await?);
        }
    }
    Ok(highest)
}

/// Submits a job. Returns its id, and the messages that plugins have for the user.
async fn send(client: &Client, submission: Submit) -> Result<(JobId, Vec<String>), RpcError> {
    let response = client.call(submission).await.map_err(|error| RpcError {
        text: format!("Batch job submission failed: {}", error.text),
        ..error
    });
    match response {
        Ok(Submitted { id, messages }) => Ok((id, messages)),
        Err(refusal) => {
            lines(&refusal.messages).for_each(|line| say(&format!("error: {line}")));
            Err(refusal)
        }
    }
}

/// Submits the jobs of an array in the order of their indexes.
async fn submit_array(
    client: &Client,
    request: &Request,
    caller: &Caller,
    (indexes, more): (&Indexes, Vec<Value>),
) -> Result<Vec<JobId>, CliError> {
    let mut ids: Vec<JobId> = Vec::new();
    let mut said: Option<Vec<String>> = None;
    for (number, index) in indexes.all.iter().enumerate() {
        let part = Part { indexes, index: *index, array: ids.first().copied() };
        // If N jobs may run at once, each waits for the job that is N before it.
        let before = indexes.at_once.and_then(|most| number.checked_sub(most));
        let after = before.and_then(|before| ids.get(before));
        let after = after.map(|id| arrays::additional("afterany", &id.as_u64().to_string()));
        let more: Vec<Value> = more.iter().cloned().chain(after).collect();
        match send(client, submission(request, caller, Some(&part), &more)?).await {
            Ok((id, messages)) => {
                // Plugins see each job of an array, and mostly have the same messages for all.
                if said.replace(messages.clone()).as_ref() != Some(&messages) {
                    lines(&messages).for_each(say);
                }
                ids.push(id);
            }
            Err(error) if ids.is_empty() => return Err(error.into()),
            Err(error) => {
                let done = ids.len();
                let text =
                    format!("index {index}: {error}; {done} jobs of the array were submitted");
                return Err(CliError::failure(text));
            }
        }
    }
    Ok(ids)
}

/// Prints the fields that no part of the manager acts on.
fn show_kept(request: &Request) -> Result<(), CliError> {
    let jobspec = request.desc.to_jobspec().map_err(CliError::failure)?;
    let kept = path::get(&jobspec, "attributes.system.slurm").and_then(Value::as_object);
    // These two say how the request was made, not what it asks for.
    let asked = |(name, _): &(&String, &Value)| !matches!(name.as_str(), "argv" | "bitflags");
    for (name, value) in kept.into_iter().flatten().filter(asked) {
        let text = format!("{name} is {value}: kept with the job, for plugins");
        say(&text);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
