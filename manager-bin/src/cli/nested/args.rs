//! The options that `batch` and `alloc` share, and the job that they make: a manager with the job's resources.

use jobtap_core::jobspec::path;
use serde_json::{Value, json};

use crate::cli::common::message::CliError;
use crate::cli::common::usage::{NoInteger, NoOption};
use crate::cli::submit::args::SubmitArgs;
use crate::cli::submit::caller::Caller;
use crate::cli::submit::{Submission, submission};
use crate::daemon::config::Source;
use crate::rpc::services::ingest::SentJobspec;

/// The archive of `--dump` without a name.
pub(super) const DUMP: &str = "flux-{{jobid}}-dump.tgz";

/// The file of the job with the configuration of its manager.
const CONFIG: &str = "conf.json";

/// The mode of a regular file that only its owner may read and write.
const PRIVATE: u32 = 0o100_600;

/// The options of `batch` and `alloc`: those of a submission, with slots in the place of tasks, and those for the
/// manager in the job.
#[derive(Debug, Clone, clap::Args)]
#[command(
    mut_arg("ntasks", |arg| {
        arg.long("nslots").value_parser(integer).help("Number of resource slots")
    }),
    mut_arg("cores_per_task", |arg| {
        arg.long("cores-per-slot")
            .value_parser(integer)
            .help("Number of cores per slot [default: 1]")
    }),
    mut_arg("gpus_per_task", |arg| {
        arg.long("gpus-per-slot")
            .value_parser(integer)
            .help("Number of GPUs per slot [default: 0]")
    }),
    mut_arg("nodes", |arg| arg.value_parser(integer)),
    mut_arg("cores", |arg| arg.hide(true).value_parser(no_option)),
    mut_arg("tasks_per_node", |arg| arg.hide(true).value_parser(no_option)),
    mut_arg("tasks_per_core", |arg| arg.hide(true).value_parser(no_option)),
    mut_arg("gpus_per_node", |arg| arg.hide(true).value_parser(no_option)),
    mut_arg("taskmap", |arg| arg.hide(true).value_parser(no_option)),
)]
pub(super) struct NestedArgs {
    #[command(flatten)]
    pub(super) job: SubmitArgs,
    /// Configuration of the manager in the job: KEY=VAL, a TOML or JSON text, or a file (repeatable)
    #[arg(long, value_name = "CONF")]
    pub(super) conf: Vec<String>,
    /// Options for the manager in the job, as for start (repeatable)
    #[arg(long, value_name = "OPTS", allow_hyphen_values = true)]
    broker_opts: Vec<String>,
    /// Write an archive with all that the manager has stored, at its end [default: flux-JOBID-dump.tgz]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = DUMP)]
    pub(super) dump: Option<String>,
}

/// Checks that a text is an integer. Unlike other commands, Flux's `batch` and `alloc` report any other text as a usage
/// error.
fn integer(text: &str) -> Result<String, NoInteger> {
    match text.trim().parse::<i64>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(NoInteger(text.to_owned())),
    }
}

/// Refuses an option about tasks: these jobs have one task on each node.
fn no_option(_: &str) -> Result<String, NoOption> {
    Err(NoOption)
}

impl NestedArgs {
    /// Returns an error for a job without slots.
    pub(super) fn check(&self) -> Result<(), CliError> {
        let SubmitArgs { ntasks, nodes, per_resource, .. } = &self.job;
        let shape = per_resource.shape.is_some() || per_resource.resources_json.is_some();
        let none = |count: &Option<String>| count.as_ref().is_none_or(|text| text.trim() == "0");
        if !shape && none(ntasks) && none(nodes) {
            return Err(CliError::failure("Number of slots to allocate must be specified"));
        }
        Ok(())
    }

    /// The submission of the job whose manager runs `command`. `files` come with the job in addition to those of the
    /// options.
    pub(super) fn submission(
        &self,
        command: &[String],
        files: Vec<(&str, Value)>,
        caller: &Caller,
    ) -> Result<Submission, CliError> {
        let program = std::env::current_exe()?.to_string_lossy().into_owned();
        let mut words = vec![program, "start".to_owned()];
        words.extend(self.broker_opts.iter().cloned());
        words.extend(self.dump.iter().map(|file| format!("-Scontent.dump={file}")));
        let mut files = files;
        if !self.conf.is_empty() {
            files.push((CONFIG, json!({ "mode": PRIVATE, "data": self.config()? })));
            words.push(format!("-c{{{{tmpdir}}}}/{CONFIG}"));
        }
        words.extend(command.iter().cloned());
        let mut job = self.job.clone();
        job.command = words;
        let mut submission = submission(&job, caller)?;
        if let Some(jobspec) = submission.request.jobspec.as_mut().and_then(SentJobspec::made) {
            run_manager(jobspec, files)?;
        }
        Ok(submission)
    }

    /// The configuration, read here since the job may be unable to read its files.
    fn config(&self) -> Result<Value, CliError> {
        let source = Source::new(&[], self.conf.clone()).map_err(CliError::failure)?;
        source.read().map_err(CliError::failure)
    }
}

/// Changes the jobspec of a command to that of a manager: it is started once on each node, so that the job has a
/// process on all of them, and the exit of one of these is not a failure. The user's own options stay.
fn run_manager(jobspec: &mut Value, files: Vec<(&str, Value)>) -> Result<(), CliError> {
    for (option, value) in [
        ("per-resource", json!({"type": "node"})),
        ("mpi", json!("none")),
        ("exit-timeout", json!("none")),
    ] {
        let place = format!("attributes.system.shell.options.{option}");
        let pointer = format!("/{}", place.replace('.', "/"));
        if jobspec.pointer(&pointer).is_none() {
            path::set(jobspec, &place, value).map_err(CliError::failure)?;
        }
    }
    let options = jobspec.pointer_mut("/attributes/system/shell/options");
    // Resource limits come after these options, as with other commands.
    if let Some(options) = options.and_then(Value::as_object_mut)
        && let Some(limits) = options.shift_remove("rlimit")
    {
        options.insert("rlimit".to_owned(), limits);
    }
    if files.is_empty() {
        return Ok(());
    }
    // Set without a path, since the names of files contain dots.
    if jobspec.pointer("/attributes/system/files").is_none() {
        path::set(jobspec, "attributes.system.files", json!({})).map_err(CliError::failure)?;
    }
    let known = jobspec.pointer_mut("/attributes/system/files").and_then(Value::as_object_mut);
    let known = known.ok_or_else(|| CliError::failure("attributes.system.files is no table"))?;
    known.extend(files.into_iter().map(|(name, file)| (name.to_owned(), file)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_user_for_the_manager_stay() {
        let mut jobspec = json!({"attributes": {"system": {
            "files": {"a": {"data": 1}},
            "shell": {"options": {"exit-timeout": "5s"}},
        }}});
        run_manager(&mut jobspec, vec![("conf.json", json!({"data": 2}))]).unwrap();
        let expected = json!({"attributes": {"system": {
            "files": {"a": {"data": 1}, "conf.json": {"data": 2}},
            "shell": {"options": {
                "exit-timeout": "5s", "per-resource": {"type": "node"}, "mpi": "none",
            }},
        }}});
        assert_eq!(jobspec, expected);
    }
}
