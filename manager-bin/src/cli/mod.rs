//! The commands: a file or a folder for each. Those about the manager itself are in `instance`, those that combine sets
//! are in `sets`, and what several commands use is in `common`.

mod accounting;
mod allocation;
mod bulksubmit;
mod cancel;
mod common;
mod completion;
mod examples;
mod exec;
mod exec_override;
#[cfg(test)]
mod flux_options;
#[cfg(feature = "fuzz")]
pub mod foreign;
mod housekeeping;
mod instance;
mod job;
mod jobs;
mod kvs;
mod left_out;
mod man;
mod multi_prog;
mod nested;
mod pgrep;
mod plugin;
mod post_event;
mod pstree;
mod queue;
mod resource;
mod resubmit;
mod run;
mod sbatch;
mod sets;
// Runs scripts with the code of the builtin plugin `lua`.
#[cfg(feature = "builtins")]
mod slurm;
mod slurm_commands;
mod start;
mod submit;
#[cfg(feature = "tools")]
mod tools;
#[cfg(feature = "top")]
mod top;
mod update;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use common::{ids::IdStyle, optional_values, reach, session, usage, usage::Family};
use instance::{
    attr, audit, config, dmesg, env, fsck, licenses, logger, module, openapi, shutdown, uptime,
    uri, version,
};
use jobtap_core::job::JobId;
use sets::{hostlist, rset};
use slurm_commands::{sacct, scancel, scontrol, sinfo, squeue};

#[cfg(feature = "tools")]
use crate::bench::{process, roles};
use crate::exec::{SHEPHERD_ARGUMENT, shepherd_main};
use crate::limited;

/// The command line of the program.
#[derive(Debug, Parser)]
#[command(
    name = version::name(),
    version = version::short(),
    long_version = version::long(),
    about = "A job manager whose policy is Rust",
    disable_help_subcommand = true
)]
struct CommandLine {
    #[command(flatten)]
    outward: nested::OutwardArgs,
    #[command(subcommand)]
    command: Command,
}

/// The commands. Their doc comments are the help texts.
#[derive(Debug, Subcommand)]
enum Command {
    /// Start a manager and run a command under it
    Start(start::StartArgs),
    /// Submit a job and print its id
    Submit(submit::SubmitCommand),
    /// Submit a job for each of many inputs
    Bulksubmit(bulksubmit::BulkSubmitCommand),
    /// Submit a job, show its output and exit with its exit code
    Run(run::RunCommand),
    /// Submit a script as the initial program of a manager that runs as a job
    Batch(nested::BatchCommand),
    /// Start a manager as a job, and run a command or a shell under it
    Alloc(nested::AllocCommand),
    /// Run a command under another manager, such as that of a job
    Proxy(nested::ProxyArgs),
    /// Submit a batch script with the options of Slurm's sbatch
    Sbatch(sbatch::SbatchCommand),
    /// Run a command with the options of Slurm's srun, as a job or as a step of one
    Srun(sbatch::srun::SrunCommand),
    /// List jobs as Slurm's squeue does
    Squeue(squeue::SqueueArgs),
    /// List nodes as Slurm's sinfo does
    Sinfo(sinfo::SinfoArgs),
    /// Cancel or signal jobs as Slurm's scancel does
    Scancel(scancel::ScancelArgs),
    /// Show and change jobs and nodes as Slurm's scontrol does
    Scontrol(scontrol::ScontrolArgs),
    /// Report jobs as Slurm's sacct does
    Sacct(sacct::SacctArgs),
    /// Become the program that a file names for this task of a job
    MultiProg(multi_prog::MultiProgArgs),
    /// List jobs
    Jobs(jobs::options::JobsArgs),
    /// Inspect and change single jobs
    Job(job::JobArgs),
    /// Cancel jobs
    Cancel(cancel::CancelArgs),
    /// Submit jobs again, or only what has failed of them
    Resubmit(resubmit::ResubmitArgs),
    /// Find jobs by name or in a range of ids
    Pgrep(pgrep::PgrepArgs),
    /// Show running jobs as a tree
    Pstree(pstree::PstreeArgs),
    /// Cancel jobs by name or in a range of ids
    Pkill(pgrep::PkillArgs),
    /// Print the output of jobs until they are inactive
    Watch(watch::WatchArgs),
    /// Show jobs, queues, nodes and plugins live on the whole screen
    #[cfg(feature = "top")]
    Top(top::TopArgs),
    /// List, enable, disable, start and stop queues
    Queue(queue::QueueArgs),
    /// Change a job after its submission
    Update(update::UpdateArgs),
    /// List, load, remove and query plugins
    #[command(alias = "jobtap")]
    Plugin(plugin::PluginArgs),
    /// Post an event to the eventlog of a job
    PostJobEvent(post_event::PostEventArgs),
    /// Post the events start and finish of a simulated job
    JobExecOverride(exec_override::OverrideArgs),
    /// List resources, drain and undrain nodes
    Resource(resource::ResourceArgs),
    /// List and release allocations of an elastic instance
    Allocation(allocation::AllocationArgs),
    /// List and signal the housekeeping of jobs
    Housekeeping(housekeeping::HousekeepingArgs),
    /// Print, replace or change the manager's configuration
    Config(config::ConfigArgs),
    /// Read, dump and restore stored keys
    Kvs(kvs::KvsArgs),
    /// Write all stored keys to an archive
    Dump(kvs::DumpArgs),
    /// Check the store of a manager that isn't running
    Fsck(fsck::FsckArgs),
    /// List, load, remove and reload plugins by Flux's names, or restart the manager
    Module(module::ModuleArgs),
    /// Run a command for each node
    Exec(exec::ExecArgs),
    /// Print the manager's log
    Dmesg(dmesg::DmesgArgs),
    /// Add a message to the manager's log
    Logger(logger::LoggerArgs),
    /// Print who changed the instance, when, and with what result
    Audit(audit::AuditArgs),
    /// Print when managers started and finished
    Startlog(audit::StartlogArgs),
    /// Show manager uptime
    Uptime(uptime::UptimeArgs),
    /// End the manager
    Shutdown(shutdown::ShutdownArgs),
    /// Print the address of a manager
    Uri(uri::UriArgs),
    /// Combine lists of hosts
    Hostlist(hostlist::HostlistArgs),
    /// Read, make and combine resource sets (RFC 20)
    #[command(name = "R")]
    Rset(rset::RsetArgs),
    /// Print the value of an attribute of the manager
    Getattr(attr::GetArgs),
    /// Set an attribute of the manager
    Setattr(attr::SetArgs),
    /// List the attributes of the manager
    Lsattr(attr::ListArgs),
    /// Print the environment of commands, or run a command in it
    Env(env::EnvArgs),
    /// Print the versions of the commands and of the manager
    Version(version::VersionArgs),
    /// Print the licenses of what the program is made of
    Licenses(licenses::LicensesArgs),
    /// Print the OpenAPI document of the manager's services over HTTP
    Openapi(openapi::OpenapiArgs),
    /// Check and try scripts of Slurm, and install commands with Slurm's names
    #[cfg(feature = "builtins")]
    Slurm(slurm::SlurmArgs),
    /// Export finished jobs, and report what they have used
    Accounting(accounting::AccountingArgs),
    #[cfg(feature = "tools")]
    #[command(flatten)]
    Tool(tools::ToolCommand),
    /// Print the code with which a shell completes commands, job ids and names
    Completion(completion::CompletionArgs),
    /// Print or write manual pages
    Man(man::ManArgs),
}

/// The commands that report usage errors as Flux's compiled commands do; see [`Family`].
const COMPILED: &[&str] = &[
    "start", "job", "config", "dmesg", "dump", "fsck", "kvs", "module", "audit", "startlog",
    "exec", "licenses", "logger", "uptime", "getattr", "setattr", "lsattr", "env", "openapi",
    "version", "R", "shutdown", "proxy", "top",
];

/// The commands that a manager can be built without, by the feature of this crate that contains them.
const FEATURES: &[(&str, &[&str])] = &[
    ("builtins", &["slurm"]),
    ("tools", &["bench", "build", "new", "policy", "replay", "simulate"]),
    ("top", &["top"]),
];

/// The feature that contains a command, if a manager can be built without it.
fn feature_of(command: &str) -> Option<&'static str> {
    let (feature, _) = FEATURES.iter().find(|(_, commands)| commands.contains(&command))?;
    Some(feature)
}

/// The commands of the program, as their help shows them.
fn program() -> clap::Command {
    repeatable(examples::with_examples(CommandLine::command()))
}

/// If an option is given more than once, the last one counts, as in all of Flux's commands. Options that are also
/// parsed elsewhere, such as those of directives, declare this themselves.
fn repeatable(command: clap::Command) -> clap::Command {
    command.args_override_self(true).mut_subcommands(repeatable)
}

/// Runs the command line of the program. The `main` of a manager calls it.
pub fn main() -> ExitCode {
    if IdStyle::current() == IdStyle::Ascii {
        JobId::display_plain();
    }
    let mut arguments = std::env::args_os().skip(1);
    // The manager runs this program with one of these first arguments to start its other processes.
    match arguments.next() {
        Some(first) if first == SHEPHERD_ARGUMENT => return shepherd_main(arguments),
        Some(first) if first == limited::ARGUMENT => return limited::main(arguments),
        Some(first) if first == reach::ARGUMENT => return reach::main(arguments),
        #[cfg(feature = "tools")]
        Some(first) if first == process::ARGUMENT => return roles::main(arguments),
        _ => {}
    }
    completion::answer(CommandLine::command);
    let top = program();
    // `-Lalways` has to become `-L=always` before clap sees it.
    let words = optional_values::with_equals(&top, std::env::args_os().collect());
    let matches = top.try_get_matches_from(words);
    match matches.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
        Ok(CommandLine { outward, command }) => match outward.is_given() {
            true => nested::outward(outward, command_words(&arguments_of_this_process())),
            false => run_command(command),
        },
        Err(error) => report_usage(&error),
    }
}

/// Like [`main`], for a manager that `jobtap build` has made. `composition` is the text that `jobtap build`
/// has written beside the code.
pub fn main_of(composition: &'static str) -> ExitCode {
    match crate::composition::declare(composition) {
        Ok(()) => main(),
        Err(error) => {
            session::print_message(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Runs one of the commands.
fn run_command(command: Command) -> ExitCode {
    match command {
        Command::Start(args) => start::run(args),
        Command::Submit(args) => submit::run(args),
        Command::Bulksubmit(args) => bulksubmit::run(args),
        Command::Run(args) => run::run(args),
        Command::Batch(args) => nested::batch(args),
        Command::Alloc(args) => nested::alloc(args),
        Command::Proxy(args) => nested::proxy(args),
        Command::Sbatch(args) => sbatch::run(args),
        Command::Srun(args) => sbatch::srun::run(args),
        Command::Squeue(args) => squeue::run(args),
        Command::Sinfo(args) => sinfo::run(args),
        Command::Scancel(args) => scancel::run(args),
        Command::Scontrol(args) => scontrol::run(args),
        Command::Sacct(args) => sacct::run(args),
        Command::MultiProg(args) => multi_prog::run(args),
        Command::Jobs(args) => jobs::run(args),
        Command::Job(args) => job::run(args),
        Command::Cancel(args) => cancel::run(args),
        Command::Resubmit(args) => resubmit::run(args),
        Command::Pgrep(args) => pgrep::grep(args),
        Command::Pstree(args) => pstree::run(args),
        Command::Pkill(args) => pgrep::kill(args),
        Command::Watch(args) => watch::run(args),
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(args),
        Command::Queue(args) => queue::run(args),
        Command::Update(args) => update::run(args),
        Command::Plugin(args) => plugin::run(args),
        Command::PostJobEvent(args) => post_event::run(args),
        Command::JobExecOverride(args) => exec_override::run(args),
        Command::Resource(args) => resource::run(args),
        Command::Allocation(args) => allocation::run(args),
        Command::Housekeeping(args) => housekeeping::run(args),
        Command::Config(args) => config::run(args),
        Command::Kvs(args) => kvs::run(args),
        Command::Dump(args) => kvs::dump(args),
        Command::Fsck(args) => fsck::run(args),
        Command::Module(args) => module::run(args),
        Command::Exec(args) => exec::run(args),
        Command::Dmesg(args) => dmesg::run(args),
        Command::Logger(args) => logger::run(args),
        Command::Audit(args) => audit::run(args),
        Command::Startlog(args) => audit::startlog(args),
        Command::Uptime(args) => uptime::run(args),
        Command::Shutdown(args) => shutdown::run(args),
        Command::Uri(args) => uri::run(args),
        Command::Hostlist(args) => hostlist::run(args),
        Command::Rset(args) => rset::run(args),
        Command::Getattr(args) => attr::get(args),
        Command::Setattr(args) => attr::set(args),
        Command::Lsattr(args) => attr::list(args),
        Command::Env(args) => env::run(args),
        Command::Version(args) => version::run(args),
        Command::Licenses(args) => licenses::run(args),
        Command::Openapi(args) => openapi::run(args),
        #[cfg(feature = "builtins")]
        Command::Slurm(args) => slurm::run(args),
        Command::Accounting(args) => accounting::run(args),
        #[cfg(feature = "tools")]
        Command::Tool(command) => tools::run(command),
        Command::Completion(args) => completion::run(&args),
        Command::Man(args) => man::run(program(), &args),
    }
}

fn arguments_of_this_process() -> Vec<OsString> {
    std::env::args_os().skip(1).collect()
}

/// The command and its arguments, without the options of the program itself. All arguments if there is no command.
fn command_words(arguments: &[OsString]) -> &[OsString] {
    let command = arguments.iter().position(|word| !word.as_encoded_bytes().starts_with(b"-"));
    arguments.get(command.unwrap_or_default()..).unwrap_or_default()
}

/// Reports a usage error, or prints help.
fn report_usage(error: &clap::Error) -> ExitCode {
    let all = arguments_of_this_process();
    let words: Vec<String> =
        command_words(&all).iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = usage::program_name(std::env::args_os().next().as_deref());
    let command = words.first().map_or("", String::as_str);
    // The usages contain the name by which the program was started. `build` propagates it to subcommands.
    let mut top = self::program().bin_name(&program);
    top.build();
    match (command, top.find_subcommand(command)) {
        ("" | "-h" | "--help" | "-V" | "--version", _) if !error.use_stderr() => {
            usage::report(error, &place_of(top, program, &[]), Family::Script)
        }
        // No command at all.
        ("", _) => {
            session::print_message(&top.render_help().to_string());
            ExitCode::FAILURE
        }
        (word, None) => {
            let text = match feature_of(word) {
                Some(feature) => format!(
                    "{program}: '{word}' is left out of this manager: build it with the feature '{feature}' of \
                     jobtap-manager"
                ),
                None => left_out::message(&program, word, usage::suggestion(error)),
            };
            session::print_message(&text);
            ExitCode::FAILURE
        }
        (_, Some(_)) => {
            let family =
                if COMPILED.contains(&command) { Family::Compiled } else { Family::Script };
            usage::report(error, &place_of(top, program, &words), family)
        }
    }
}

/// How the part of a help begins that says what the command lacks.
const LEFT_OUT: &str = "Left out: ";

/// The innermost subcommand that the words name. Messages name an alias by the command's own name: in `jobtap`, that of the
/// alias `jobtap` would stand there twice. In a program called `flux` it stays, since scripts search for it.
fn place_of(top: clap::Command, program: String, words: &[String]) -> usage::Place {
    let mut command = top;
    let mut path = Vec::new();
    for word in words {
        let Some(inner) = command.find_subcommand(word) else {
            break;
        };
        let inner = inner.clone();
        path.push(if program == "flux" { word.clone() } else { inner.get_name().to_owned() });
        command = inner;
    }
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    let last_word = words.last().cloned().unwrap_or_default();
    // Commands of Slurm say that at the end of their help.
    let after_help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let left_out = after_help.split_once(LEFT_OUT).map(|(_, rest)| format!("{LEFT_OUT}{rest}"));
    usage::Place { program, path, usage, last_word, left_out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_an_alias_only_in_flux() {
        let words = ["jobtap".to_owned(), "list".to_owned()];
        let path = |name: &str| place_of(program(), name.to_owned(), &words).path;
        assert_eq!(path("jobtap"), ["plugin", "list"]);
        assert_eq!(path("site-manager"), ["plugin", "list"]);
        assert_eq!(path("flux"), ["jobtap", "list"]);
    }

    #[test]
    fn what_a_feature_has_are_commands() {
        for (feature, commands) in FEATURES {
            for command in *commands {
                assert!(program().find_subcommand(command).is_some(), "{feature}: {command}");
            }
        }
    }
}
