//! Standard input, output and error of a job's tasks: files and pipes.
//!
//! All files are opened once before any task is started, so that a path that can't be opened fails the job before
//! any of its tasks runs. The files of single tasks are then closed until their task is started, so that the
//! number of open files does not grow with the number of tasks.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::super::files::user_file::{Purpose, TaskStream, UserFile, for_task, open};
use super::super::forker::ShepherdEnd;
use super::super::job_user::{JobUser, JobUserError};
use super::super::option_error::{OptionError, OptionFault};
use super::super::output_stream::Stream;
use super::super::placement::own_tasks;
use super::super::start_error::StartError;
use super::super::template::{is_per_task, render, render_for_all};
use super::ends::{Capture, Ends, SharedLog, Target, lock};
use super::fifo::Fifo;
use super::options::{Input, IoOptions};
use super::output::{OutputLog, Severity, TaskCount};
use super::output_file::OutputFile;
use super::pack::Pack;
use super::pty::{Pty, PtyOptions, Terminal};
use super::task_pipe::JobHelpers;
use crate::exec::StartJob;
use crate::exec::job_files::JobFiles;
use crate::open_files::OpenFiles;
use crate::output_pack::file_of_node;

/// The standard streams of one task, and the shepherd's ends of its pipes.
pub(in crate::exec::shepherd) struct TaskIo {
    /// `None` for empty input: the forker's own, `/dev/null`.
    pub(in crate::exec::shepherd) stdin: Option<TaskStream>,
    pub(in crate::exec::shepherd) stdout: TaskStream,
    pub(in crate::exec::shepherd) stderr: TaskStream,
    pub(in crate::exec::shepherd) captures: Vec<Capture>,
    pub(in crate::exec::shepherd) input: Option<PipeWriter>,
    /// The task's terminal, if it has one, and the work to copy between it and the pipes.
    pub(in crate::exec::shepherd) terminal: Option<(OwnedFd, Terminal)>,
}

/// A terminal that is joined with the streams of a task.
struct Joined {
    capture: Capture,
    input: Option<PipeWriter>,
    terminal: Terminal,
}

/// The files that one task writes to. A stream without a file goes to the job's output log.
pub(in crate::exec::shepherd) struct TaskFiles {
    stdout: Option<Arc<OutputFile>>,
    stderr: Option<Arc<OutputFile>>,
}

impl TaskFiles {
    fn get(&self, stream: Stream) -> Option<&Arc<OutputFile>> {
        match stream {
            Stream::Stdout => self.stdout.as_ref(),
            Stream::Stderr => self.stderr.as_ref(),
        }
    }
}

/// The input and output of one job.
pub(in crate::exec::shepherd) struct JobIo {
    options: IoOptions,
    /// The user that files are opened as.
    job_user: JobUser,
    /// The threads that use FIFOs.
    helpers: JobHelpers,
    pty: Option<PtyOptions>,
    log: SharedLog,
    /// The files that all tasks share; the same file twice if both streams have the same path.
    shared: TaskFiles,
    input: Option<PathBuf>,
}

impl JobIo {
    /// Creates the output log, whose file is one of `logs`, and opens, as `job_user`, the files that all tasks share.
    pub(in crate::exec::shepherd) fn create(
        job: &StartJob,
        job_user: &JobUser,
        helpers: &JobHelpers,
        logs: &Arc<JobFiles>,
    ) -> Result<Self, StartError> {
        let options = IoOptions::parse(&job.shell_options)?;
        let limit = options.limit.unwrap_or(job.output_limit);
        let mut log = match job.takes_output {
            true => OutputLog::held(Arc::clone(logs), job.id, task_count(job), limit),
            false => {
                let file = logs.create(job.id).map_err(StartError::MakeLog)?;
                OutputLog::in_file(file, task_count(job), limit)
            }
        };
        let opener = Opener { job_user, helpers };
        let shared = open_shared(job, &options, &opener, Some(&mut log))?;
        open_pack(job, &options, job_user, &mut log)?;
        let input = match &options.input {
            Input::File(path) => Some(job.cwd.join(render(path, job, 0))),
            Input::Null | Input::Service => None,
        };
        if let Some(path) = &input {
            let opened = job_user.act(|| open(path, Purpose::Read)).flatten();
            opened.map_err(|error| StartError::Input { path: path.clone(), error })?;
        }
        let pty = PtyOptions::parse(&job.shell_options)?;
        if pty.is_some() && input.is_some() {
            return Err(OptionError::new("pty", OptionFault::TerminalInput).into());
        }
        let (job_user, helpers) = (job_user.clone(), helpers.clone());
        let log = Arc::new(Mutex::new(log));
        Ok(Self { options, job_user, helpers, pty, log, shared, input })
    }

    /// The input and output of a job that another shepherd has started.
    pub(in crate::exec::shepherd) fn reopen(
        job: &StartJob,
        job_user: &JobUser,
        helpers: &JobHelpers,
        logs: &JobFiles,
    ) -> Result<Self, StartError> {
        let mut options = IoOptions::parse(&job.shell_options)?;
        // The files already have what was printed before.
        options.append = true;
        let limit = options.limit.unwrap_or(job.output_limit);
        let file = logs.reopen(job.id).or_else(|_| logs.create(job.id));
        let log = file.and_then(|file| match file.metadata()?.len() {
            0 => Ok(OutputLog::in_file(file, task_count(job), limit)),
            _ => OutputLog::continued(file, task_count(job), limit),
        });
        let mut log = log.map_err(StartError::ContinueLog)?;
        open_pack(job, &options, job_user, &mut log)?;
        // The paths of the files were logged when the job began.
        let shared = open_shared(job, &options, &Opener { job_user, helpers }, None)?;
        let pty = PtyOptions::parse(&job.shell_options)?;
        let (job_user, helpers) = (job_user.clone(), helpers.clone());
        let log = Arc::new(Mutex::new(log));
        Ok(Self { options, job_user, helpers, pty, log, shared, input: None })
    }

    /// The FIFOs that all tasks share, to be opened before any of them is started.
    pub(in crate::exec::shepherd) fn fifos(&self) -> impl Iterator<Item = &Arc<Fifo>> {
        let files = [&self.shared.stdout, &self.shared.stderr].into_iter().flatten();
        files.filter_map(|file| file.fifo())
    }

    fn opener(&self) -> Opener<'_> {
        Opener { job_user: &self.job_user, helpers: &self.helpers }
    }

    /// Whether each task has files of its own, to be [prepared](Self::prepare).
    pub(in crate::exec::shepherd) fn has_own_files(&self) -> bool {
        Stream::BOTH.into_iter().any(|stream| self.own_template(stream).is_some())
    }

    /// Prepares the task's own files: creates them, and truncates them unless output is appended. To be
    /// called for all tasks before any of them is started.
    pub(in crate::exec::shepherd) fn prepare(
        &self,
        job: &StartJob,
        rank: u32,
    ) -> Result<(), StartError> {
        for stream in Stream::BOTH {
            let Some(template) = self.own_template(stream) else { continue };
            let path = job.cwd.join(render(template, job, rank));
            self.opener().opened(&path, self.options.append)?;
        }
        Ok(())
    }

    /// Opens the files that the task with rank `rank` writes to.
    pub(in crate::exec::shepherd) fn files(
        &self,
        job: &StartJob,
        rank: u32,
    ) -> Result<TaskFiles, StartError> {
        let path = |stream| {
            let template = self.own_template(stream)?;
            Some(job.cwd.join(render(template, job, rank)))
        };
        let paths = (path(Stream::Stdout), path(Stream::Stderr));
        let own = |path: &Option<PathBuf>, shared: &Option<Arc<OutputFile>>| match path {
            Some(path) => self.opener().opened(path, true).map(Some),
            None => Ok(shared.clone()),
        };
        let stdout = own(&paths.0, &self.shared.stdout)?;
        let same = paths.0 == paths.1 && self.options.stdout.label == self.options.stderr.label;
        let stderr = match &paths.1 {
            Some(_) if same => stdout.clone(),
            path => own(path, &self.shared.stderr)?,
        };
        Ok(TaskFiles { stdout, stderr })
    }

    /// The template that gives each task a file of its own for this stream.
    fn own_template(&self, stream: Stream) -> Option<&str> {
        let path = self.options.stream(stream).path.as_deref();
        path.filter(|template| is_per_task(template))
    }

    /// Warns the user.
    pub(in crate::exec::shepherd) fn warn(&self, component: &str, message: &str) {
        self.tell(Severity::Warning, Some(component), message);
    }

    /// Tells the user why the job fails.
    pub(in crate::exec::shepherd) fn fatal(&self, message: &str) {
        self.tell(Severity::Fatal, None, message);
    }

    /// Tells the user about an error that doesn't stop the job.
    pub(in crate::exec::shepherd) fn error(&self, message: &str) {
        self.tell(Severity::Error, None, message);
    }

    /// Tells the user: in the output log and, as in Flux, in the file that all tasks share for standard error.
    fn tell(&self, severity: Severity, component: Option<&str>, message: &str) {
        lock(&self.log).log(severity, component, message);
        if let Some(file) = self.shared.get(Stream::Stderr) {
            let word = severity.word();
            let component = component.map(|component| format!("{component}: ")).unwrap_or_default();
            let line = format!("jobtap-shell[0]: {word}: {component}{message}\n");
            // The job goes on without a line that can't be written. No task has the file yet.
            let _ = file.write_now(line.as_bytes());
        }
    }

    /// Whether the tasks read input that clients send.
    pub(super) fn takes_input(&self) -> bool {
        self.options.input == Input::Service
    }

    /// The file that all tasks read.
    pub(in crate::exec::shepherd) fn input_file(&self) -> Option<&Path> {
        self.input.as_deref()
    }

    /// Makes the standard streams for the task with rank `rank`, which writes to `files`.
    pub(in crate::exec::shepherd) fn task(
        &self,
        rank: u32,
        files: &TaskFiles,
    ) -> io::Result<TaskIo> {
        if let Some(options) = &self.pty {
            return self.on_terminal(rank, files, options);
        }
        let mut captures = Vec::new();
        let mut output = |stream: Stream| -> io::Result<TaskStream> {
            let options = self.options.stream(stream);
            if let Some(file) = files.get(stream).filter(|_| !options.label) {
                return file.for_task();
            }
            let target = self.target(files, stream);
            let (pipe, writer) = io::pipe()?;
            let pipe = OpenFiles::of_this_process().apart(pipe);
            let unbuffered = options.unbuffered;
            captures.push(Capture { pipe, target, stream, rank, unbuffered });
            Ok(TaskStream::Open(OwnedFd::from(writer)))
        };
        let stdout = output(Stream::Stdout)?;
        let stderr = output(Stream::Stderr)?;
        let (stdin, input) = match (&self.input, self.takes_input()) {
            (Some(path), _) => {
                let stdin = match self.job_user.act(|| open(path, Purpose::Read)).flatten()? {
                    UserFile::Open(file) => TaskStream::Open(for_task(file)?),
                    UserFile::Fifo | UserFile::OfProcess => {
                        TaskStream::OpenedByTask(path.clone(), Purpose::Read)
                    }
                };
                (Some(stdin), None)
            }
            (None, true) => {
                let (reader, writer) = io::pipe()?;
                let writer = OpenFiles::of_this_process().apart(writer);
                (Some(TaskStream::Open(OwnedFd::from(reader))), Some(writer))
            }
            (None, false) => (None, None),
        };
        Ok(TaskIo { stdin, stdout, stderr, captures, input, terminal: None })
    }

    /// The ends of the streams of a running task that another shepherd has started.
    pub(in crate::exec::shepherd) fn resume(
        &self,
        job: &StartJob,
        rank: u32,
        ends: Vec<(ShepherdEnd, OwnedFd)>,
    ) -> Result<Ends, StartError> {
        let files = self.files(job, rank)?;
        let mut resumed = Ends { captures: Vec::new(), input: None, pmi: None, terminal: None };
        let apart = OpenFiles::of_this_process();
        for (end, file) in ends {
            let file = apart.apart(file);
            match end {
                ShepherdEnd::Printed(stream) => {
                    let unbuffered = self.options.stream(stream).unbuffered;
                    let (pipe, target) = (PipeReader::from(file), self.target(&files, stream));
                    let capture = Capture { pipe, target, stream, rank, unbuffered };
                    resumed.captures.push(capture);
                }
                ShepherdEnd::Input => resumed.input = Some(PipeWriter::from(file)),
                ShepherdEnd::Terminal => {
                    let joined = self.join_terminal(rank, &files, file);
                    let joined = joined.map_err(StartError::Terminal)?;
                    resumed.captures.push(joined.capture);
                    resumed.input = joined.input;
                    resumed.terminal = Some(joined.terminal);
                }
            }
        }
        Ok(resumed)
    }

    /// The target of a captured stream.
    fn target(&self, files: &TaskFiles, stream: Stream) -> Target {
        match files.get(stream) {
            Some(file) => Target::File(Arc::clone(file), self.options.stream(stream).label),
            None => Target::Log(Arc::clone(&self.log)),
        }
    }

    /// Makes a terminal for the task with rank `rank`. What it prints is standard output.
    fn on_terminal(
        &self,
        rank: u32,
        files: &TaskFiles,
        options: &PtyOptions,
    ) -> io::Result<TaskIo> {
        if files.get(Stream::Stderr).is_none() {
            lock(&self.log).eof(Stream::Stderr, rank);
        }
        let (task, shepherd) = Pty::open(options, &self.job_user)?.into_sides();
        let stream = || task.try_clone().map(TaskStream::Open);
        let (stdin, stdout, stderr) = (Some(stream()?), stream()?, stream()?);
        let Joined { capture, input, terminal } = self.join_terminal(rank, files, shepherd)?;
        let terminal = Some((task, terminal));
        Ok(TaskIo { stdin, stdout, stderr, captures: vec![capture], input, terminal })
    }

    /// Joins a terminal with the streams that a task without a terminal would have.
    fn join_terminal(&self, rank: u32, files: &TaskFiles, shepherd: OwnedFd) -> io::Result<Joined> {
        let target = self.target(files, Stream::Stdout);
        let apart = OpenFiles::of_this_process();
        let (pipe, output) = io::pipe()?;
        let interactive = self.pty.as_ref().is_some_and(|pty| pty.interactive);
        let unbuffered = interactive || self.options.stream(Stream::Stdout).unbuffered;
        let pipe = apart.apart(pipe);
        let capture = Capture { pipe, target, stream: Stream::Stdout, rank, unbuffered };
        let (typed, input) = match self.takes_input() {
            true => {
                let (typed, input) = io::pipe()?;
                (Some(apart.apart(typed)), Some(apart.apart(input)))
            }
            false => (None, None),
        };
        let terminal = Pty::join(shepherd, typed, apart.apart(output))?;
        Ok(Joined { capture, input, terminal })
    }

    /// The output log.
    pub(in crate::exec::shepherd) fn log(&self) -> SharedLog {
        Arc::clone(&self.log)
    }

    /// Writes the first entries of the output log, for readers that start before any output.
    pub(in crate::exec::shepherd) fn flush_log(&self) -> io::Result<()> {
        lock(&self.log).flush()
    }
}

fn task_count(job: &StartJob) -> TaskCount {
    TaskCount { all: job.ntasks, own: own_tasks(job) }
}

fn open_shared(
    job: &StartJob,
    options: &IoOptions,
    opener: &Opener<'_>,
    mut log: Option<&mut OutputLog>,
) -> Result<TaskFiles, StartError> {
    let ranks = match job.ntasks {
        1 => "0".to_owned(),
        ntasks => format!("[0-{}]", ntasks.saturating_sub(1)),
    };
    let mut opened: Option<(PathBuf, bool, Arc<OutputFile>)> = None;
    let mut shared = |stream: Stream| -> Result<Option<Arc<OutputFile>>, StartError> {
        let label = options.stream(stream).label;
        let Some(template) = options.stream(stream).path.as_ref() else { return Ok(None) };
        // The shepherd of the first node says it for all.
        if let Some(log) = log.as_mut().filter(|_| !job.is_follower()) {
            log.redirect(stream, &ranks, &render_for_all(template, job));
        }
        if is_per_task(template) {
            return Ok(None);
        }
        let path = job.cwd.join(render(template, job, 0));
        let file = match &opened {
            Some((same, labeled, file)) if *same == path && *labeled == label => Arc::clone(file),
            _ => {
                // The shepherd of the first node has emptied it for all.
                let append = options.append || job.is_follower();
                opener.opened(&path, append)?
            }
        };
        opened = Some((path, label, Arc::clone(&file)));
        Ok(Some(file))
    };
    Ok(TaskFiles { stdout: shared(Stream::Stdout)?, stderr: shared(Stream::Stderr)? })
}

/// Lets the output log write to the job's output pack, if it has one.
fn open_pack(
    job: &StartJob,
    options: &IoOptions,
    job_user: &JobUser,
    log: &mut OutputLog,
) -> Result<(), StartError> {
    let Some(template) = &options.pack else { return Ok(()) };
    let path = file_of_node(&job.cwd.join(render(template, job, 0)), job.rank());
    let failed = |error| StartError::Output { path: path.clone(), error };
    let opened = job_user.act(|| open(&path, Purpose::Append)).map_err(JobUserError::Refused)?;
    match opened.map_err(failed)? {
        UserFile::Open(file) if file.metadata().is_ok_and(|found| found.is_file()) => {
            let file = OpenFiles::of_this_process().apart(file);
            log.write_to_pack(Pack::new(file, &path, job));
            Ok(())
        }
        // Blocks have places, which a FIFO or a terminal doesn't have.
        _ => Err(failed(io::Error::other("an output pack must be a regular file"))),
    }
}

/// Whether the tasks of all nodes write to one file, which is emptied first.
pub(in crate::exec) fn empties_shared_file(options: &Value) -> bool {
    let is_shared = |options: &IoOptions, stream| {
        options.stream(stream).path.as_deref().is_some_and(|path| !is_per_task(path))
    };
    IoOptions::parse(options).is_ok_and(|options| {
        !options.append && Stream::BOTH.into_iter().any(|stream| is_shared(&options, stream))
    })
}

/// Opens the files of a job for output.
struct Opener<'a> {
    job_user: &'a JobUser,
    helpers: &'a JobHelpers,
}

impl Opener<'_> {
    /// Opens a file and truncates it, unless `append` is set. Writes always append: tasks and streams that share a file must
    /// not overwrite each other's data.
    fn opened(&self, path: &Path, append: bool) -> Result<Arc<OutputFile>, StartError> {
        let opened = self.job_user.act(|| {
            let opened = open(path, Purpose::Append)?;
            if let UserFile::Open(file) = &opened
                && !append
                && file.metadata()?.is_file()
            {
                file.set_len(0)?;
            }
            Ok(opened)
        });
        let found = opened.map_err(JobUserError::Refused)?;
        let failed = |error| StartError::Output { path: path.to_owned(), error };
        let found = found.map_err(failed)?;
        Ok(Arc::new(OutputFile::new(found, path, self.job_user, self.helpers)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use jobtap_core::job::JobId;

    #[test]
    fn streams_share_a_file_unless_only_one_is_labeled() {
        let directory = tempfile::tempdir().unwrap();
        let cwd = directory.path().to_owned();
        let job = StartJob { ntasks: 2, cwd, ..StartJob::new(JobId::new(1)) };
        let shared = |options| {
            let options = IoOptions::parse(&options).unwrap();
            let mut log =
                OutputLog::in_file(tempfile::tempfile().unwrap(), task_count(&job), 1 << 20);
            let opener = Opener {
                job_user: &JobUser::default(),
                helpers: &JobHelpers::new(&Arc::default()),
            };
            let opened = open_shared(&job, &options, &opener, Some(&mut log));
            let TaskFiles { stdout, stderr } = opened.unwrap();
            Arc::ptr_eq(&stdout.unwrap(), &stderr.unwrap())
        };
        let file = |label: bool| json!({"type": "file", "path": "out", "label": label});
        assert!(shared(json!({"output": {"stdout": file(false), "stderr": file(false)}})));
        assert!(!shared(json!({"output": {"stdout": file(true), "stderr": file(false)}})));
        let other = json!({"type": "file", "path": "err"});
        assert!(!shared(json!({"output": {"stdout": file(false), "stderr": other}})));
    }
}
