//! `--tail`: the last lines of the output so far, of any length.

use std::collections::VecDeque;

use jobtap_core::job::JobId;

use crate::cli::job::output::{Output, OutputEvent, Pieces};

/// The last lines of the output.
pub(super) struct Tail {
    most: usize,
    /// Whether there was any event, even one without lines.
    found: bool,
    /// The lines as they are printed, each with true if it belongs on standard error.
    lines: VecDeque<(bool, Vec<u8>)>,
}

impl Tail {
    /// Keeps the last `most` lines.
    pub(super) fn new(most: usize) -> Self {
        Self { most, found: false, lines: VecDeque::new() }
    }

    /// Keeps the lines of an event of the job `id`. The output of an event without lines is added to `pieces` at once.
    pub(super) fn add(
        &mut self,
        output: Output,
        id: JobId,
        event: &OutputEvent<'_>,
        pieces: &mut Pieces,
    ) {
        self.found = true;
        let lines = output.lines(event);
        if lines.is_empty() {
            return output.show(id, event, pieces);
        }
        self.lines.extend(lines);
        let over = self.lines.len().saturating_sub(self.most);
        self.lines.drain(..over);
    }

    /// Whether there was no log at all.
    pub(super) fn found_nothing(&self) -> bool {
        !self.found
    }

    /// Adds the lines to `pieces`.
    pub(super) fn show(self, pieces: &mut Pieces) {
        for (stderr, line) in self.lines {
            pieces.buffer(stderr).extend_from_slice(&line);
        }
    }
}
