//! Files that a job's user names: opened and written without ever waiting for the user.
//!
//! The shepherd serves the jobs of all users on one thread. A FIFO, a socket or a terminal takes data only as fast
//! as its other end reads, so the shepherd writes to them when they are ready, and does other work meanwhile.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::net::unix::pipe::Sender;
use tokio::sync::Mutex;

use crate::open_files::OpenFiles;

/// A file for the output of a job. Either the shepherd writes to it, or its tasks do.
pub(super) struct OutputFile {
    file: File,
    /// Held while a piece is written, so that pieces don't mix.
    turn: Mutex<()>,
}

impl OutputFile {
    /// The file `file`, which was opened by [`open`].
    pub(super) fn new(file: File) -> Self {
        Self { file: OpenFiles::of_this_process().apart(file), turn: Mutex::new(()) }
    }

    /// The file as a standard stream of a task, which expects that a write waits. The shepherd must not write to it
    /// from then on: it would wait, too.
    pub(super) fn for_task(&self) -> io::Result<Stdio> {
        for_task(self.file.try_clone()?)
    }

    /// Writes what can be written at once.
    pub(super) fn write_now(&self, text: &[u8]) -> io::Result<()> {
        (&self.file).write_all(text)
    }

    /// Writes all of `text`, as fast as the file takes it.
    pub(super) async fn write(&self, mut text: &[u8]) -> io::Result<()> {
        let _turn = self.turn.lock().await;
        while !text.is_empty() {
            match (&self.file).write(text) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(size) => text = text.get(size..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Fails for a device that can't say when it is ready; the output is lost then. Whatever can
                    // is waited for as a pipe is.
                    let copy = OwnedFd::from(self.file.try_clone()?);
                    Sender::from_owned_fd_unchecked(copy)?.writable().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Opens a user's file. It doesn't wait for the other end of a FIFO, and makes no terminal the controlling one.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    options.custom_flags(flags.bits().cast_signed()).open(path)
}

/// A file that [`open`] has opened, as a standard stream of a task.
pub(super) fn for_task(file: File) -> io::Result<Stdio> {
    let flags = fcntl_getfl(&file)?;
    if flags.contains(OFlags::NONBLOCK) {
        fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    }
    Ok(Stdio::from(file))
}
