//! The state directory: everything that a manager keeps between runs, for one manager at a time.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// Why a state directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// Another manager runs in it.
    #[error("the state directory {} is in use by the manager with pid {pid}", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The other manager's process, as it wrote it.
        pid: String,
    },
    /// It is there, but somebody else's.
    #[error("the state directory {} belongs to user {uid}, not to us", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// A file is in the way.
    #[error("the state directory {} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// No space.
    #[error("the state directory {} is on a full disk", .0.display())]
    Full(PathBuf),
    /// Anything else.
    #[error("can't use the state directory {}: {reason}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The system's words.
        reason: std::io::Error,
    },
}

/// A state directory that is ours until this is dropped.
///
/// The lock is released by the kernel when the process ends, in whatever way.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    temporary: bool,
    _lock: File,
}

impl StateDir {
    /// Takes this directory, making it if need be (only for its owner).
    pub fn open(path: &Path) -> Result<Self, StateDirError> {
        Self::take(path, false)
    }

    /// Makes a fresh directory, removed when this is dropped.
    pub fn temporary() -> Result<Self, StateDirError> {
        let base = std::env::temp_dir();
        let path =
            fresh_directory(&base).map_err(|reason| StateDirError::Io { path: base, reason })?;
        Self::take(&path, true)
    }

    fn take(path: &Path, temporary: bool) -> Result<Self, StateDirError> {
        create(path)?;
        let path = path.canonicalize().map_err(|reason| explain(path, reason))?;
        let meta = path.metadata().map_err(|reason| explain(&path, reason))?;
        if !meta.is_dir() {
            return Err(StateDirError::NotADirectory(path));
        }
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(StateDirError::NotOurs { uid: meta.uid(), path });
        }
        let lock = lock(&path)?;
        Ok(Self { path, temporary, _lock: lock })
    }

    /// Where it is, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nothing in it is meant to last.
    pub fn is_temporary(&self) -> bool {
        self.temporary
    }
}

impl Drop for StateDir {
    /// Removes a temporary one. What can't be removed is left: the system clears it.
    fn drop(&mut self) {
        if self.temporary {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// A new directory below `base` that only its owner may enter.
pub fn fresh_directory(base: &Path) -> std::io::Result<PathBuf> {
    let pid = std::process::id();
    loop {
        let stamp = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |elapsed| elapsed.subsec_nanos());
        let path = base.join(format!("jobtap-{pid}-{stamp:08x}"));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            other => return other.map(|()| path),
        }
    }
}

fn create(path: &Path) -> Result<(), StateDirError> {
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(StateDirError::NotADirectory(path.to_path_buf()))
        }
        other => other.map_err(|reason| explain(path, reason)),
    }
}

fn lock(path: &Path) -> Result<File, StateDirError> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path.join("lock"))
        .map_err(|reason| explain(path, reason))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            return Err(StateDirError::InUse { path: path.to_path_buf(), pid: pid.trim().into() });
        }
        Err(error) => return Err(explain(path, error.into())),
    }
    let pid = format!("{}\n", std::process::id());
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(pid.as_bytes()))
        .and_then(|()| file.sync_all())
        .map_err(|reason| explain(path, reason))?;
    Ok(file)
}

fn explain(path: &Path, reason: std::io::Error) -> StateDirError {
    let path = path.to_path_buf();
    match reason.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            StateDirError::Full(path)
        }
        std::io::ErrorKind::NotADirectory => StateDirError::NotADirectory(path),
        _ => StateDirError::Io { path, reason },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_made_for_its_owner_only_and_locked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/state");
        let first = StateDir::open(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let refusal = StateDir::open(&path).unwrap_err().to_string();
        assert!(refusal.ends_with(&format!("pid {}", std::process::id())), "{refusal}");
        drop(first);
        assert!(StateDir::open(&path).is_ok());
    }

    #[test]
    fn a_file_in_its_place_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "").unwrap();
        let refusal = StateDir::open(&path).unwrap_err().to_string();
        assert!(refusal.contains("is not a directory"), "{refusal}");
    }

    #[test]
    fn a_temporary_one_is_removed() {
        let state = StateDir::temporary().unwrap();
        let path = state.path().to_path_buf();
        assert!(path.is_dir() && state.is_temporary());
        drop(state);
        assert!(!path.exists());
    }
}
