//! `srun`: runs a command as a job and shows its output, or inside a job of `sbatch` as a step of it.
//!
//! A step is a job of a manager of its own, which uses the resources of the enclosing job: `srun` becomes `start`, and
//! calls itself there. So the tasks of a step have PMI, places and limits as those of any job. Steps of a job that run
//! at the same time share its resources.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use jobtap_core::job::JobId;
use jobtap_core::jobspec::path;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::describe::Request;
use super::environment;
use super::error::{Origin, Place};
use super::options::{self, SRUN, Setting};
use super::{Submit, lines, program, read_version};
use crate::cli::common::ids::{Target, show_id};
use crate::cli::common::message::{CliError, system_text};
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::job::{AttachOptions, Interrupt, Output, attach, offer};
use crate::cli::run::forward_input;
use crate::cli::submit::caller::Caller;
use crate::cli::submit::rlimit;
use crate::client::Client;
use crate::rpc::services::ingest::Submitted;
use crate::rpc::services::job_info::Lookup;
use crate::users::Users;

const COMMAND: &str = "srun";

/// The variable with a [`Step`], which tells `srun` that it runs in the manager of a step.
const STEP: &str = "JOBTAP_SRUN_STEP";

/// The variable that names the enclosing job.
const ENCLOSING: &str = "JOBTAP_JOB_ID";

/// The options of a step that has none of its own, from the variables of its job.
const OF_JOB: [(&str, &str); 5] = [
    ("ntasks", "SLURM_NTASKS"),
    ("cpus-per-task", "SLURM_CPUS_PER_TASK"),
    ("gpus-per-task", "SLURM_GPUS_PER_TASK"),
    ("gpus-per-node", "SLURM_GPUS_ON_NODE"),
    ("nodes", "SLURM_JOB_NUM_NODES"),
];

/// Options that say how many GPUs a step gets.
const GPUS: [&str; 5] = ["gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres"];

/// The variables that differ from task to task, or that describe the step.
const TEMPLATES: [(&str, &str); 14] = [
    ("SLURM_PROCID", "{{taskid}}"),
    ("SLURM_LOCALID", "{{task.index}}"),
    ("SLURM_NODEID", "{{node.id}}"),
    ("SLURMD_NODENAME", "{{node.name}}"),
    ("SLURM_NTASKS", "{{size}}"),
    ("SLURM_NPROCS", "{{size}}"),
    ("SLURM_NNODES", "{{nnodes}}"),
    ("SLURM_CPUS_ON_NODE", "{{node.ncores}}"),
    ("SLURM_TASKS_PER_NODE", "{{slurm.tasks-per-node}}"),
    ("SLURM_STEP_NUM_TASKS", "{{size}}"),
    ("SLURM_STEP_NUM_NODES", "{{nnodes}}"),
    ("SLURM_STEP_NODELIST", "{{nodelist}}"),
    ("SLURM_STEP_TASKS_PER_NODE", "{{slurm.tasks-per-node}}"),
    ("SLURM_GPUS_ON_NODE", "{{slurm.gpus-on-node}}"),
];

/// The same for a command that is a job itself.
const OF_OWN_JOB: [(&str, &str); 5] = [
    ("SLURM_JOB_ID", "{{id.dec}}"),
    ("SLURM_JOBID", "{{id.dec}}"),
    ("SLURM_JOB_NUM_NODES", "{{nnodes}}"),
    ("SLURM_JOB_NODELIST", "{{nodelist}}"),
    ("SLURM_NODELIST", "{{nodelist}}"),
];

/// The variables that describe the script of the job, and no task of a step.
const OF_SCRIPT: [&str; 2] = ["SLURM_GTIDS", "SLURM_TASK_PID"];

/// The words after `srun`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct SrunCommand {
    /// Options of Slurm's srun, the command and its arguments; see --help
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "OPTIONS, COMMAND, ARGS"
    )]
    words: Vec<String>,
}

/// What a step takes over from its job.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Step {
    /// The variables of the job, which `start` removes.
    variables: BTreeMap<String, String>,
    /// The signal that the steps of the job want before its end, and how many seconds before.
    warning: Option<(u64, u64)>,
}

/// Runs the command.
pub(crate) fn run(args: SrunCommand) -> ExitCode {
    session::run(COMMAND, Family::Slurm, async {
        let mut caller = Caller::current()?;
        let (settings, command) =
            options::parse_as(&SRUN, &args.words, &Place::CommandLine).map_err(CliError::usage)?;
        let has = |name: &str| settings.iter().any(|setting| setting.name == name);
        if has("help") || has("usage") {
            session::print(&options::help_of_srun(&program()))?;
            return Ok(0);
        }
        if has("version") {
            session::print(&read_version())?;
            return Ok(0);
        }
        if command.is_empty() {
            return Err(CliError::failure("No command given to execute."));
        }
        let step = match caller.env.remove(STEP) {
            Some(text) => Some(serde_json::from_str::<Step>(&text).map_err(CliError::failure)?),
            None => None,
        };
        match (step, caller.env.get(ENCLOSING).and_then(|id| id.parse().ok())) {
            (None, Some(enclosing)) => Err(become_step(enclosing, &args.words, &caller).await?),
            (step, _) => launch(settings, command, caller, step).await,
        }
    })
}

/// Whether this process is the manager of a step.
pub(in crate::cli) fn is_step() -> bool {
    std::env::var_os(STEP).is_some()
}

/// Becomes the manager of a step in the enclosing job. Returns only if that fails.
async fn become_step(
    enclosing: JobId,
    words: &[String],
    caller: &Caller,
) -> Result<CliError, CliError> {
    let client = Client::connect().await?;
    let values = client.call(Lookup::key(enclosing, "jobspec").current()).await?;
    let jobspec: Value = serde_json::from_str(values.get("jobspec")).map_err(CliError::failure)?;
    let number = |key: &str| {
        path::get(&jobspec, &format!("attributes.system.slurm.{key}")).and_then(Value::as_u64)
    };
    let of_slurm = caller.env.iter().filter(|(name, _)| name.starts_with("SLURM"));
    let step = Step {
        variables: of_slurm.map(|(name, value)| (name.clone(), value.clone())).collect(),
        warning: number("warn_signal").map(|signal| (signal, number("warn_time").unwrap_or(60))),
    };
    let own = std::env::current_exe()?;
    let text = serde_json::to_string(&step).map_err(CliError::failure)?;
    let mut start = Command::new(&own);
    start.arg("start").arg(&own).arg(COMMAND).args(words).env(STEP, text);
    let error = start.exec();
    Ok(CliError::failure(format!("{}: {}", own.display(), system_text(&error))))
}

/// The options that follow from the job of a step, where the command line has none.
fn inherited(settings: &[Setting], step: &Step) -> Vec<Setting> {
    let has = |name: &str| settings.iter().any(|setting| setting.name == name);
    let sized = has("ntasks");
    let gpus = GPUS.iter().any(|name| has(name));
    let mut gpus_taken = gpus;
    let mut found = Vec::new();
    for (name, variable) in OF_JOB {
        let is_gpus = GPUS.contains(&name);
        // A number of tasks doesn't need all nodes of the job.
        if has(name) || (is_gpus && gpus_taken) || (name == "nodes" && sized) {
            continue;
        }
        let Some(value) = step.variables.get(variable) else { continue };
        gpus_taken |= is_gpus;
        found.push(Setting { name, value: value.clone(), origin: Origin::Variable(variable) });
    }
    found
}

/// Submits the job of the command, and attaches to it.
async fn launch(
    settings: Vec<Setting>,
    command: &[String],
    mut caller: Caller,
    step: Option<Step>,
) -> Result<u8, CliError> {
    let mut all = step.as_ref().map_or_else(Vec::new, |step| inherited(&settings, step));
    let value = |name: &str| settings.iter().rev().find(|setting| setting.name == name);
    let (label, pty) = (value("label").is_some(), value("pty").is_some());
    let (kill, wait) = (value("kill-on-bad-exit").cloned(), value("wait").cloned());
    let multi_prog = value("multi-prog").is_some();
    all.extend(settings);
    let mut request = Request::from_settings(&all, &caller).map_err(CliError::failure)?;
    if !request.quiet {
        for warning in &request.warnings {
            session::print_message(&format!("{COMMAND}: {warning}"));
        }
    }
    let desc = &mut request.desc;
    let program = command.first().cloned().unwrap_or_default();
    desc.name.get_or_insert_with(|| program.rsplit('/').next().unwrap_or(&program).to_owned());
    desc.argv = command.to_vec();
    if multi_prog {
        let own = std::env::current_exe()?.to_string_lossy().into_owned();
        desc.argv.splice(0..0, [own, "multi-prog".to_owned()]);
    }
    desc.work_dir.get_or_insert_with(|| caller.cwd.to_string_lossy().into_owned());
    desc.user_name = Some(Users::system().name(rustix::process::getuid().as_raw()));
    caller.env.remove(ENCLOSING);
    let mut environment = environment::build(&request, &caller).map_err(CliError::failure)?;
    let own_job = step.is_none();
    let kept = step.as_ref().map(|step| step.variables.clone()).unwrap_or_default();
    for (name, value) in kept.into_iter().filter(|(name, _)| !OF_SCRIPT.contains(&name.as_str())) {
        environment.set(&name, value);
    }
    for name in ["SLURM_STEP_ID", "SLURM_STEPID"] {
        environment.set(name, "0".to_owned());
    }
    request.desc.environment = environment;
    let mut jobspec = request.desc.to_jobspec().map_err(CliError::failure)?;
    let mut option = |name: &str, value: Value| {
        let place = format!("attributes.system.shell.options.{name}");
        path::set(&mut jobspec, &place, value).map_err(CliError::failure)
    };
    let templates = TEMPLATES.iter().chain(own_job.then_some(&OF_OWN_JOB).into_iter().flatten());
    let templates = templates.map(|(name, tag)| ((*name).to_owned(), json!(tag)));
    option("env-expand", Value::Object(templates.collect()))?;
    let limits = rlimit::apply(&request.rlimits, &caller.rlimits)?;
    if !limits.is_empty() {
        option("rlimit", rlimit::to_value(&limits))?;
    }
    if kill.is_some_and(|kill| kill.value != "0") {
        option("exit-on-error", json!(1))?;
    }
    if let Some(wait) = wait.filter(|wait| wait.value != "0") {
        option("exit-timeout", json!(format!("{}s", wait.value)))?;
    }
    let warning = step.and_then(|step| step.warning);
    if let Some((signum, timeleft)) = warning.filter(|_| request.desc.warn_signal.is_none()) {
        option("signal", json!({"signum": signum, "timeleft": timeleft}))?;
    }
    let input = forward_input(&mut jobspec);
    let keys = offer(&mut jobspec, pty)?;
    let submission =
        Submit { jobspec: Some(jobspec.into()), signed: None, urgency: None, flags: None };
    let client = Client::connect().await?;
    let response = session::print_refusal_messages(COMMAND, client.call(submission).await);
    let Submitted { id, messages } = response
        .map_err(|error| CliError::failure(format!("Unable to allocate resources: {error}")))?;
    lines(&messages).for_each(|line| session::print_message(&format!("{COMMAND}: {line}")));
    let options = AttachOptions {
        show_events: false,
        show_exec: false,
        show_status: false,
        wait_event: "clean".to_owned(),
        output: Output { label, ..Output::default() },
        read_only: false,
        input,
        keys,
        stdin_ranks: Vec::new(),
        close_others: true,
        tail: None,
        finished: false,
        interrupt: Interrupt::CancelFirst,
    };
    attach(&client, Target { id, typed: show_id(id) }, options).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_the_size_of_its_job_unless_it_says_otherwise() {
        let variables =
            [("SLURM_NTASKS", "4"), ("SLURM_JOB_NUM_NODES", "2"), ("SLURM_GPUS_ON_NODE", "1")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let step = Step { variables: variables.into_iter().collect(), warning: None };
        let of = |words: &str| {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            let (settings, _) = options::parse_as(&SRUN, &words, &Place::CommandLine).unwrap();
            let found = inherited(&settings, &step);
            found
                .iter()
                .map(|set| format!("{}={}", set.name, set.value))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(of(""), "ntasks=4 gpus-per-node=1 nodes=2");
        assert_eq!(of("-n1 -G1"), "");
        assert_eq!(of("-N1"), "ntasks=4 gpus-per-node=1");
    }
}
