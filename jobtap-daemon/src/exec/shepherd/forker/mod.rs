//! The shepherd's side of its forker: the [process] that starts the tasks of all jobs.
//!
//! A process that a job can signal, and that other jobs need, would let one job end all others. The forker is the
//! parent of all tasks, and the only such process that a job knows. When it dies, the shepherd becomes the parent of
//! its children and starts another forker.

mod forked_jobs;
pub(super) mod process;
mod progress;
mod request;
mod system;
mod task;
mod task_report;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::rc::Rc;

use jobtap_core::job::{JobId, Reach};
use rustix::cmsg_space;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recv, sendmsg, socketpair,
};
use rustix::process::{Pid, Signal};
use tokio::io::Interest;
use tokio::net::UnixStream;

pub(super) use self::forked_jobs::{ForkedJob, ForkedJobs};
use self::progress::Progress;
pub(super) use self::request::{FileUse, Limit, Open, ShepherdEnd, Spawn, Standard};
use self::request::{ForkerReport, ForkerRequest};
pub(super) use self::task_report::{Begun, TaskReport};
use crate::open_files::OpenFiles;

/// The maximum number of files that come with a request: three streams, a PMI socket and a terminal, three of the
/// shepherd's ends, and the report.
const MOST_FILES: usize = 9;

/// The number of ended jobs that are collected before the forker is notified. Until then it has the files of their
/// tasks open.
const MOST_ENDED: usize = 64;

/// The program that this process executes, even if its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The shepherd's handle of its forker, with the requests that the forker hasn't answered.
pub(super) struct Forker {
    /// The words of the command that starts a forker.
    command: Vec<OsString>,
    /// A variable of its environment.
    variable: (&'static str, String),
    /// The socket at which a manager finds the shepherd: a forker that takes the shepherd's place listens there, too.
    listener: OwnedFd,
    process: Option<Process>,
    /// The tasks that it was asked to start and hasn't reported yet, by the number of the request.
    requested: BTreeMap<u64, Requested>,
    requests: u64,
    /// Requests that the socket had no space for, with their files.
    unsent: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    /// Jobs that it has to forget.
    ended: Vec<JobId>,
}

/// A task that a forker was asked to start.
struct Requested {
    job: JobId,
    /// The report of its process, unless the task is plain.
    report: Option<TaskReport>,
}

struct Process {
    pid: Pid,
    progress: Progress,
    /// `None` when its other end was closed.
    control: Option<UnixStream>,
    /// Its children that haven't exited.
    children: HashSet<Pid>,
    /// The beginning of a report that is not complete yet.
    partial: Vec<u8>,
    /// Whether it has reported anything.
    has_served: bool,
}

/// A task whose start a dead forker has not reported.
pub(super) struct Unreported {
    number: u64,
    progress: Rc<Progress>,
    pub(super) job: JobId,
    /// The report of its process, unless the task is plain.
    pub(super) report: Option<TaskReport>,
}

impl Unreported {
    /// Whether the process of the task has begun. Ask again while the answer is `Perhaps`.
    pub(super) fn begun(&mut self) -> Begun {
        match (self.progress.begun(self.number), &mut self.report) {
            (Begun::Perhaps, Some(report)) => report.begun(),
            (begun, _) => begun,
        }
    }
}

/// An event of the forker that the shepherd has to handle.
pub(super) enum ForkerEvent {
    /// The process of a task was started. It reports whether it executes its program, unless it does already.
    Started { job: JobId, pid: Pid, report: Option<TaskReport> },
    /// No process was started.
    NotForked { job: JobId, error: io::Error },
    /// A process has exited with this wait status, and is reaped.
    Exited { pid: Pid, status: ExitStatus },
}

impl Forker {
    /// A forker to be started by `command`, the arguments of this program, with this variable.
    pub(super) fn new(
        command: Vec<OsString>,
        variable: (&'static str, String),
        listener: OwnedFd,
    ) -> Self {
        Self {
            command,
            variable,
            listener,
            process: None,
            requested: BTreeMap::new(),
            requests: 0,
            unsent: VecDeque::new(),
            ended: Vec::new(),
        }
    }

    /// Starts the process, unless it runs.
    pub(super) fn start(&mut self) -> io::Result<()> {
        if self.process.is_some() {
            return Ok(());
        }
        let (own, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let own = std::os::unix::net::UnixStream::from(OpenFiles::of_this_process().apart(own));
        own.set_nonblocking(true)?;
        let control = UnixStream::from_std(own)?;
        let (listener, progress) = (self.listener.try_clone()?, Progress::new()?);
        let shared = progress.as_fd().try_clone_to_owned()?;
        let mut words = self.command.iter();
        let mut command = Command::new(OWN_PROGRAM);
        if let Some(name) = words.next() {
            command.arg0(name);
        }
        let (name, value) = &self.variable;
        command.env(name, value);
        let child = command.args(words).stdin(Stdio::from(theirs)).stdout(Stdio::null()).spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let (control, children) = (Some(control), HashSet::new());
        let partial = Vec::new();
        let has_served = false;
        self.process = Some(Process { pid, progress, control, children, partial, has_served });
        let sent = self.send(&ForkerRequest::Begin, &[listener.as_fd(), shared.as_fd()]);
        if sent.is_err() {
            // It would start tasks without the progress. Its socket is closed, which ends it.
            self.process = None;
        }
        sent
    }

    /// Its process id, until it is reaped.
    pub(super) fn pid(&self) -> Option<Pid> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// Requests the process of a task, which has these files.
    pub(super) fn spawn(
        &mut self,
        task: Spawn,
        files: &[(FileUse, BorrowedFd<'_>)],
    ) -> io::Result<()> {
        self.start()?;
        let is_plain = task.is_plain(files.iter().map(|(used, _)| *used));
        let (report, theirs) = (!is_plain).then(io::pipe).transpose()?.unzip();
        self.requests += 1;
        let (number, job) = (self.requests, task.job);
        let report = report.map(TaskReport::new);
        self.requested.insert(number, Requested { job, report });
        let files = files.iter().copied();
        let files = files.chain(theirs.iter().map(|pipe| (FileUse::Report, pipe.as_fd())));
        let (files, passed): (Vec<_>, Vec<_>) = files.unzip();
        self.send(&ForkerRequest::Spawn { number, files, task: Box::new(task) }, &passed)
    }

    /// Sends a signal to the process of a task, and possibly to its group. Returns false if it isn't the forker's child.
    pub(super) fn signal(&mut self, pid: Pid, signal: Signal, reach: Reach) -> bool {
        if !self.process.as_ref().is_some_and(|process| process.children.contains(&pid)) {
            return false;
        }
        let request = ForkerRequest::Signal { pid: pid.as_raw_pid(), signal, reach };
        // Fails only if the forker is gone; then the signal comes too late.
        self.send(&request, &[]).is_ok()
    }

    /// Closes the forker's copy of the end of a task's input, which would keep the input from ending.
    pub(super) fn close_input(&mut self, pid: Pid) {
        if self.process.as_ref().is_some_and(|process| process.children.contains(&pid)) {
            let _ = self.send(&ForkerRequest::CloseInput { pid: pid.as_raw_pid() }, &[]);
        }
    }

    /// Notes that a job has ended.
    pub(super) fn forget(&mut self, id: JobId) {
        self.ended.push(id);
        if self.ended.len() >= MOST_ENDED {
            self.send_ended();
        }
    }

    /// Tells the forker which jobs have ended.
    pub(super) fn send_ended(&mut self) {
        if !self.ended.is_empty() {
            let ended = std::mem::take(&mut self.ended);
            let _ = self.send(&ForkerRequest::Forget(ended), &[]);
        }
    }

    /// Lets the process exit. Its children, which it doesn't reap any more, become the shepherd's.
    pub(super) fn dismiss(&mut self) {
        let _ = self.send(&ForkerRequest::Leave, &[]);
        if let Some(process) = &mut self.process {
            process.children.clear();
        }
    }

    /// Whether the process has reported anything.
    pub(super) fn has_served(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.has_served)
    }

    /// Forgets the process, which has died and was reaped. Returns its last reports, and the tasks that it was asked to
    /// start and has not reported.
    pub(super) fn reaped(&mut self) -> (Vec<ForkerEvent>, Vec<Unreported>) {
        // Tokio reads only when its driver has seen that there is something. The process is gone, so that all it has
        // written is there.
        if let Some(process) = &mut self.process
            && let Some(control) = process.control.take()
        {
            let mut chunk = [0; 64 * ForkerReport::SIZE];
            while let Ok((size, _)) = recv(&control, &mut chunk, RecvFlags::DONTWAIT)
                && size > 0
            {
                process.partial.extend_from_slice(chunk.get(..size).unwrap_or_default());
            }
        }
        let reports = self.take_reports();
        let Some(process) = self.process.take() else { return (reports, Vec::new()) };
        self.unsent.clear();
        self.ended.clear();
        let progress = Rc::new(process.progress);
        let unreported = |(number, Requested { job, report })| Unreported {
            number,
            progress: progress.clone(),
            job,
            report,
        };
        let requested = std::mem::take(&mut self.requested);
        (reports, requested.into_iter().map(unreported).collect())
    }

    /// Waits until the process has reported something, or accepts requests again.
    pub(super) async fn ready(&self) {
        let control = self.process.as_ref().and_then(|process| process.control.as_ref());
        let Some(control) = control else { return std::future::pending().await };
        let interest = match self.unsent.is_empty() {
            true => Interest::READABLE,
            false => Interest::READABLE | Interest::WRITABLE,
        };
        // An error shows when the socket is used.
        let _ = control.ready(interest).await;
    }

    /// Sends requests that are waiting, and takes what the process has reported.
    pub(super) fn exchange(&mut self) -> Vec<ForkerEvent> {
        self.send_waiting();
        self.take_reports()
    }

    fn take_reports(&mut self) -> Vec<ForkerEvent> {
        let mut reports = Vec::new();
        let Some(process) = &mut self.process else { return reports };
        let mut chunk = [0; 64 * ForkerReport::SIZE];
        while let Some(control) = &process.control {
            match control.try_read(&mut chunk) {
                Ok(0) => process.control = None,
                Ok(size) => {
                    process.partial.extend_from_slice(chunk.get(..size).unwrap_or_default())
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The process is gone with requests that it hasn't read.
                Err(_) => process.control = None,
            }
        }
        let (records, rest) = process.partial.as_chunks::<{ ForkerReport::SIZE }>();
        process.has_served |= !records.is_empty();
        for record in records.iter().filter_map(|bytes| ForkerReport::decode(*bytes)) {
            match record {
                ForkerReport::Started { number, pid } => {
                    let requested = self.requested.remove(&number).zip(Pid::from_raw(pid));
                    let Some((Requested { job, report }, pid)) = requested else { continue };
                    process.children.insert(pid);
                    reports.push(ForkerEvent::Started { job, pid, report });
                }
                ForkerReport::NotForked { number, errno } => {
                    let Some(Requested { job, .. }) = self.requested.remove(&number) else {
                        continue;
                    };
                    let error = io::Error::from_raw_os_error(errno);
                    reports.push(ForkerEvent::NotForked { job, error });
                }
                ForkerReport::Exited { pid, status } => {
                    let Some(pid) = Pid::from_raw(pid) else { continue };
                    process.children.remove(&pid);
                    let status = ExitStatus::from_raw(status);
                    reports.push(ForkerEvent::Exited { pid, status });
                }
            }
        }
        process.partial = rest.to_vec();
        reports
    }

    fn send(&mut self, request: &ForkerRequest, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut bytes = postcard::to_extend(request, vec![0; 4]).map_err(io::Error::other)?;
        let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
        if let Some(head) = bytes.first_chunk_mut() {
            *head = length.to_ne_bytes();
        }
        if self.unsent.is_empty() {
            match self.write(&bytes, files) {
                Ok(size) if size == bytes.len() => return Ok(()),
                Ok(size) => {
                    bytes.drain(..size);
                    self.unsent.push_back((bytes, Vec::new()));
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The process is gone: what it hasn't reported is requested again when its death is noticed.
                Err(_) => return Ok(()),
            }
        }
        let files = files.iter().map(BorrowedFd::try_clone_to_owned);
        self.unsent.push_back((bytes, files.collect::<io::Result<_>>()?));
        Ok(())
    }

    fn send_waiting(&mut self) {
        while let Some((mut bytes, files)) = self.unsent.pop_front() {
            let passed: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
            match self.write(&bytes, &passed) {
                Ok(size) if size == bytes.len() => {}
                Ok(size) => {
                    bytes.drain(..size);
                    self.unsent.push_front((bytes, Vec::new()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.unsent.push_front((bytes, files));
                }
                Err(_) => {}
            }
        }
    }

    /// Writes as much to the process as its socket takes, with the files if any byte is written.
    fn write(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let control = self.process.as_ref().and_then(|process| process.control.as_ref());
        let control = control.ok_or(io::ErrorKind::BrokenPipe)?;
        control.try_io(Interest::WRITABLE, || {
            let mut space = [std::mem::MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_FILES))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let buffers = [io::IoSlice::new(bytes)];
            Ok(sendmsg(control.as_fd(), &buffers, &mut ancillary, SendFlags::NOSIGNAL)?)
        })
    }
}

#[cfg(test)]
impl Forker {
    /// The forker of a shepherd in a test: the test's binary, run again.
    pub(super) fn for_test(state_dir: &std::path::Path, nonce: &str) -> io::Result<Self> {
        let listener = std::os::unix::net::UnixListener::bind(state_dir.join("test.sock"))?;
        let test = ["--exact", "exec::tests::shepherd_process", "--nocapture"];
        let mut command = vec![std::env::current_exe()?.into_os_string()];
        command.extend(test.map(OsString::from));
        command.extend([crate::exec::SHEPHERD_ARGUMENT.into(), state_dir.as_os_str().to_owned()]);
        command.extend(["1000", "1024", "0", nonce].map(OsString::from));
        Ok(Self::new(command, ("JOBTAP_TEST", String::new()), listener.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::process::{WaitOptions, kill_process, waitpid};

    use super::*;

    fn task(program: &str, args: &[&str], dir: &std::path::Path) -> Spawn {
        Spawn {
            job: JobId::new(7),
            rank: 0,
            record: None,
            program: program.into(),
            directory: dir.to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env: Vec::new(),
            cpus: None,
            limits: Vec::new(),
            user: None,
            opens: Vec::new(),
        }
    }

    /// The threads of a process, of which one serves the forker in a test.
    fn threads(pid: Pid, of_each: impl Fn(std::path::PathBuf) -> bool) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_pid())).unwrap();
        threads.map(|thread| thread.unwrap().path()).all(of_each)
    }

    fn killed(pid: Pid) {
        kill_process(pid, Signal::KILL).unwrap();
        waitpid(Some(pid), WaitOptions::empty()).unwrap();
    }

    #[test]
    fn what_a_dead_forker_has_reported_is_read_to_its_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let entered = runtime.enter();
        let dir = tempfile::tempdir().unwrap();
        let mut forker = Forker::for_test(dir.path(), "reported").unwrap();
        let done = dir.path().join("done");
        let touch = task("/usr/bin/touch", &["touch", done.to_str().unwrap()], dir.path());
        forker.spawn(touch, &[]).unwrap();
        drop(entered);
        // The socket takes requests only when the driver has seen it.
        runtime.block_on(forker.ready());
        assert!(forker.exchange().is_empty());
        // The forker reaps the process when it has reported its exit. The driver sees nothing of it.
        let pid = forker.pid().unwrap();
        let has_no_child =
            |thread: std::path::PathBuf| fs::read(thread.join("children")).unwrap().is_empty();
        while !done.exists() || !threads(pid, has_no_child) {
            std::thread::yield_now();
        }
        killed(pid);
        let (reports, unreported) = forker.reaped();
        assert!(matches!(reports[..], [ForkerEvent::Started { .. }, ForkerEvent::Exited { .. }]));
        assert!(unreported.is_empty());
    }

    #[test]
    fn a_task_that_a_dead_forker_has_not_reported_is_known_though_it_has_exited() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        let dir = tempfile::tempdir().unwrap();
        let mut forker = Forker::for_test(dir.path(), "unreported").unwrap();
        for _ in 0..1000 {
            forker.spawn(task("/bin/true", &["true"], dir.path()), &[]).unwrap();
        }
        // Its reports aren't read: it waits when the socket takes no more of them.
        let pid = forker.pid().unwrap();
        let is_asleep = |thread: std::path::PathBuf| {
            fs::read_to_string(thread.join("stat")).is_ok_and(|stat| stat.contains(") S "))
        };
        let mut looks = 0;
        while looks < 1000 {
            let unsent = forker.unsent.len();
            runtime.block_on(async { tokio::task::yield_now().await });
            forker.send_waiting();
            let is_still = unsent == forker.unsent.len() && threads(pid, is_asleep);
            looks = if is_still { looks + 1 } else { 0 };
        }
        killed(pid);
        let (_, mut unreported) = forker.reaped();
        let begun: Vec<Begun> = unreported.iter_mut().map(Unreported::begun).collect();
        let [Begun::Yes(_), rest @ ..] = &begun[..] else { panic!("{begun:?}") };
        assert!(!rest.is_empty() && rest.iter().all(|begun| *begun == Begun::No), "{rest:?}");
    }
}
