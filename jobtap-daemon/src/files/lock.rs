//! The lock of a directory, for one process at a time. The kernel releases it when that process ends, even
//! by a signal.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::Dir;

/// Name of the lock file, which contains the process id of the process that holds the lock.
pub(crate) const LOCK: &str = "lock";

/// A length in bytes that no process id reaches.
const MAX_LENGTH: u64 = 32;

/// A lock, which is released when it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

/// The reason why a lock can't be taken.
#[derive(Debug)]
pub(crate) enum LockError {
    /// The process with this id holds it, according to the lock file.
    Held(String),
    /// An error of the system.
    Io(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Lock {
    /// Takes the lock of `dir` without waiting.
    pub(crate) fn take(dir: &Dir) -> Result<Self, LockError> {
        let mut file = dir.file(LOCK, OFlags::RDWR | OFlags::CREATE, 0o600)?;
        if !file.metadata()?.is_file() {
            let text = format!("{LOCK} in it is not a regular file: remove it");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text).into());
        }
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                let _ = file.take(MAX_LENGTH).read_to_string(&mut pid);
                return Err(LockError::Held(pid.trim().to_owned()));
            }
            Err(errno) => return Err(LockError::Io(errno.into())),
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        file.sync_all()?;
        Ok(Self { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that another thread is starting has a copy of the
        // descriptor until it runs its program, and the lock would last until then.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}
