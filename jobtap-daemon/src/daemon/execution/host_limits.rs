//! Refuses jobs that no host can run when they are submitted. The refusal names the option that asks for
//! too much and the limit that it exceeds: the number of tasks, the files that they have open, and the
//! size of their arguments and environment.
//!
//! These are limits of a host that runs nothing else. Whether there is room at the moment shows only when
//! the job starts.

use std::fs;
use std::path::Path;

use jobtap_core::jobspec::Jobspec;
use memchr::memchr_iter;
use rustix::process::{Resource, geteuid, getrlimit};
use serde_json::Value;

use crate::daemon::resources::Inventory;
use crate::exec::{MOST_FILES_PER_TASK, files_per_task};
use crate::open_files::OpenFiles;

/// The longest argument or variable in bytes, including the terminating zero (Linux: MAX_ARG_STRLEN).
const STRING: usize = 128 * 1024;

/// The limit of the bytes of all arguments and variables is never lower than this (Linux: ARG_MAX).
const LEAST_ARGUMENTS: u64 = 128 * 1024;

/// The upper limit of Linux whatever the stack limit is: three quarters of the usual 8 MiB.
const MOST_ARGUMENTS: u64 = 6 * 1024 * 1024;

/// Reserved for the program's path and the variables that describe the task.
const OWN_VARIABLES: u64 = 8 * 1024;

/// The longest path in bytes, including the terminating zero (Linux: PATH_MAX).
const PATH: usize = 4096;

/// A zero byte as JSON writes it.
const ZERO: &[u8] = b"\\u0000";

/// Files that a shepherd needs for itself.
const OWN_FILES: u64 = 32;

/// A jobspec whose text has fewer bytes can't exceed the limits of arguments and variables. In JSON a string takes at
/// least three bytes more than its length, while nine more are counted: at most three times as many.
const SMALL: usize = 32 * 1024;
const _: () = assert!(3 * SMALL as u64 + OWN_VARIABLES <= LEAST_ARGUMENTS && SMALL < STRING);

/// The limits of one host.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct HostLimits {
    /// How many processes jobs may have, and what limits them.
    processes: Option<(u64, String)>,
    /// How many files the shepherd may have open.
    files: u64,
    /// Bytes of a program's arguments and environment.
    arguments: u64,
    /// How many hosts the tasks of a job may be spread over. The others are assumed to be like this one.
    hosts: u64,
}

/// The part of a job that exceeds a limit, and the limit, as a sentence for the user.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(in crate::daemon) struct Excess(String);

impl HostLimits {
    /// The limits of this host, for jobs on these resources.
    pub(in crate::daemon) fn of_this_host(inventory: &Inventory) -> Self {
        // All ranks that this manager serves are on this host.
        let others = inventory.resources.without_ranks(&inventory.local).ranks().len();
        Self {
            processes: process_limit(),
            files: OpenFiles::of_this_process().own(),
            arguments: arguments(getrlimit(Resource::Stack).current),
            hosts: others as u64 + 1,
        }
    }

    /// Whether the jobspec, of which `text` is the source, obviously exceeds no limit. Most jobspecs are small, and
    /// reading them whole for this check took a fifth of the time of a submission.
    pub(in crate::daemon) fn obviously_fits(&self, jobspec: &Jobspec, text: &str) -> bool {
        let tasks = jobspec.counts().ntasks.div_ceil(self.hosts);
        let files = tasks.saturating_mul(MOST_FILES_PER_TASK);
        self.processes.as_ref().is_none_or(|(most, _)| tasks <= *most)
            && files <= self.files.saturating_sub(OWN_FILES)
            && text.len() < SMALL
            && jobspec.redacted_len() < PATH
            && !has_zero(text.as_bytes())
    }

    /// Refuses a job that no host can run. Simulated jobs have no processes.
    pub(in crate::daemon) fn check(&self, jobspec: &Jobspec) -> Result<(), Excess> {
        if jobspec.attribute("exec.test").is_some() {
            return Ok(());
        }
        let options = jobspec.attribute("system.shell.options").unwrap_or(&Value::Null);
        self.check_tasks(jobspec.counts().ntasks.div_ceil(self.hosts), options)?;
        self.check_strings(jobspec, options)?;
        check_paths(jobspec, options)
    }

    /// Refuses more tasks on one host than it can run.
    pub(in crate::daemon) fn check_tasks(
        &self,
        ntasks: u64,
        options: &Value,
    ) -> Result<(), Excess> {
        let per_resource = options.get("per-resource").and_then(|option| option.get("type"));
        let option = match per_resource.and_then(Value::as_str) {
            Some("core") => "--tasks-per-core",
            Some("node") => "--tasks-per-node",
            _ => "--ntasks",
        };
        if let Some((most, limit)) = &self.processes
            && ntasks > *most
        {
            return Err(Excess(format!(
                "{option}: {ntasks} tasks on one host are more than the {most} processes that it \
                 can have ({limit})"
            )));
        }
        // Malformed options are reported when the job starts.
        let per_task = files_per_task(options).unwrap_or(0);
        let most = self.files.saturating_sub(OWN_FILES);
        match ntasks.saturating_mul(per_task) > most {
            true => Err(Excess(format!(
                "{option}: {ntasks} tasks on one host need {per_task} open files each for their \
                 input and output, and there can be {most} (hard limit of open files of the \
                 manager, ulimit -Hn): ask for fewer tasks, or let them read and write files (--input, \
                 --output)"
            ))),
            false => Ok(()),
        }
    }

    /// Refuses arguments and variables that are larger than a program can be given.
    fn check_strings(&self, jobspec: &Jobspec, options: &Value) -> Result<(), Excess> {
        let mut total = OWN_VARIABLES;
        let mut count = |bytes: usize, what: &dyn Fn() -> String| {
            if bytes >= STRING {
                let most = STRING - 1;
                let text = format!("{} has {bytes} bytes, and Linux allows {most}", what());
                return Err(Excess(format!("{text}: pass it in a file (--add-file)")));
            }
            // The zero at its end, and the pointer to the string.
            total = total.saturating_add(bytes as u64 + 9);
            Ok(())
        };
        for (number, word) in jobspec.command().enumerate() {
            count(word.len(), &|| format!("command: argument {number}"))?;
            if word.contains('\0') {
                return Err(Excess(format!("command: argument {number} has a zero byte")));
            }
        }
        let expanded = options.get("env-expand").and_then(Value::as_object);
        for (variables, option) in [(jobspec.environment(), "--env"), (expanded, "--env")] {
            for (name, value) in variables.into_iter().flatten() {
                let value = value.as_str().unwrap_or_default();
                count(name.len() + 1 + value.len(), &|| {
                    format!("{option}: variable {}", short(name))
                })?;
                if name.contains('\0') || value.contains('\0') {
                    let name = short(name);
                    return Err(Excess(format!("{option}: variable {name} has a zero byte")));
                }
            }
        }
        match total > self.arguments {
            true => Err(Excess(format!(
                "command and --env: arguments and environment have {total} bytes, and a program \
                 takes {} (a quarter of the manager's stack limit, ulimit -s): pass data in files \
                 (--add-file)",
                self.arguments
            ))),
            false => Ok(()),
        }
    }
}

/// Refuses paths that the system does not accept.
fn check_paths(jobspec: &Jobspec, options: &Value) -> Result<(), Excess> {
    let option = |pointer| options.pointer(pointer).and_then(Value::as_str);
    for (path, named) in [
        (jobspec.cwd(), "--cwd"),
        (option("/output/stdout/path"), "--output"),
        (option("/output/stderr/path"), "--error"),
        (option("/input/stdin/path"), "--input"),
    ] {
        let path = path.unwrap_or_default();
        if path.len() >= PATH {
            let (bytes, most) = (path.len(), PATH - 1);
            return Err(Excess(format!(
                "{named}: the path has {bytes} bytes, and Linux allows {most}"
            )));
        }
        if path.contains('\0') {
            return Err(Excess(format!("{named}: the path has a zero byte")));
        }
    }
    Ok(())
}

/// Whether a JSON text may have a zero byte in a string.
fn has_zero(text: &[u8]) -> bool {
    let is_zero = |at: usize| text.get(at..).is_some_and(|rest| rest.starts_with(ZERO));
    memchr_iter(b'\\', text).any(is_zero)
}

/// Shortens a name, which may be as long as a message.
fn short(name: &str) -> String {
    const LONGEST: usize = 40;
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
    .replace('\0', "\\0")
}

/// The maximum of bytes of arguments and environment under a stack limit.
fn arguments(stack: Option<u64>) -> u64 {
    stack.map_or(MOST_ARGUMENTS, |stack| (stack / 4).clamp(LEAST_ARGUMENTS, MOST_ARGUMENTS))
}

/// How many processes jobs may have on this host, and the name of the limit.
fn process_limit() -> Option<(u64, String)> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let mut limits: Vec<(u64, String)> = ["pid_max", "threads-max"]
        .into_iter()
        .filter_map(|name| {
            Some((number(&format!("/proc/sys/kernel/{name}"))?, format!("kernel.{name}")))
        })
        .collect();
    // RLIMIT_NPROC does not apply to root.
    if !geteuid().is_root()
        && let Some(limit) = getrlimit(Resource::Nproc).current
    {
        limits.push((limit, "processes of the user, ulimit -u".to_owned()));
    }
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limits.extend(control_groups(&groups).filter_map(|path| Some((number(&path)?, path))));
    limits.into_iter().min()
}

/// The files with the process limits of the control groups that this process is in, of either version of control
/// groups. A file that does not exist or sets no limit has no number.
fn control_groups(groups: &str) -> impl Iterator<Item = String> {
    let mounts = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        match (fields.next()?, fields.next()?) {
            ("", path) => Some(("/sys/fs/cgroup", path)),
            (controllers, path) if controllers.split(',').any(|name| name == "pids") => {
                Some(("/sys/fs/cgroup/pids", path))
            }
            _ => None,
        }
    });
    mounts.flat_map(|(mount, path)| {
        let groups = Path::new(path).ancestors();
        groups.map(move |group| {
            let group = group.display().to_string();
            format!("{mount}{}/pids.max", group.trim_end_matches('/'))
        })
    })
}

#[cfg(test)]
mod tests {
    use jobtap_core::jobspec::JobspecBuilder;
    use serde_json::json;

    use super::*;

    fn limits() -> HostLimits {
        let processes = Some((1000, "kernel.pid_max".to_owned()));
        HostLimits { processes, files: 232, arguments: 200_000, hosts: 1 }
    }

    fn job() -> JobspecBuilder {
        JobspecBuilder::new(["true"])
    }

    fn to_file(builder: JobspecBuilder) -> JobspecBuilder {
        let file = |path| json!({"type": "file", "path": path});
        let builder = builder.shell_option("input", json!({"stdin": file("/dev/null")})).unwrap();
        builder.shell_option("output", json!({"stdout": file("o")})).unwrap()
    }

    #[track_caller]
    fn refused(limits: &HostLimits, builder: JobspecBuilder, text: &str) {
        let jobspec = builder.build().unwrap();
        let refusal = limits.check(&jobspec).unwrap_err().to_string();
        assert!(refusal.starts_with(text), "{refusal}");
        assert!(!limits.obviously_fits(&jobspec, &jobspec.value().to_string()), "{refusal}");
    }

    #[track_caller]
    fn taken(limits: &HostLimits, builder: JobspecBuilder) {
        limits.check(&builder.build().unwrap()).unwrap();
    }

    #[test]
    fn a_usual_job_is_taken_without_reading_it() {
        let variables = (0..100).map(|n| (format!("VARIABLE_{n}"), format!("/some/path/{n}")));
        let variables: Vec<_> = variables.collect();
        let variables = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let text = job().ntasks(16).cwd("/home/u").environment(variables).to_value().to_string();
        let jobspec = Jobspec::parse(&text).unwrap();
        assert!(limits().obviously_fits(&jobspec, &text));
        limits().check(&jobspec).unwrap();
        // 16 tasks may have 11 files each.
        assert!(!HostLimits { files: OWN_FILES + 175, ..limits() }.obviously_fits(&jobspec, &text));
    }

    #[test]
    fn tasks_are_limited_by_processes() {
        let text = "--ntasks: 1001 tasks on one host are more than the 1000 processes that it can \
                    have (kernel.pid_max)";
        refused(&limits(), to_file(job().ntasks(1001)), text);
        taken(&limits(), to_file(job().ntasks(1000)));
        let more = HostLimits { hosts: 2, ..limits() };
        taken(&more, to_file(job().ntasks(2000)));
        refused(&more, to_file(job().ntasks(2001)), "--ntasks: 1001 tasks on one host");
    }

    #[test]
    fn tasks_per_resource_are_limited_too() {
        let per = json!({"type": "core", "count": 300_000_000});
        let job = to_file(job().ntasks(1).shell_option("per-resource", per).unwrap());
        refused(&limits(), job, "--tasks-per-core: 300000000 tasks on one host are more than");
    }

    #[test]
    fn tasks_are_limited_by_the_files_that_they_keep_open() {
        taken(&limits(), job().ntasks(66));
        refused(
            &limits(),
            job().ntasks(67),
            "--ntasks: 67 tasks on one host need 3 open files each for their input and output, and \
             there can be 200 (hard limit of open files of the manager, ulimit -Hn): ask for fewer",
        );
        let input = json!({"stdin": {"type": "service"}});
        let job = job().ntasks(67).shell_option("input", input).unwrap();
        refused(&limits(), job, "--ntasks: 67 tasks on one host need 3 open files each");
    }

    #[test]
    fn simulated_jobs_have_no_processes() {
        let test = json!({"run_duration": "1s"});
        taken(&limits(), job().ntasks(1_000_000).attribute("exec.test", test).unwrap());
    }

    #[test]
    fn arguments_and_variables_are_what_a_program_takes() {
        let long = "x".repeat(STRING);
        let text =
            "command: argument 1 has 131072 bytes, and Linux allows 131071: pass it in a file";
        refused(&limits(), JobspecBuilder::new(["echo", &long]), text);
        taken(&limits(), JobspecBuilder::new(["echo", &long[1..]]));
        let text = "--env: variable A has 131072 bytes";
        refused(&limits(), job().environment([("A", &long[2..])]), text);
        taken(&limits(), job().environment([("A", &long[3..])]));
        let text = "command and --env: arguments and environment have 2";
        let variables = ["A", "B"].map(|name| (name, &long[..100_000]));
        refused(&limits(), job().environment(variables), text);
        let expanded = json!({"A": long});
        let job = job().shell_option("env-expand", expanded).unwrap();
        refused(&limits(), job, "--env: variable A has 131074 bytes");
    }

    #[test]
    fn zero_bytes_and_endless_paths_are_refused_by_their_option() {
        let job = |word: &str| JobspecBuilder::new(["echo", word]);
        refused(&limits(), job("a\0b"), "command: argument 1 has a zero byte");
        let variable = job("x").environment([("A", "b\0")]);
        refused(&limits(), variable, "--env: variable A has a zero byte");
        let cwd = format!("/{}", "d".repeat(4095));
        refused(&limits(), job("x").cwd(&cwd), "--cwd: the path has 4096 bytes");
        let output = json!({"stdout": {"path": cwd}});
        let output = job("x").shell_option("output", output).unwrap();
        refused(&limits(), output, "--output: the path has 4096 bytes, and Linux allows 4095");
    }

    #[test]
    fn this_host_has_limits() {
        let (processes, limit) = process_limit().unwrap();
        assert!(processes > 0 && !limit.is_empty());
        assert_eq!(arguments(Some(8 << 20)), 2 << 20);
        assert_eq!((arguments(Some(4096)), arguments(None)), (LEAST_ARGUMENTS, MOST_ARGUMENTS));
    }

    #[test]
    fn control_groups_of_both_versions_are_found() {
        let found = |groups| control_groups(groups).collect::<Vec<_>>().join(" ");
        let two = "/sys/fs/cgroup/a/b/pids.max /sys/fs/cgroup/a/pids.max /sys/fs/cgroup/pids.max";
        assert_eq!(found("0::/a/b\n"), two);
        let one = "/sys/fs/cgroup/pids/a/pids.max /sys/fs/cgroup/pids/pids.max";
        assert_eq!(found("9:cpu,pids:/a\n4:memory:/a\n"), one);
    }
}
