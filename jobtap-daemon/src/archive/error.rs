//! Why an archive can't be written or restored.

use std::io;
use std::path::PathBuf;

use crate::files::input;
use crate::shown::in_line;
use crate::store::{KeyError, StoreError};

/// The largest value that is read into memory. The values that a manager stores for itself are far
/// smaller.
pub(super) const LARGEST_VALUE: u64 = input::LARGEST;

/// Why an archive can't be written or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The archive itself can't be opened, read or written.
    #[error("{}: {reason}", file.display())]
    File {
        /// The archive.
        file: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
    /// The compression is unknown.
    #[error("{}: compression by {how} is not known: use a .tar, .tar.gz or .tar.bz2 file", file.display())]
    Compression {
        /// The archive.
        file: PathBuf,
        /// The program for this compression.
        how: &'static str,
    },
    /// The archive is incomplete.
    #[error("{}: {fault}", file.display())]
    Incomplete {
        /// The archive.
        file: PathBuf,
        /// What is missing.
        fault: Incomplete,
    },
    /// An entry can't be restored.
    #[error("{}: entry {entry:?}: {fault}", file.display())]
    Entry {
        /// The archive.
        file: PathBuf,
        /// The entry's path.
        entry: String,
        /// The reason why it can't be restored.
        fault: EntryFault,
    },
    /// The state directory has jobs or files already.
    #[error("{} holds jobs already: restore into a new state directory", .0.display())]
    NotEmpty(PathBuf),
    /// A file of the state directory can't be read or written.
    #[error("{}: {reason}", path.display())]
    State {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
    /// The store can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What an archive lacks.
#[derive(Debug, thiserror::Error)]
pub enum Incomplete {
    /// It doesn't begin as an archive does.
    #[error("it is no archive")]
    NoArchive,
    /// It ends within an entry.
    #[error("it ends too early")]
    Short,
    /// It ends after an entry, and more may have followed.
    #[error("it ends too early: the mark at the end of an archive is missing")]
    NoEnd,
    /// It has an end and nothing before it.
    #[error("it has no entries: a dump has at least one")]
    Empty,
    /// The header of an entry is damaged.
    #[error("{}", in_line(&.0.to_string()))]
    Header(io::Error),
}

/// Why an entry can't be restored.
#[derive(Debug, thiserror::Error)]
pub enum EntryFault {
    /// It is neither a file nor a directory nor a link.
    #[error("{0:?} is no kind of entry that a dump has")]
    Kind(tar::EntryType),
    /// Its path is that of no key.
    #[error(transparent)]
    Path(#[from] PathFault),
    /// The key of its path can't be stored.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Its value, of this size, doesn't fit into memory.
    #[error("it has {0} bytes, and at most {most} MiB are read", most = LARGEST_VALUE >> 20)]
    TooLarge(u64),
    /// It can't be read or written.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is shorter than its header says.
    #[error("it ends too early")]
    Short,
    /// Another entry has the same key.
    #[error("it is there twice")]
    Twice,
}

/// Why a path is that of no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// It begins at the root.
    #[error("the path is absolute")]
    Absolute,
    /// Two slashes follow each other, or it ends with one.
    #[error("a part of the path has no name")]
    NoName,
    /// A part of it is `.` or `..`.
    #[error("the path leads out of its directory")]
    Outside,
}
