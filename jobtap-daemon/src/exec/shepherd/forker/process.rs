//! The process that starts the tasks of all jobs, and is their parent.
//!
//! A job can do to its parent what it can do to itself: `kill -9 $PPID` ends it. So the parent is a process that the
//! others can do without. Its only state is a copy of the shepherd's, and when it dies, the shepherd, a subreaper
//! above it, becomes the parent of its children and gets the statuses of those that have exited meanwhile. If instead
//! the shepherd dies, this process, which is the parent of the tasks and has the ends of their streams, [takes its
//! place](super::super::succession).
//!
//! It has a single thread, so that a new process can do anything before it executes its program, and it is small, so
//! that the system copies little for a new process.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};

use super::super::deserted::is_deserted;
use super::super::ignored_signals::catch_ignored;
use super::super::pids::signals::signal_task;
use super::forked_jobs::{ForkedJobs, ForkedTask};
use super::progress::Progress;
use super::request::{FileUse, ForkerReport, ForkerRequest, Spawn};
use super::system::ChangedSignals;
use super::{MOST_FILES, system, task};

/// The longest body of a request. The system gives a program at most 6 MiB of arguments and environment, and JSON
/// writes a byte as at most six.
const LONGEST: usize = 64 << 20;

/// How a forker ends.
pub(in crate::exec::shepherd) enum End {
    /// Its shepherd no longer needs it.
    Dismissed,
    /// Its shepherd is gone. These jobs need another one, which a manager finds at this socket.
    Orphaned(ForkedJobs, OwnedFd),
}

/// Serves the shepherd at the other end of `control`.
pub(in crate::exec::shepherd) fn serve(control: StdUnixStream) -> io::Result<End> {
    control.set_nonblocking(true)?;
    // Runs on this thread only: `system::fork` relies on that.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let control = UnixStream::from_std(control)?;
        let mut children = signal(SignalKind::child())?;
        let _caught = catch_ignored()?;
        // Caught and ignored: the shepherd ends all jobs on this signal, and needs their statuses.
        let _terminate = signal(SignalKind::terminate())?;
        let jobs = ForkedJobs::default();
        let signals = ChangedSignals::of_this_process();
        let mut forker = ForkerProcess { control, jobs, signals, listener: None, progress: None };
        loop {
            tokio::select! {
                _ = children.recv() => forker.reap().await?,
                _ = forker.control.readable() => match forker.next_request().await? {
                    Received::Nothing => {}
                    Received::Request(request, files) => {
                        if forker.handle(request, files).await.is_break() {
                            return Ok(End::Dismissed);
                        }
                    }
                    Received::End => {
                        return Ok(match forker.listener {
                            Some(listener) => End::Orphaned(forker.jobs, listener),
                            None => End::Dismissed,
                        });
                    }
                },
            }
        }
    })
}

struct ForkerProcess {
    control: UnixStream,
    jobs: ForkedJobs,
    signals: ChangedSignals,
    listener: Option<OwnedFd>,
    progress: Option<Progress>,
}

enum Received {
    /// The socket has no data after all.
    Nothing,
    Request(ForkerRequest, Vec<OwnedFd>),
    /// The shepherd is gone.
    End,
}

impl ForkerProcess {
    async fn next_request(&self) -> io::Result<Received> {
        let mut length = [0; 4];
        let (size, files) =
            match self.control.try_io(Interest::READABLE, || receive(&self.control, &mut length)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Received::Nothing);
                }
                // The shepherd died with records that it hasn't read.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(Received::End);
                }
                received => received?,
            };
        let rest = length.get_mut(size..).unwrap_or_default();
        if size == 0 || !self.read_exact(rest).await? {
            return Ok(Received::End);
        }
        let size = usize::try_from(u32::from_ne_bytes(length)).unwrap_or(usize::MAX);
        if size > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; size];
        if !self.read_exact(&mut body).await? {
            return Ok(Received::End);
        }
        let request = postcard::from_bytes(&body).map_err(io::Error::other)?;
        Ok(Received::Request(request, files))
    }

    /// Returns false at the end of the data, if the shepherd died while it wrote.
    async fn read_exact(&self, mut buffer: &mut [u8]) -> io::Result<bool> {
        while !buffer.is_empty() {
            self.control.readable().await?;
            match self.control.try_read(buffer) {
                Ok(0) => return Ok(false),
                Ok(size) => buffer = buffer.get_mut(size..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Handles a request. Breaks if it is the last one.
    async fn handle(&mut self, request: ForkerRequest, files: Vec<OwnedFd>) -> ControlFlow<()> {
        match request {
            ForkerRequest::Begin => {
                let mut files = files.into_iter();
                self.listener = files.next();
                self.progress = files.next().map(Progress::from);
            }
            ForkerRequest::Spawn { number, files: uses, task } => {
                self.spawn(number, *task, uses, files).await;
            }
            ForkerRequest::Signal { pid, signal, reach } => {
                let pid = Pid::from_raw(pid).filter(|pid| self.jobs.is_running(*pid));
                if let Some(pid) = pid {
                    signal_task(pid, signal, reach);
                }
            }
            ForkerRequest::CloseInput { pid } => {
                let input = Pid::from_raw(pid).map(|pid| self.jobs.take_input(pid));
                close_without_waiting(input.unwrap_or_default());
            }
            ForkerRequest::Forget(jobs) => {
                let ends = jobs.into_iter().flat_map(|id| self.jobs.forget(id));
                close_without_waiting(ends.collect());
            }
            ForkerRequest::Leave => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    async fn spawn(
        &mut self,
        number: u64,
        mut spawn: Spawn,
        uses: Vec<FileUse>,
        files: Vec<OwnedFd>,
    ) {
        let (id, rank, record) = (spawn.job, spawn.rank, spawn.record.take());
        // The system passes only as many files as this process may have open.
        if files.len() != uses.len() {
            let errno = Errno::MFILE.raw_os_error();
            return self.report(ForkerReport::NotForked { number, errno }).await;
        }
        let (mut report, mut theirs, mut ends) = (None, Vec::new(), Vec::new());
        for (used, file) in uses.into_iter().zip(files) {
            match used {
                FileUse::Report => report = Some(file),
                FileUse::ShepherdEnd(end) => ends.push((end, file)),
                used => theirs.push((used, file)),
            }
        }
        let Some(progress) = &self.progress else {
            let errno = Errno::INVAL.raw_os_error();
            return self.report(ForkerReport::NotForked { number, errno }).await;
        };
        // Without this note, the shepherd would take a request that was begun for one that was not, and repeat it.
        if let Err(error) = progress.begin(number) {
            let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            return self.report(ForkerReport::NotForked { number, errno }).await;
        }
        let started = match report {
            None => task::spawn(number, spawn, &theirs, progress, &self.signals),
            Some(report) => system::fork(move || task::run(spawn, report, theirs)),
        };
        match started {
            Ok(pid) => {
                self.jobs.add(id, record, ForkedTask { rank, pid, status: None, ends });
                self.report(ForkerReport::Started { number, pid: pid.as_raw_pid() }).await;
            }
            Err(error) => {
                // An error without a number is about a text with a NUL in it.
                let errno = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
                self.report(ForkerReport::NotForked { number, errno }).await;
            }
        }
    }

    /// Reports the processes that have exited. Each is reaped only after it was reported: if this process dies in
    /// between, the shepherd reaps it.
    async fn reap(&mut self) -> io::Result<()> {
        while let Some((pid, status)) = system::exited_child()? {
            if self.jobs.is_running(pid) {
                self.report(ForkerReport::Exited { pid: pid.as_raw_pid(), status }).await;
            }
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            self.jobs.exited(pid, status);
        }
        Ok(())
    }

    /// Writes a report. Errors are ignored: the shepherd is then gone, which the end of its requests will show.
    async fn report(&self, report: ForkerReport) {
        let bytes = report.encode();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() && self.control.writable().await.is_ok() {
            match self.control.try_write(rest) {
                Ok(size) => rest = rest.get(size..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}

/// Closes ends of tasks' streams. This process may have the last copies of pipes that processes without a job [keep
/// locked](super::super::deserted). Then a new process gets copies, and waits in place of this one when it exits.
fn close_without_waiting(ends: Vec<OwnedFd>) {
    let (closed, open): (Vec<_>, Vec<_>) = ends.into_iter().partition(|end| is_deserted(end));
    drop(closed);
    if open.is_empty() {
        return;
    }
    // The new process exits when the writing end is closed, after the copies of this process.
    let started = io::pipe().and_then(|(mut reader, writer)| {
        let kept = open.iter().map(AsRawFd::as_raw_fd).chain([reader.as_raw_fd()]);
        let kept: Vec<i32> = kept.collect();
        system::fork(move || {
            system::close_others(&kept);
            reader.read(&mut [0]).map_or(libc::EXIT_FAILURE, |_| libc::EXIT_SUCCESS)
        })?;
        Ok(writer)
    });
    match started {
        Ok(writer) => {
            drop(open);
            drop(writer);
        }
        // The host has no room for a process. Files that stay open are the smaller harm.
        Err(_) => std::mem::forget(open),
    }
}

/// Reads bytes with the files that were passed with the first of them.
fn receive(socket: &UnixStream, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [std::mem::MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let mut buffers = [io::IoSliceMut::new(buffer)];
    let received = recvmsg(socket.as_fd(), &mut buffers, &mut ancillary, flags)?;
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            files.extend(passed);
        }
    }
    Ok((received.bytes, files))
}
