//! What a manager remembers of a job that a shepherd runs, for a shepherd that takes its place.

use jobtap_core::engine::ExecEvent;

use crate::exec::{Seen, StartJob};

/// A job whose start was requested and whose release has not been reported.
pub(in crate::exec) struct OpenJob {
    /// The number of the connection on which the start was requested, if connections are numbered.
    pub(in crate::exec) connection: u64,
    /// The start request, until the shepherd has reported an event of the job: a shepherd that died may not have read
    /// it.
    pub(in crate::exec) request: Option<Vec<u8>>,
    /// The request to cancel it.
    pub(in crate::exec) cancel: Option<Vec<u8>>,
    /// The events that were reported.
    pub(in crate::exec) seen: Seen,
    /// Whether [`ExecEvent::Started`] was reported.
    pub(in crate::exec) started: bool,
}

impl OpenJob {
    pub(in crate::exec) fn new(start: &StartJob, line: &[u8]) -> Self {
        let StartJob { seen, reattach, .. } = start;
        let request = Some(line.to_owned());
        Self { connection: 0, request, cancel: None, seen: *seen, started: *reattach }
    }

    /// A job that the shepherd has begun by itself.
    pub(in crate::exec) fn begun(connection: u64) -> Self {
        Self { connection, request: None, cancel: None, seen: Seen::default(), started: false }
    }

    /// The same job, whose start was requested on this connection.
    pub(in crate::exec) fn on(self, connection: u64) -> Self {
        Self { connection, ..self }
    }

    /// Counts an event that is reported.
    pub(in crate::exec) fn count(&mut self, event: &ExecEvent) {
        self.request = None;
        match event {
            ExecEvent::Log { .. } => self.seen.log_entries += 1,
            ExecEvent::Exception { .. } | ExecEvent::Lost { .. } => self.seen.exceptions += 1,
            ExecEvent::Started { .. } => self.started = true,
            ExecEvent::Finished { .. } => self.seen.finished = true,
            _ => {}
        }
    }
}
