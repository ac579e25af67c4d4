//! The number of the last acknowledged commit, in a file beside the engine's own files.
//!
//! If the engine finds its write-ahead log truncated, it assumes an incomplete commit, drops the rest and
//! opens: it can't know what was acknowledged. This number, written after each commit and before its
//! acknowledgement, distinguishes a lost commit from an incomplete one. It needs no sync of its own: a
//! stale number is too low, which may hide a loss but never reports a false one.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::StoreError;

/// Name of the file. Its presence shows that the store was created completely.
pub(super) const FILE: &str = "acked";
/// Name of the file while it is being created.
pub(super) const NEW_FILE: &str = "acked.new";

/// The open file.
#[derive(Debug)]
pub(super) struct Acked {
    file: File,
}

impl Acked {
    /// Reads the number in `dir`; `None` if the file does not exist yet.
    pub(super) fn read(dir: &Path) -> Result<Option<u64>, StoreError> {
        let path = dir.join(FILE);
        let text = match std::fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(err) if err.kind() == ErrorKind::NotFound => return Ok(None),
            Err(err) => return Err(StoreError::io(&path, err)),
        };
        match text.strip_suffix('\n').map(str::parse) {
            Some(Ok(number)) => Ok(Some(number)),
            _ => Err(StoreError::Corrupt {
                path: dir.to_owned(),
                detail: format!("the file {FILE} holds no number"),
            }),
        }
    }

    /// Creates the file with `number`, durably and atomically, and leaves it open.
    pub(super) fn create(dir: &Path, number: u64) -> Result<Self, StoreError> {
        let path = dir.join(NEW_FILE);
        let create = || -> std::io::Result<File> {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&path)?;
            file.write_all(text(number).as_bytes())?;
            // Synced before the rename, so that the name never refers to an incomplete file.
            file.sync_all()?;
            std::fs::rename(&path, dir.join(FILE))?;
            File::open(dir)?.sync_all()?;
            Ok(file)
        };
        match create() {
            Ok(file) => Ok(Self { file }),
            Err(err) => Err(StoreError::io(&path, err)),
        }
    }

    /// Records that commit `number` is durable. Errors are ignored: the commit itself is durable, and the
    /// number is merely too low until the next commit.
    pub(super) fn note(&self, number: u64) {
        let _ = self.file.write_all_at(text(number).as_bytes(), 0);
    }
}

/// The content of the file. Its length is fixed, so that it can be overwritten in place.
fn text(number: u64) -> String {
    format!("{number:020}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_recorded_number_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Acked::read(dir.path()).unwrap(), None);
        let acked = Acked::create(dir.path(), 7).unwrap();
        assert_eq!(Acked::read(dir.path()).unwrap(), Some(7));
        acked.note(u64::MAX);
        acked.note(12);
        assert_eq!(Acked::read(dir.path()).unwrap(), Some(12));
    }

    #[test]
    fn a_garbled_number_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        for garbage in ["", "\n", "12", "-1\n", "x\n", "\u{fffd}\n"] {
            std::fs::write(dir.path().join(FILE), garbage).unwrap();
            let err = Acked::read(dir.path()).unwrap_err();
            assert!(matches!(err, StoreError::Corrupt { .. }), "{garbage:?}");
        }
    }
}
