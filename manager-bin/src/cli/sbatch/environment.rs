//! The environment of a batch script: what `--export` copies into it, and the `SLURM_` variables.

use std::io;

use jobtap_core::slurm::Environment;
use serde_json::{Value, json};
use thiserror::Error;

use super::describe::Request;
use crate::cli::common::message::system_text;
use crate::cli::submit::caller::Caller;
use crate::files::input;

/// The variables of a login, which a script gets even if it gets no others of the caller.
const LOGIN: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "USER", "LANG"];

/// Templates of the variables whose values are known only when the job starts.
const TEMPLATES: &[(&str, &str)] = &[
    ("SLURM_JOB_ID", "{{id.dec}}"),
    ("SLURM_JOBID", "{{id.dec}}"),
    ("SLURM_JOB_NUM_NODES", "{{nnodes}}"),
    ("SLURM_NNODES", "{{nnodes}}"),
    ("SLURM_JOB_NODELIST", "{{nodelist}}"),
    ("SLURM_NODELIST", "{{nodelist}}"),
    ("SLURM_NTASKS", "{{size}}"),
    ("SLURM_NPROCS", "{{size}}"),
    ("SLURMD_NODENAME", "{{node.name}}"),
    ("SLURM_TASKS_PER_NODE", "{{slurm.tasks-per-node}}"),
    ("SLURM_CPUS_ON_NODE", "{{node.ncores}}"),
    ("SLURM_JOB_CPUS_PER_NODE", "{{slurm.cpus-per-node}}"),
    ("SLURM_GPUS_ON_NODE", "{{slurm.gpus-on-node}}"),
    ("SLURM_JOB_GPUS", "{{slurm.gpus}}"),
    ("SLURM_JOB_START_TIME", "{{slurm.start-time}}"),
    ("SLURM_JOB_END_TIME", "{{slurm.end-time}}"),
    ("SLURM_JOB_PARTITION", "{{slurm.partition}}"),
];

/// The variables that are the same in all scripts: those of the first task, and of a cluster without its own name.
const FIXED: &[(&str, &str)] = &[
    ("SLURM_PROCID", "0"),
    ("SLURM_LOCALID", "0"),
    ("SLURM_NODEID", "0"),
    ("SLURM_GTIDS", "0"),
    ("SLURM_CLUSTER_NAME", "cluster"),
    ("ENVIRONMENT", "BATCH"),
];

/// Makes MPI launchers that detect a job of Slurm start processes without `srun`, unless the caller's environment sets
/// these variables. All nodes of a manager are its own host.
const LAUNCHERS: &[(&str, &str)] = &[
    ("HYDRA_LAUNCHER", "fork"),
    ("I_MPI_HYDRA_BOOTSTRAP", "fork"),
    ("OMPI_MCA_plm", "^slurm"),
    ("PRTE_MCA_plm", "^slurm"),
];

/// A file of `--export-file` that can't be used.
#[derive(Debug, Error)]
#[error("--export-file: {file}: {fault}")]
pub(super) struct ExportFileError {
    file: String,
    fault: ExportFileFault,
}

#[derive(Debug, Error)]
enum ExportFileFault {
    #[error("{}", system_text(.0))]
    Read(io::Error),
    #[error("it isn't UTF-8")]
    NotUtf8,
    #[error("'{0}' is no NAME=VALUE")]
    NoVariable(String),
}

/// The environment of a job's script, apart from [`templates`].
///
/// # Errors
/// [`ExportFileError`].
pub(super) fn build(request: &Request, caller: &Caller) -> Result<Environment, ExportFileError> {
    let mut variables: Vec<(String, String)> = match &request.export_file {
        Some(file) => from_file(file, caller)?,
        None => exported(request.export.as_deref().unwrap_or("ALL"), caller),
    };
    // If this command runs in a job, the variables of that job would be taken for those of the new job.
    variables.retain(|(name, _)| !is_of_a_job(name));
    for (name, value) in LAUNCHERS {
        if variables.iter().all(|(other, _)| other != name) {
            variables.push(((*name).to_owned(), (*value).to_owned()));
        }
    }
    let mut add = |name: &str, value: &str| variables.push((name.to_owned(), value.to_owned()));
    add("SLURM_SUBMIT_DIR", &caller.cwd.to_string_lossy());
    add("SLURM_SUBMIT_HOST", &rustix::system::uname().nodename().to_string_lossy());
    add("SLURM_JOB_NAME", request.desc.name.as_deref().unwrap_or_default());
    for (name, value) in FIXED {
        add(name, value);
    }
    if let Some(user) = &request.desc.user_name {
        add("SLURM_JOB_USER", user);
    }
    add("SLURM_JOB_UID", &rustix::process::getuid().as_raw().to_string());
    add("SLURM_JOB_GID", &rustix::process::getgid().as_raw().to_string());
    for (name, value) in &request.told {
        add(name, value);
    }
    Ok(variables.into_iter().collect())
}

/// The shell option `env-expand` for the variables that are known when the job starts.
pub(super) fn templates(more: &[(&str, &str)]) -> Value {
    let all = TEMPLATES.iter().chain(more);
    all.map(|(name, template)| ((*name).to_owned(), json!(template)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn is_of_a_job(name: &str) -> bool {
    let job = ["SLURM_ARRAY_", "SLURM_JOB_", "SLURM_MEM_PER_"]
        .iter()
        .any(|start| name.starts_with(start));
    job || TEMPLATES.iter().any(|(template, _)| *template == name)
}

/// The variables that `--export` copies from the caller's environment, or sets.
fn exported(list: &str, caller: &Caller) -> Vec<(String, String)> {
    let all = || caller.env.iter().map(|(name, value)| (name.clone(), value.clone()));
    let login = || all().filter(|(name, _)| LOGIN.contains(&name.as_str()));
    let slurm = || all().filter(|(name, _)| name.starts_with("SLURM_"));
    let entries = split(list);
    let has = |word: &str| entries.iter().any(|entry| entry.eq_ignore_ascii_case(word));
    if has("NIL") {
        return Vec::new();
    }
    let mut variables: Vec<(String, String)> =
        if has("ALL") { all().collect() } else { login().chain(slurm()).collect() };
    for entry in &entries {
        match entry.split_once('=') {
            Some((name, value)) => variables.push((name.to_owned(), value.to_owned())),
            None => variables.extend(all().filter(|(name, _)| name == entry)),
        }
    }
    variables
}

/// Splits a list at the commas outside quotes.
fn split(list: &str) -> Vec<String> {
    let mut entries = vec![String::new()];
    let mut quote = None;
    for c in list.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => quote = Some(c),
            (',', None) => entries.push(String::new()),
            (c, _) => entries.last_mut().into_iter().for_each(|entry| entry.push(c)),
        }
    }
    entries.retain(|entry| !entry.is_empty());
    entries
}

/// The variables of a file, each ended by a zero byte.
fn from_file(file: &str, caller: &Caller) -> Result<Vec<(String, String)>, ExportFileError> {
    let failed = |fault| ExportFileError { file: file.to_owned(), fault };
    let data = input::bytes(caller.file(file));
    let data = data.map_err(|error| failed(ExportFileFault::Read(error)))?;
    let text = String::from_utf8(data).map_err(|_| failed(ExportFileFault::NotUtf8))?;
    let entries = text.split('\0').filter(|entry| !entry.trim().is_empty());
    entries
        .map(|entry| {
            let none = || failed(ExportFileFault::NoVariable(entry.trim().to_owned()));
            let (name, value) = entry.split_once('=').ok_or_else(none)?;
            Ok((name.to_owned(), value.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller() -> Caller {
        let env = [("PATH", "/bin"), ("FOO", "1"), ("SLURM_X", "2"), ("SLURM_JOB_ID", "7")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Caller { cwd: "/w".into(), env: env.into_iter().collect(), ..Caller::default() }
    }

    fn names(list: &str) -> String {
        let export = Some(list.to_owned());
        let found = build(&Request { export, ..Request::default() }, &caller()).unwrap();
        let own = ["PATH", "FOO", "SLURM_X", "SLURM_JOB_ID", "NEW"];
        let found =
            own.iter().filter_map(|name| found.get(name).map(|value| format!("{name}={value}")));
        found.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn export_chooses_what_is_taken_over() {
        assert_eq!(names("ALL"), "PATH=/bin FOO=1 SLURM_X=2");
        assert_eq!(names("NONE"), "PATH=/bin SLURM_X=2");
        assert_eq!(names("NIL"), "");
        assert_eq!(names("FOO"), "PATH=/bin FOO=1 SLURM_X=2");
        assert_eq!(names("NEW=3"), "PATH=/bin SLURM_X=2 NEW=3");
        assert_eq!(names("ALL,FOO=5,NEW='a,b'"), "PATH=/bin FOO=5 SLURM_X=2 NEW=a,b");
    }

    #[test]
    fn the_script_learns_where_it_was_submitted() {
        let found = build(&Request::default(), &caller()).unwrap();
        assert_eq!(found.get("SLURM_SUBMIT_DIR"), Some("/w"));
        assert_eq!(templates(&[("A", "x")])["SLURM_JOB_ID"], "{{id.dec}}");
    }
}
