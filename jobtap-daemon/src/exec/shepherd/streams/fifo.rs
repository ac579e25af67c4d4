//! A FIFO that a job's user names for output: opened, written and closed without the shepherd waiting for the user.
//!
//! A FIFO is a pipe, which the user's processes can [keep locked](super::super::deserted), so only helper threads use it.

use std::io;
use std::path::{Path, PathBuf};

use tokio::sync::OnceCell;

use super::super::files::user_file::{Purpose, TaskStream, for_task, open_patiently};
use super::super::job_user::JobUser;
use super::super::start_error::StartError;
use super::task_pipe::{End, JobHelpers, Writer};
use crate::open_files::OpenFiles;

/// A FIFO for output.
pub(in crate::exec::shepherd) struct Fifo {
    path: PathBuf,
    /// The user that it is opened as.
    user: JobUser,
    helpers: JobHelpers,
    opened: OnceCell<Writer>,
}

impl Fifo {
    pub(super) fn new(path: &Path, user: &JobUser, helpers: &JobHelpers) -> Self {
        let (user, helpers) = (user.clone(), helpers.clone());
        Self { path: path.to_owned(), user, helpers, opened: OnceCell::new() }
    }

    /// Opens the FIFO, so that its reader sees no end of the output before the last task has ended.
    ///
    /// # Errors
    /// No process has the FIFO open for reading, or the user may not write to it.
    pub(super) async fn open(&self) -> io::Result<()> {
        self.opened().await.map(drop)
    }

    /// As [`open`](Self::open), for a job that is being launched.
    pub(in crate::exec::shepherd) async fn open_for_launch(&self) -> Result<(), StartError> {
        let failed = |error| StartError::Output { path: self.path.clone(), error };
        self.open().await.map_err(failed)
    }

    /// The FIFO as a standard stream of a task: the open one that all tasks share, or one that the task opens.
    pub(super) fn for_task(&self) -> io::Result<TaskStream> {
        match self.opened.get() {
            Some(opened) => for_task(opened.copy()?).map(TaskStream::Open),
            None => Ok(TaskStream::OpenedByTask(self.path.clone(), Purpose::Append)),
        }
    }

    /// Writes all of `text`, as fast as the reader takes it.
    pub(super) async fn write(&self, text: Vec<u8>) -> io::Result<()> {
        self.opened().await?.write_all(text).await
    }

    async fn opened(&self) -> io::Result<&Writer> {
        let open = || async {
            let (path, user, helpers) =
                (self.path.clone(), self.user.clone(), self.helpers.clone());
            let open = move || {
                let file = user.act(|| open_patiently(&path, Purpose::Append)).flatten()?;
                // Wrapped at once: if the shepherd no longer waits for the file, its own thread may drop it, and must not
                // close it.
                Ok(End::of_fifo(OpenFiles::of_this_process().apart(file), &helpers))
            };
            Writer::from_file(&self.helpers.run(open).await?)
        };
        self.opened.get_or_try_init(open).await
    }
}
