//! What a job adds to an output pack: blocks with what its tasks have printed, each written at once.
//!
//! As with the other files of a job, the shepherd itself waits for a write to a regular file: on a file system that
//! doesn't answer, it serves no other job until it does.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::output_stream::Stream;
use crate::clock::now;
use crate::exec::StartJob;
use crate::output_pack::{Block, Of};

/// A block of this many bytes is written.
const FULL: usize = 256 * 1024;

/// How long output waits for more of it. A short job has one block, and readers see what a long one prints.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// The part of a pack that a job writes.
pub(super) struct Pack {
    file: File,
    path: PathBuf,
    block: Block,
    /// When the block was begun or the last one was written, in seconds.
    since: f64,
}

/// A block that was written.
pub(super) struct Written {
    pub(super) path: String,
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl Pack {
    /// The part of this job in a pack, which is opened to append to it.
    pub(super) fn new(file: File, path: &Path, job: &StartJob) -> Self {
        let (array, index) = job.element.map(|place| (place.array, place.index)).unzip();
        let block = Block::new(Of { job: job.id, array, index });
        Self { file, path: path.to_owned(), block, since: now().as_secs() }
    }

    /// Adds what a task has printed.
    pub(super) fn add(&mut self, stream: Stream, rank: u32, data: &[u8]) {
        self.block.add(stream.name(), rank, now().as_secs(), data);
    }

    /// Whether output waits for more of it.
    pub(super) fn waits(&self) -> bool {
        !self.block.data.is_empty()
    }

    /// Writes the block if it is full or has waited, or if a stream has `ended`. On an error it is lost.
    pub(super) fn flush(&mut self, ended: bool) -> io::Result<Option<Written>> {
        let waited = now().as_secs() - self.since >= PATIENCE.as_secs_f64();
        if !self.waits() || !(ended || waited || self.block.data.len() >= FULL) {
            return Ok(None);
        }
        self.since = now().as_secs();
        let next = Block::new(self.block.of);
        let block = std::mem::replace(&mut self.block, next);
        let bytes = block.encode();
        self.file.write_all(&bytes)?;
        // The file is opened to append: what was written ends here, whoever else writes.
        let end = self.file.stream_position()?;
        let size = bytes.len() as u64;
        let path = self.path.to_string_lossy().into_owned();
        Ok(Some(Written { path, offset: end.saturating_sub(size), size }))
    }
}
