//! Standard input, output and error of a job's tasks: files and pipes, made ready before any task
//! is started so that a path that can't be opened fails the job while nothing runs yet.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobtap_core::job::{Encoding, JobId};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::options::{Input, IoOptions, Stream};
use super::output::OutputLog;
use super::template::{is_per_task, render};
use crate::exec::StartJob;
use crate::open_files::OpenFiles;

/// The output log, as the streams of a job share it.
pub(super) type SharedLog = Arc<Mutex<OutputLog>>;

/// Locks a log. One stream's fault must not silence the others, so poison is ignored.
pub(super) fn lock(log: &SharedLog) -> MutexGuard<'_, OutputLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where captured output goes.
#[derive(Clone)]
pub(super) enum Target {
    /// The job's output log.
    Log(SharedLog),
    /// A file whose lines begin with the task's rank.
    Labeled(Arc<File>),
}

/// A stream of a task that comes through a pipe.
pub(super) struct Capture {
    pub(super) pipe: PipeReader,
    pub(super) target: Target,
    pub(super) stream: Stream,
    pub(super) rank: u32,
    pub(super) unbuffered: bool,
}

/// What one task is started with, and the shepherd's ends of its pipes.
pub(super) struct TaskIo {
    pub(super) stdin: Stdio,
    pub(super) stdout: Stdio,
    pub(super) stderr: Stdio,
    pub(super) captures: Vec<Capture>,
    pub(super) input: Option<PipeWriter>,
}

/// The input and output of one job.
pub(super) struct JobIo {
    options: IoOptions,
    log: SharedLog,
    /// By stream and rank; streams that name the same path share the file.
    files: BTreeMap<(&'static str, u32), Arc<File>>,
    input: Option<PathBuf>,
}

impl JobIo {
    /// Makes the output log in `state_dir` and opens the files that the job's options name. The
    /// error is for the user.
    pub(super) fn prepare(job: &StartJob, state_dir: &Path) -> Result<Self, String> {
        let options = IoOptions::parse(&job.shell_options)?;
        let path = state_dir.join("output").join(JobId::new(job.id).encode(Encoding::DotHex));
        let mut log = OutputLog::create(&path, job.ntasks)
            .map_err(|error| format!("cannot make the output log: {error}"))?;
        let files = open_files(job, &options, &mut log)?;
        let input = match &options.input {
            Input::File(path) => Some(job.cwd.join(render(path, job, 0))),
            Input::Null | Input::Service => None,
        };
        if let Some(path) = &input {
            open(path, File::options().read(true))
                .map_err(|error| cannot_open("input", path, &error))?;
        }
        Ok(Self { options, log: Arc::new(Mutex::new(log)), files, input })
    }

    /// Whether the tasks read what clients send.
    pub(super) fn takes_input(&self) -> bool {
        self.options.input == Input::Service
    }

    /// The file that all tasks read.
    pub(super) fn input_file(&self) -> Option<&Path> {
        self.input.as_deref()
    }

    /// Input and output for the task ranked `rank`.
    pub(super) fn task(&self, rank: u32) -> io::Result<TaskIo> {
        let mut captures = Vec::new();
        let mut output = |stream: Stream| -> io::Result<Stdio> {
            let options = self.options.stream(stream);
            let target = match self.files.get(&(stream.name(), rank)) {
                Some(file) if !options.label => return Ok(Stdio::from(file.try_clone()?)),
                Some(file) => Target::Labeled(Arc::clone(file)),
                None => Target::Log(Arc::clone(&self.log)),
            };
            let (pipe, writer) = io::pipe()?;
            let pipe = OpenFiles::of_this_process().apart(pipe);
            let unbuffered = options.unbuffered;
            captures.push(Capture { pipe, target, stream, rank, unbuffered });
            Ok(Stdio::from(writer))
        };
        let stdout = output(Stream::Stdout)?;
        let stderr = output(Stream::Stderr)?;
        let (stdin, input) = match (&self.input, self.takes_input()) {
            (Some(path), _) => (Stdio::from(open(path, File::options().read(true))?), None),
            (None, true) => {
                let (reader, writer) = io::pipe()?;
                let writer = OpenFiles::of_this_process().apart(writer);
                (Stdio::from(reader), Some(writer))
            }
            (None, false) => (Stdio::null(), None),
        };
        Ok(TaskIo { stdin, stdout, stderr, captures, input })
    }

    /// Writes the head of the output log, for readers that come before any output.
    pub(super) fn announce(&self) -> io::Result<()> {
        lock(&self.log).flush()
    }
}

fn cannot_open(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot open {what} file {}: {}", path.display(), plain(error))
}

/// An error of the system without its number, as users know it.
pub(super) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

fn open_files(
    job: &StartJob,
    options: &IoOptions,
    log: &mut OutputLog,
) -> Result<BTreeMap<(&'static str, u32), Arc<File>>, String> {
    let mut by_path: BTreeMap<PathBuf, Arc<File>> = BTreeMap::new();
    let mut files = BTreeMap::new();
    for stream in Stream::BOTH {
        let Some(template) = &options.stream(stream).path else {
            continue;
        };
        let per_task = is_per_task(template);
        for rank in 0..job.ntasks {
            let name = render(template, job, rank);
            let path = job.cwd.join(&name);
            let file = match by_path.get(&path) {
                Some(file) => Arc::clone(file),
                None => {
                    let file = open_output(&path, options.append)?;
                    Arc::new(OpenFiles::of_this_process().apart(file))
                }
            };
            by_path.insert(path, Arc::clone(&file));
            files.insert((stream.name(), rank), file);
            if per_task {
                log.redirect(stream, &rank.to_string(), &name);
            } else if rank == 0 {
                let ranks =
                    if job.ntasks == 1 { "0".into() } else { format!("0-{}", job.ntasks - 1) };
                log.redirect(stream, &ranks, &name);
            }
        }
    }
    Ok(files)
}

/// Opens a user's file. The shepherd serves all jobs, so it must neither wait for the other end of a
/// FIFO nor get a controlling terminal.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Always for appending: tasks and streams that share a file must not write over each other.
fn open_output(path: &Path, append: bool) -> Result<File, String> {
    let fail = |error| cannot_open("output", path, &error);
    let file = open(path, File::options().create(true).append(true)).map_err(fail)?;
    if !append && file.metadata().map_err(fail)?.is_file() {
        file.set_len(0).map_err(fail)?;
    }
    Ok(file)
}
