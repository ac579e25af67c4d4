//! One manager per store: a lock file of our own, because the engine's lock doesn't record which process
//! holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::StoreError;

/// Name of the lock file. Its presence also marks a directory as a store.
pub const FILE: &str = "store.lock";

/// The number of retries, and the pause before each. A killed manager holds its locks until its last
/// write has ended, and a closed store holds the engine's lock until the engine's threads have ended.
pub(super) const RETRIES: u32 = 40;
pub(super) const PAUSE: Duration = Duration::from_millis(25);

/// The lock. It is released when it is dropped or the process ends, even by a signal.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the store in `dir`, and writes the process id into it.
    pub(super) fn take(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(FILE);
        let failed = |err| StoreError::io(&path, err);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        let mut tries = 0;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(err)) => return Err(failed(err)),
                Err(TryLockError::WouldBlock) if tries == RETRIES => {
                    return Err(StoreError::Locked {
                        path: dir.to_owned(),
                        pid: read_pid(&mut file),
                    });
                }
                Err(TryLockError::WouldBlock) => {
                    tries += 1;
                    thread::sleep(PAUSE);
                }
            }
        }
        write_pid(&mut file).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_manager_is_refused_with_the_process_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let mut other = File::create(&path).unwrap();
        other.lock().unwrap();
        writeln!(other, "1").unwrap();
        let err = Lock::take(dir.path()).unwrap_err();
        assert!(matches!(err, StoreError::Locked { pid: Some(1), .. }), "{err}");

        other.set_len(0).unwrap();
        let err = Lock::take(dir.path()).unwrap_err();
        assert!(matches!(err, StoreError::Locked { pid: None, .. }), "{err}");

        drop(other);
        Lock::take(dir.path()).unwrap();
    }

    #[test]
    fn a_store_that_is_being_closed_opens_again() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path()).unwrap();
        let path = dir.path().to_owned();
        let second = thread::spawn(move || Lock::take(&path));
        drop(first);
        second.join().unwrap().unwrap();
    }
}
