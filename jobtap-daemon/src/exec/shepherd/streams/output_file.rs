//! A file for the output of a job, written either by the shepherd or by the job's tasks.
//!
//! A socket or a terminal takes data only as fast as its other end reads, so the shepherd writes to it when it is ready,
//! and does other work meanwhile.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::unix::pipe::Sender;
use tokio::sync::Mutex;

use super::super::files::user_file::{Purpose, TaskStream, UserFile, for_task};
use super::super::job_user::JobUser;
use super::fifo::Fifo;
use super::task_pipe::JobHelpers;
use crate::open_files::OpenFiles;

/// A file for the output of a job.
pub(super) struct OutputFile {
    place: Place,
    /// Held while a piece is written, so that pieces don't mix.
    turn: Mutex<()>,
}

enum Place {
    Open(File),
    Fifo(Arc<Fifo>),
    /// Only the process of a task may open it.
    OfProcess(PathBuf),
}

impl OutputFile {
    /// The file that was found at `path`, which is opened as `user`.
    pub(super) fn new(found: UserFile, path: &Path, user: &JobUser, helpers: &JobHelpers) -> Self {
        let place = match found {
            UserFile::Open(file) => Place::Open(OpenFiles::of_this_process().apart(file)),
            UserFile::Fifo => Place::Fifo(Arc::new(Fifo::new(path, user, helpers))),
            UserFile::OfProcess => Place::OfProcess(path.to_owned()),
        };
        Self { place, turn: Mutex::new(()) }
    }

    /// The FIFO, if it is one.
    pub(super) fn fifo(&self) -> Option<&Arc<Fifo>> {
        match &self.place {
            Place::Fifo(fifo) => Some(fifo),
            Place::Open(_) | Place::OfProcess(_) => None,
        }
    }

    /// Opens a FIFO that isn't open yet. Its reader waits for that, even if there will be no output: then it sees the end
    /// of the file.
    pub(super) async fn open(&self) -> io::Result<()> {
        match &self.place {
            Place::Fifo(fifo) => fifo.open().await,
            Place::Open(_) | Place::OfProcess(_) => Ok(()),
        }
    }

    /// The file as a standard stream of a task, which expects that a write waits. The shepherd must not write to it
    /// from then on: it would wait, too.
    pub(super) fn for_task(&self) -> io::Result<TaskStream> {
        match &self.place {
            Place::Open(file) => for_task(file.try_clone()?).map(TaskStream::Open),
            Place::Fifo(fifo) => fifo.for_task(),
            Place::OfProcess(path) => Ok(TaskStream::OpenedByTask(path.clone(), Purpose::Append)),
        }
    }

    /// Writes what can be written at once. A FIFO takes nothing at once.
    pub(super) fn write_now(&self, text: &[u8]) -> io::Result<()> {
        match &self.place {
            Place::Open(file) => {
                let mut file = file;
                file.write_all(text)
            }
            Place::Fifo(_) => Err(io::ErrorKind::WouldBlock.into()),
            Place::OfProcess(_) => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    /// Writes all of `text`, as fast as the file takes it.
    pub(super) async fn write(&self, text: Vec<u8>) -> io::Result<()> {
        let _turn = self.turn.lock().await;
        match &self.place {
            Place::Open(file) => write(file, &text).await,
            Place::Fifo(fifo) => fifo.write(text).await,
            Place::OfProcess(_) => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

async fn write(mut file: &File, mut text: &[u8]) -> io::Result<()> {
    while !text.is_empty() {
        match file.write(text) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(size) => text = text.get(size..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // Fails for a device that can't say when it is ready; the output is then lost. Everything else is
                // waited for like a pipe.
                let copy = OwnedFd::from(file.try_clone()?);
                Sender::from_owned_fd_unchecked(copy)?.writable().await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
