//! `sbatch`, and `srun` with the same options: submits a batch script with the options of Slurm's command of this name,
//! through Slurm's description of a request.
//!
//! Options come from the script, the environment and the command line, in this order; the last one counts. They are
//! turned into a [`JobDescriptor`](jobtap_core::slurm::JobDescriptor), and that into the jobspec.

pub(in crate::cli) mod begin;
mod describe;
mod environment;
mod error;
#[cfg(feature = "fuzz")]
pub(in crate::cli) mod foreign;
mod options;
mod script;
pub(in crate::cli) mod srun;

use std::fs::File;
use std::mem;
use std::process::ExitCode;

use jobtap_core::array::Elements;
use jobtap_core::job::{JobId, Urgency};
use jobtap_core::jobspec::{Jobspec, path};
use jobtap_core::slurm::JobDescriptor;
use serde_json::Value;

use self::describe::Request;
use self::error::Place;
use crate::cli::common::array_end::wait_for_array;
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
use crate::rpc::service::Service;
use crate::rpc::services::ingest::{Submit, SubmitArray, Submitted};
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
        if let Some(text) = request.desc.dependency.as_deref().filter(|text| has_index(text)) {
            let client = Client::connect().await?;
            request.desc.dependency = Some(arrays::without_indexes(text, &client).await?);
        }
        if request.test_only {
            if let Some(jobspec) = valid_jobspec(&request, &caller)? {
                session::print(&format!("{jobspec}\n"))?;
            }
            return Ok(0);
        }
        submit(&request, &caller).await
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

/// The jobspec of a job, or of all elements of an array. If the description names no file for the output, the jobspec has
/// Slurm's default, which plugins and scripts do not see, as in Slurm.
fn jobspec(
    desc: &JobDescriptor,
    caller: &Caller,
    rlimits: &[String],
    templates: Value,
) -> Result<Value, CliError> {
    let mut jobspec = desc.to_jobspec().map_err(CliError::failure)?;
    let mut option = |name: &str, value: Value| {
        let place = format!("attributes.system.shell.options.{name}");
        path::set(&mut jobspec, &place, value).map_err(CliError::failure)
    };
    if desc.std_out.is_none() {
        let file = match desc.array_inx {
            None => "slurm-{{id.dec}}.out",
            Some(_) => "slurm-{{array.id.dec}}_{{array.index}}.out",
        };
        option("output.stdout.type", "file".into())?;
        option("output.stdout.path", file.into())?;
    }
    option("env-expand", templates)?;
    let limits = rlimit::apply(rlimits, &caller.rlimits)?;
    if !limits.is_empty() {
        option("rlimit", rlimit::to_value(&limits))?;
    }
    Ok(jobspec)
}

/// The jobspec of the job, or of the elements of an array, after its validation.
fn valid_jobspec(request: &Request, caller: &Caller) -> Result<Option<Value>, CliError> {
    let submission = submission(request, caller)?;
    let jobspec = submission.jobspec.and_then(|mut jobspec| jobspec.made().map(mem::take));
    let valid = jobspec.clone().map(Jobspec::from_value).transpose();
    valid.map_err(CliError::failure)?;
    Ok(jobspec)
}

/// The variables of an array's scripts whose values are known when an element starts.
const OF_ELEMENT: [(&str, &str); 2] =
    [("SLURM_ARRAY_JOB_ID", "{{array.id.dec}}"), ("SLURM_ARRAY_TASK_ID", "{{array.index}}")];

/// The numbers that all elements of an array have: for each the variable of the script, and the key in
/// `attributes.system.slurm`.
fn numbers(indexes: &Indexes) -> [(&'static str, &'static str, u32); 4] {
    let all = &indexes.all;
    [
        ("SLURM_ARRAY_TASK_COUNT", "array_task_cnt", u32::try_from(all.len()).unwrap_or(u32::MAX)),
        ("SLURM_ARRAY_TASK_MIN", "array_task_min", all.first().unwrap_or_default()),
        ("SLURM_ARRAY_TASK_MAX", "array_task_max", all.last().unwrap_or_default()),
        ("SLURM_ARRAY_TASK_STEP", "array_task_step", indexes.step()),
    ]
}

/// The submission of a job, or what the elements of an array share.
fn submission(request: &Request, caller: &Caller) -> Result<Submit, CliError> {
    let mut desc = request.desc.clone();
    let numbers = request.array.as_ref().map(numbers);
    let numbers = numbers.into_iter().flatten();
    for (name, _, number) in numbers.clone() {
        desc.environment.set(name, number.to_string());
    }
    let of_element: &[_] = if request.array.is_some() { &OF_ELEMENT } else { &[] };
    let templates = environment::templates(of_element);
    let mut jobspec = jobspec(&desc, caller, &request.rlimits, templates)?;
    for (_, key, number) in numbers {
        // For prologs and plugins, which don't see the environment.
        path::set(&mut jobspec, &format!("attributes.system.slurm.{key}"), number.into())
            .map_err(CliError::failure)?;
    }
    Ok(Submit {
        jobspec: Some(jobspec.into()),
        signed: None,
        urgency: Some(desc.urgency().unwrap_or(Urgency::DEFAULT).value().into()),
        flags: None,
    })
}

/// Submits the job or the array, and prints its id.
async fn submit(request: &Request, caller: &Caller) -> Result<u8, CliError> {
    let client = Client::connect().await?;
    let submit = submission(request, caller)?;
    let (id, messages) = match &request.array {
        None => send(&client, submit).await?,
        Some(Indexes { all, at_once }) => {
            let elements = Elements::new(all.clone(), *at_once, Vec::new(), Vec::new());
            send(&client, SubmitArray { submit, elements }).await?
        }
    };
    lines(&messages).for_each(say);
    if request.verbose {
        show_kept(request)?;
    }
    let number = id.as_u64();
    session::print(&match request.parsable {
        true => format!("{number}\n"),
        false => format!("Submitted batch job {number}\n"),
    })?;
    let copies = CopyArgs { wait: true, ..CopyArgs::default() };
    match (&request.array, Wait::from_args(0, false, &copies).filter(|_| request.wait)) {
        (_, None) => Ok(0),
        (None, Some(wait)) => wait_for(client.clone(), id, wait, Sinks::default()).await,
        (Some(indexes), Some(_)) => wait_for_array(&client, id, indexes.all.len() as u64).await,
    }
}

/// Submits a job or an array. Returns its id, and the messages that plugins have for the user.
async fn send<S>(client: &Client, submission: S) -> Result<(JobId, Vec<String>), RpcError>
where
    S: Service<Response = Submitted>,
{
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
