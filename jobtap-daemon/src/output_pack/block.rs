//! One block of a pack.

use jobtap_core::job::JobId;
use serde::{Deserialize, Serialize};

/// The first bytes of a block.
pub(super) const MAGIC: &[u8; 8] = b"jtpack1\n";

/// The number of bytes before the header.
pub(super) const FIXED: usize = MAGIC.len() + 4 + 8;

/// The longest header that is read.
pub(super) const LONGEST_HEADER: u32 = 16 << 20;

/// Whose output a block has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Of {
    /// The job.
    pub job: JobId,
    /// Its array, if it is an element of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<JobId>,
    /// Its index in the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

/// What a task has printed at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    /// `stdout` or `stderr`.
    pub stream: String,
    /// The task's rank.
    pub rank: u32,
    /// When it was read, in seconds since the UNIX epoch.
    pub time: f64,
    /// How many bytes of the block's data it has.
    pub size: u64,
}

/// The output of a job up to some time.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Whose output it is.
    pub of: Of,
    /// The pieces in the order of their data.
    pub pieces: Vec<Piece>,
    /// What the pieces have.
    pub data: Vec<u8>,
}

/// The header of a block.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    #[serde(flatten)]
    pub(super) of: Of,
    pub(super) pieces: Vec<Piece>,
    /// The CRC-32 of the data: a block that was cut may be followed by others.
    pub(super) crc: u32,
}

impl Block {
    /// An empty block.
    pub fn new(of: Of) -> Self {
        Self { of, pieces: Vec::new(), data: Vec::new() }
    }

    /// Adds what a task has printed. Pieces that follow each other on one stream become one.
    pub fn add(&mut self, stream: &str, rank: u32, time: f64, data: &[u8]) {
        match self.pieces.last_mut().filter(|last| last.stream == stream && last.rank == rank) {
            Some(last) => last.size += data.len() as u64,
            None => {
                let (stream, size) = (stream.to_owned(), data.len() as u64);
                self.pieces.push(Piece { stream, rank, time, size });
            }
        }
        self.data.extend_from_slice(data);
    }

    /// The bytes of the block.
    pub fn encode(&self) -> Vec<u8> {
        let crc = crc32fast::hash(&self.data);
        let header = Header { of: self.of, pieces: self.pieces.clone(), crc };
        // A header always has a JSON form.
        let header = serde_json::to_vec(&header).unwrap_or_default();
        let mut bytes = Vec::with_capacity(FIXED + header.len() + self.data.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&u32::try_from(header.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(&(self.data.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&self.data);
        bytes
    }

    /// The pieces with what they have.
    pub fn each(&self) -> impl Iterator<Item = (&Piece, &[u8])> {
        let mut rest = self.data.as_slice();
        self.pieces.iter().map(move |piece| {
            let size = usize::try_from(piece.size).unwrap_or(usize::MAX).min(rest.len());
            let (data, after) = rest.split_at_checked(size).unwrap_or_default();
            rest = after;
            (piece, data)
        })
    }
}
