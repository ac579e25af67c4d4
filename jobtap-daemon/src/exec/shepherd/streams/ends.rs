//! The shepherd's ends of what the tasks of a job read and write.

use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

use super::super::forker::{FileUse, ShepherdEnd};
use super::super::output_stream::Stream;
use super::output::OutputLog;
use super::output_file::OutputFile;
use super::pty::Terminal;

/// The output log, shared by the streams of a job.
pub(in crate::exec::shepherd) type SharedLog = Arc<Mutex<OutputLog>>;

/// Locks a log. Poison is ignored, so that a panic in one stream does not end the others.
pub(in crate::exec::shepherd) fn lock(log: &SharedLog) -> MutexGuard<'_, OutputLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The target of captured output.
#[derive(Clone)]
pub(super) enum Target {
    /// The job's output log.
    Log(SharedLog),
    /// A file, and whether its lines begin with the task's rank.
    File(Arc<OutputFile>, bool),
}

/// A stream of a task that is captured through a pipe.
pub(in crate::exec::shepherd) struct Capture {
    pub(in crate::exec::shepherd) pipe: PipeReader,
    pub(super) target: Target,
    pub(in crate::exec::shepherd) stream: Stream,
    pub(super) rank: u32,
    pub(super) unbuffered: bool,
}

/// The shepherd's ends of the streams of a task.
pub(in crate::exec::shepherd) struct Ends {
    pub(in crate::exec::shepherd) captures: Vec<Capture>,
    pub(in crate::exec::shepherd) input: Option<PipeWriter>,
    /// The work to serve the task's PMI socket.
    pub(in crate::exec::shepherd) pmi: Option<AbortHandle>,
    /// The task's terminal.
    pub(in crate::exec::shepherd) terminal: Option<Terminal>,
}

impl Ends {
    /// The ends that a successor of the shepherd needs.
    pub(in crate::exec::shepherd) fn shepherd_ends(&self) -> Vec<(FileUse, BorrowedFd<'_>)> {
        // The pipes behind a terminal end with the shepherd.
        if let Some(terminal) = &self.terminal {
            return vec![(FileUse::ShepherdEnd(ShepherdEnd::Terminal), terminal.shepherd.as_fd())];
        }
        let printed = self.captures.iter().map(|capture| {
            (FileUse::ShepherdEnd(ShepherdEnd::Printed(capture.stream)), capture.pipe.as_fd())
        });
        let input =
            self.input.iter().map(|pipe| (FileUse::ShepherdEnd(ShepherdEnd::Input), pipe.as_fd()));
        printed.chain(input).collect()
    }
}
