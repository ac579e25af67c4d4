//! Pipes whose other ends tasks have, used without ever waiting for the tasks.
//!
//! Helper threads do what a task that [keeps its pipe locked](super::super::deserted) could let wait. Those of a job use
//! one thread at a time: whatever a job does to its pipes, most threads are left to the other jobs of its user.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::{Errno, ioctl_fionbio};
use tokio::io::Interest;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::Mutex;

use super::super::deserted::is_deserted;
use super::super::helpers::Helpers;

/// The number of bytes read at once: the size of a pipe.
const AT_ONCE: usize = 64 * 1024;

/// The threads that use the pipes of one job.
#[derive(Clone)]
pub(in crate::exec::shepherd) struct JobHelpers {
    helpers: Arc<Helpers>,
    turn: Arc<Mutex<()>>,
}

impl JobHelpers {
    /// Uses the threads of the job's user.
    pub(in crate::exec::shepherd) fn new(helpers: &Arc<Helpers>) -> Self {
        Self { helpers: Arc::clone(helpers), turn: Arc::default() }
    }

    /// Does `work` on one of the threads.
    ///
    /// # Errors
    /// Those of `work`.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let _turn = self.turn.lock().await;
        self.helpers.run(work).await?
    }
}

/// The shepherd's end of a pipe, which is closed without waiting.
pub(in crate::exec::shepherd) struct End<P: AsFd + Send + 'static> {
    /// `None` once it is taken.
    pipe: Option<P>,
    helpers: JobHelpers,
    /// Whether processes can open the other end by a name, even after all have closed it.
    is_named: bool,
}

impl<P: AsFd + Send + 'static> End<P> {
    /// An end that the threads of the job's user may close.
    pub(in crate::exec::shepherd) fn new(pipe: P, helpers: &JobHelpers) -> Self {
        Self { pipe: Some(pipe), helpers: helpers.clone(), is_named: false }
    }

    /// An end of a FIFO.
    pub(super) fn of_fifo(fifo: P, helpers: &JobHelpers) -> Self {
        Self { pipe: Some(fifo), helpers: helpers.clone(), is_named: true }
    }

    fn pipe(&self) -> io::Result<&P> {
        self.pipe.as_ref().ok_or_else(|| Errno::BADF.into())
    }
}

impl<P: AsFd + Send + 'static> Drop for End<P> {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take()
            && (self.is_named || !is_deserted(&pipe))
        {
            self.helpers.helpers.begin(move || drop(pipe));
        }
    }
}

/// A pipe that a task writes.
pub(super) struct Printed(Arc<End<Receiver>>);

impl Printed {
    pub(super) fn new(pipe: PipeReader, helpers: &JobHelpers) -> io::Result<Self> {
        ioctl_fionbio(&pipe, true)?;
        let pipe = Receiver::from_owned_fd_unchecked(pipe.into())?;
        Ok(Self(Arc::new(End::new(pipe, helpers))))
    }

    /// Waits for data, and reads what fits into a pipe. It has read nothing at the end of the data only.
    pub(super) async fn read(&self) -> io::Result<Vec<u8>> {
        loop {
            let is_deserted = self.0.pipe()?.ready(Interest::READABLE).await?.is_read_closed();
            let end = Arc::clone(&self.0);
            let read = match is_deserted {
                true => read(&end),
                false => self.0.helpers.run(move || read(&end)).await,
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// Reads until the pipe is empty, or much is read.
fn read(end: &End<Receiver>) -> io::Result<Vec<u8>> {
    let mut data = Vec::with_capacity(AT_ONCE);
    loop {
        match end.pipe()?.try_read_buf(&mut data) {
            Ok(1..) if data.len() < AT_ONCE => {}
            Err(error) if data.is_empty() => return Err(error),
            _ => return Ok(data),
        }
    }
}

/// A pipe that a task reads, or a FIFO that a user's process does.
pub(super) struct Writer(Arc<End<Sender>>);

impl Writer {
    pub(super) fn new(mut end: End<PipeWriter>) -> io::Result<Self> {
        let pipe = end.pipe.take().ok_or(Errno::BADF)?;
        Ok(Self(Arc::new(End::new(Sender::from_owned_fd(pipe.into())?, &end.helpers))))
    }

    /// A FIFO that was opened, without waiting, for writing.
    pub(super) fn from_file(end: &End<File>) -> io::Result<Self> {
        // A copy, which is not the last one if this fails: the last one must not be closed here.
        let copy = end.pipe()?.try_clone()?;
        let sender = Sender::from_owned_fd_unchecked(copy.into())?;
        Ok(Self(Arc::new(End::of_fifo(sender, &end.helpers))))
    }

    /// A copy of the file, for a task.
    pub(super) fn copy(&self) -> io::Result<File> {
        Ok(File::from(self.0.pipe()?.as_fd().try_clone_to_owned()?))
    }

    /// Writes all of `data`, as fast as the task reads it.
    pub(super) async fn write_all(&self, data: Vec<u8>) -> io::Result<()> {
        let (data, mut written) = (Arc::new(data), 0);
        while written < data.len() {
            self.0.pipe()?.writable().await?;
            let (end, data) = (Arc::clone(&self.0), Arc::clone(&data));
            let write = move || end.pipe()?.try_write(data.get(written..).unwrap_or_default());
            match self.0.helpers.run(write).await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                size => written += size?,
            }
        }
        Ok(())
    }
}
