//! The shepherd's ends of the streams of a job's tasks, and the work to copy them.

use std::fs::File;
use std::io;
use std::sync::Arc;

use jobtap_core::job::JobId;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use super::super::helpers::Helpers;
use super::super::message::Message;
use super::super::start_error::StartError;
use super::super::streams::capture;
use super::super::streams::ends::{Ends, SharedLog, lock};
use super::super::streams::input::JobInput;
use super::super::streams::pty::Terminal;
use super::super::streams::task_pipe::{End, JobHelpers};

/// The streams of one job.
#[derive(Default)]
pub(in crate::exec::shepherd) struct Streams {
    /// Captured streams that have not ended.
    open: usize,
    /// Work to stop when the job ends.
    pumps: Vec<AbortHandle>,
    terminals: Vec<Terminal>,
    /// The threads that use its pipes, once it has any.
    helpers: Option<JobHelpers>,
    pub(in crate::exec::shepherd) input: Option<JobInput>,
    /// The log of its output, until it ends.
    pub(in crate::exec::shepherd) output: Option<SharedLog>,
}

impl Streams {
    /// The threads that use the pipes of the job, of those of its user.
    pub(in crate::exec::shepherd) fn helpers(&mut self, of_user: &Arc<Helpers>) -> &JobHelpers {
        self.helpers.get_or_insert_with(|| JobHelpers::new(of_user))
    }

    /// Starts to copy a task's input and output.
    pub(in crate::exec::shepherd) fn start(
        &mut self,
        id: JobId,
        rank: u32,
        ends: Ends,
        helpers: &Arc<Helpers>,
        inbox: &UnboundedSender<Message>,
    ) -> Result<(), StartError> {
        let helpers = &self.helpers(helpers).clone();
        self.pumps.extend(ends.pmi);
        self.pumps.extend(ends.terminal.as_ref().map(|terminal| terminal.copying.clone()));
        self.terminals.extend(ends.terminal);
        for stream in ends.captures {
            let pump = capture::start(id, stream, helpers, inbox).map_err(StartError::Capture)?;
            self.pumps.push(pump);
            self.open += 1;
        }
        if let (Some(input), Some(pipe)) = (&mut self.input, ends.input) {
            let pump = input.serve(rank, End::new(pipe, helpers)).map_err(StartError::PassInput)?;
            self.pumps.extend(pump);
        }
        Ok(())
    }

    /// Handles that a captured stream has ended.
    pub(in crate::exec::shepherd) fn one_ended(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Whether all captured streams have ended.
    pub(super) fn have_ended(&self) -> bool {
        self.open == 0
    }

    /// Passes input to the task with this rank, or to all. `make` makes the file for the first input.
    pub(in crate::exec::shepherd) fn add_input(
        &mut self,
        rank: Option<u32>,
        data: &[u8],
        eof: bool,
        make: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<()> {
        if let Some(input) = &mut self.input {
            self.pumps.extend(input.add(rank, data, eof, make)?);
        }
        Ok(())
    }

    /// Sets the size of the terminals.
    pub(in crate::exec::shepherd) fn resize(&self, rows: u16, columns: u16) {
        for terminal in &self.terminals {
            // An error is ignored: the terminal keeps its size.
            let _ = terminal.resize(rows, columns);
        }
    }

    /// Takes what the tasks have printed, if no file has it.
    pub(super) fn take_held_output(&mut self) -> Option<String> {
        lock(&self.output.take()?).take_held()
    }

    /// Stops copying streams that processes still have open.
    pub(in crate::exec::shepherd) fn stop(&mut self) {
        self.open = 0;
        for pump in self.pumps.drain(..) {
            pump.abort();
        }
    }
}

#[cfg(test)]
impl Streams {
    /// Counts one more captured stream.
    pub(in crate::exec::shepherd) fn open_one(&mut self) {
        self.open += 1;
    }
}
