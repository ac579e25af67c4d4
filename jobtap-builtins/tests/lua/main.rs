//! Scripts in the style of real sites, with the results that they have in Slurm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod fields;
mod language;
mod limits;
mod loading;
mod modules;
mod plugin;
mod releases;
mod sites;

use std::path::{Path, PathBuf};

use jobtap_builtins::lua::{LoadError, LogLine, Options, Script, Surroundings, Verdict};
use jobtap_core::slurm::{JobDescriptor, JobRecord, Partition};

/// The function that every script needs, but no test is about.
const MODIFY: &str = "function slurm_job_modify() return slurm.SUCCESS end\n";

/// A script in a directory of its own.
struct Site {
    directory: tempfile::TempDir,
    options: Options,
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, options: Options { cluster: "t".to_owned(), ..Options::default() } }
    }

    fn with(options: Options) -> Self {
        Self { options, ..Self::new() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("job_submit.lua")
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn load(&self, text: &str) -> Result<Script, LoadError> {
        self.write("job_submit.lua", text);
        Script::load(&self.path(), self.options.clone(), &mut Vec::new())
    }

    /// Returns the error of a script that can't be loaded, without the script's directory.
    fn refused(&self, text: &str) -> String {
        let error = self.load(text).unwrap_err().to_string();
        let directory = format!("{}/", self.directory.path().display());
        error.replace(&directory, "")
    }
}

/// A request, and what else a script can read.
#[derive(Default)]
struct Request {
    desc: JobDescriptor,
    uid: u32,
    around: Surroundings,
}

impl Request {
    fn new(desc: JobDescriptor) -> Self {
        Self { desc, uid: 1000, ..Self::default() }
    }

    fn partitions(mut self, names: &[&str]) -> Self {
        let partition =
            |name: &&str| Partition { name: Some((*name).to_owned()), ..Partition::default() };
        self.around.partitions = names.iter().map(partition).collect();
        self
    }

    /// Runs it through a script.
    fn submit(mut self, script: &mut Script) -> (Verdict, JobDescriptor) {
        let verdict = script.submit(&mut self.desc, self.around, self.uid);
        (verdict, self.desc)
    }

    fn modify(mut self, script: &mut Script, job: JobRecord) -> (Verdict, JobDescriptor) {
        let verdict = script.modify(&mut self.desc, job, self.around, self.uid);
        (verdict, self.desc)
    }
}

/// Runs the body of `slurm_job_submit` on a request.
fn submit_with(options: Options, body: &str, desc: JobDescriptor) -> (Verdict, JobDescriptor) {
    let site = Site::with(options);
    let text =
        format!("function slurm_job_submit(job_desc, part_list, submit_uid) {body}\nend\n{MODIFY}");
    let mut script = site.load(&text).unwrap();
    Request::new(desc).submit(&mut script)
}

fn submit(body: &str, desc: JobDescriptor) -> (Verdict, JobDescriptor) {
    submit_with(Options::default(), body, desc)
}

/// Runs a body that logs, and returns its lines.
fn logged(body: &str) -> Vec<String> {
    logged_with(Options::default(), body)
}

fn logged_with(options: Options, body: &str) -> Vec<String> {
    let (verdict, _) =
        submit_with(options, &format!("{body}\nreturn slurm.SUCCESS"), JobDescriptor::default());
    assert_eq!(verdict.error, None, "{body}");
    texts(&verdict.log)
}

/// The error of a body that fails, without the place of the script.
fn failed(body: &str) -> String {
    let (verdict, _) = submit(body, JobDescriptor::default());
    let error = verdict.error.unwrap_or_else(|| panic!("no error: {body}"));
    without_place(&error).to_owned()
}

/// `PATH/job_submit.lua:LINE: TEXT` without the path.
fn without_place(error: &str) -> &str {
    error.split_once("job_submit.lua").map_or(error, |(_, text)| text)
}

fn texts(log: &[LogLine]) -> Vec<String> {
    log.iter().map(|line| line.text.clone()).collect()
}

/// Moves a file's time forward, so that it counts as changed.
fn touch(path: &Path) {
    let file = std::fs::File::options().append(true).open(path).unwrap();
    let now = file.metadata().unwrap().modified().unwrap();
    file.set_modified(now + std::time::Duration::from_secs(2)).unwrap();
}
