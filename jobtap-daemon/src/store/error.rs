//! The errors of a store. Each message is one sentence that names the place and what to do, since it is
//! the last line that a manager logs before it refuses to start or stops.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::KeyError;
use super::reserve::{Reserve, free_bytes};

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory contains other files.
    #[error("{path} isn't a jobtap store ({found}): choose an empty or a new state directory")]
    NotAStore {
        /// The directory.
        path: PathBuf,
        /// What was found there.
        found: String,
    },
    /// The store was written in a layout that this version doesn't know.
    #[error(
        "{path} has store format {found}, and this jobtap knows format {known}: \
         start it with the jobtap that wrote it; an archive of its `jobtap dump FILE` can be \
         restored by others"
    )]
    Format {
        /// The store's directory.
        path: PathBuf,
        /// The format of the store.
        found: String,
        /// The format that this version reads and writes.
        known: u32,
    },
    /// An invalid key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Another manager has the store open.
    #[error("{path} is in use by {}: stop that one or choose another state directory", holder(*.pid))]
    Locked {
        /// The store's directory.
        path: PathBuf,
        /// The process that has it open, if it could be read.
        pid: Option<u32>,
    },
    /// The file system refuses access.
    #[error("{path} can't be used ({source}): give the manager's user read and write access to it")]
    Denied {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file system is full, or free space fell below the reserve.
    #[error("{path} has too little space ({free} bytes free, {needed} needed): free some there")]
    NoSpace {
        /// The store's directory.
        path: PathBuf,
        /// Bytes that the manager's user may still write.
        free: u64,
        /// Bytes that must be free.
        needed: u64,
    },
    /// The data on disk is not what was written.
    #[error(
        "{path} is damaged ({detail}): stop the manager and let `jobtap fsck` say what is lost; it \
         can repair some damage, else restore the store from a backup"
    )]
    Corrupt {
        /// The store's directory.
        path: PathBuf,
        /// What is damaged.
        detail: String,
    },
    /// There are two databases, created by two versions.
    #[error("{path} has two databases, {} and {}: {}", .names[0], .names[1], which_to_move(*.unused))]
    TwoDatabases {
        /// The store's directory.
        path: PathBuf,
        /// Their directories there.
        names: [&'static str; 2],
        /// The one that was never used, if that is known.
        unused: Option<&'static str>,
    },
    /// Commits that were acknowledged are no longer there.
    #[error(
        "{path} has lost acknowledged data (commit {found} is the last one there, {acked} were \
         acknowledged): restore the store from a backup"
    )]
    Lost {
        /// The store's directory.
        path: PathBuf,
        /// The last commit that was acknowledged.
        acked: u64,
        /// The last commit found.
        found: u64,
    },
    /// A log already has a record of this number, which must not be replaced.
    #[error("{key} already has record {seq}: restart the manager, which continues after the last")]
    Sequence {
        /// The log.
        key: String,
        /// The record's number.
        seq: u64,
    },
    /// A value is longer than the store can hold.
    #[error("{key} is too large ({bytes} bytes): a value may have up to {} bytes", u32::MAX)]
    TooLarge {
        /// The key.
        key: String,
        /// Bytes of the value.
        bytes: usize,
    },
    /// Reading or writing failed.
    #[error("{path} failed ({source}): check the disk and restart the manager")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The store can't be used any longer in this process.
    #[error("{path} is out of use ({detail}): check the disk and restart the manager")]
    Failed {
        /// The store's directory.
        path: PathBuf,
        /// The cause.
        detail: String,
    },
    /// The committing thread could not be started, or panicked.
    #[error("the commit thread stopped ({detail}): restart the manager")]
    Committer {
        /// The cause.
        detail: String,
    },
}

impl StoreError {
    /// Classifies a file system error about `path` by what the user can do about it.
    pub(super) fn io(path: &Path, source: std::io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                let free = free_bytes(&path).unwrap_or(0);
                Self::NoSpace { path, free, needed: Reserve::default().bytes() }
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                Self::Denied { path, source }
            }
            _ => Self::Io { path, source },
        }
    }
}

/// What to do about two databases.
fn which_to_move(unused: Option<&str>) -> String {
    match unused {
        Some(unused) => format!("{unused} was never used, so move it away"),
        None => "move the one away that isn't the store's".to_owned(),
    }
}

fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("another manager (process {pid})"),
        None => "another manager".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_denied_and_failing_disks_are_different_errors() {
        let sorted = |kind: ErrorKind| StoreError::io(Path::new("/"), kind.into());
        assert!(matches!(sorted(ErrorKind::StorageFull), StoreError::NoSpace { .. }));
        assert!(matches!(sorted(ErrorKind::QuotaExceeded), StoreError::NoSpace { .. }));
        let StoreError::NoSpace { needed, .. } = sorted(ErrorKind::StorageFull) else { panic!() };
        assert_eq!(needed, 256 << 20, "as many bytes as submissions leave free");
        assert!(matches!(sorted(ErrorKind::PermissionDenied), StoreError::Denied { .. }));
        assert!(matches!(sorted(ErrorKind::ReadOnlyFilesystem), StoreError::Denied { .. }));
        assert!(matches!(sorted(ErrorKind::Other), StoreError::Io { .. }));
    }

    #[test]
    fn a_locked_store_names_its_holder() {
        let locked = StoreError::Locked { path: "/var/lib/jobtap".into(), pid: Some(42) };
        assert_eq!(
            locked.to_string(),
            "/var/lib/jobtap is in use by another manager (process 42): \
             stop that one or choose another state directory"
        );
    }
}
