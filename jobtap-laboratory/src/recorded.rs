//! The jobs that a manager has recorded: from a dump, or from a state directory, which is not changed.

use std::fs::{self, File, TryLockError};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use jobtap_core::job::JobId;
use jobtap_daemon::archive::{self, ArchiveError, RecordedJobs};
use jobtap_daemon::daemon::statedir;
use jobtap_daemon::files::{TemporaryDir, TemporaryDirError};
use jobtap_daemon::store::{EmbeddedStore, LOCK_FILE, Store, StoreError};

/// The directory of the store in a state directory.
const STORE: &str = "store";

/// Why recorded jobs can't be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// The dump is damaged, or the file is no dump.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The directory is not the state directory of a manager.
    #[error("{} holds no state of a manager: name a state directory, or a dump", .0.display())]
    NoState(PathBuf),
    /// A manager runs in the state directory.
    #[error("a manager runs in {}: write a dump with `jobtap dump FILE`, and name that", .0.display())]
    InUse(PathBuf),
    /// A file can't be read or copied.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
    /// There is no place for a copy of the store.
    #[error(transparent)]
    Temporary(#[from] TemporaryDirError),
    /// The store is damaged.
    #[error("{}: {reason}", path.display())]
    Store {
        /// The state directory.
        path: PathBuf,
        /// What is wrong with the store.
        reason: StoreError,
    },
}

/// Reads the jobs of a dump or of a state directory.
///
/// # Errors
/// [`RecordedError`].
pub(crate) fn jobs(path: &Path) -> Result<RecordedJobs, RecordedError> {
    match path.is_dir() {
        true => of_state(path),
        false => Ok(archive::of_archive(path)?),
    }
}

/// Reads the jobs of a state directory. Opening a store writes to it, so a copy is opened.
fn of_state(named: &Path) -> Result<RecordedJobs, RecordedError> {
    let state = &statedir::existing(named).unwrap_or_else(|| named.to_owned());
    let store = state.join(STORE);
    let lock = store.join(LOCK_FILE);
    let before = match File::open(&lock) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(RecordedError::NoState(state.clone()));
        }
        Err(reason) => return Err(RecordedError::File { path: lock, reason }),
    };
    let in_use = || RecordedError::InUse(state.clone());
    let changed = |file: &File| file.metadata().and_then(|of| of.modified()).ok();
    let is_free = |file: &File| match file.try_lock_shared() {
        // The lock is not held while the store is copied, so that a manager that is started meanwhile need
        // not wait.
        Ok(()) => file.unlock().is_ok(),
        Err(TryLockError::WouldBlock) => false,
        // A file system without locks; no manager could run there.
        Err(TryLockError::Error(_)) => true,
    };
    let begun = changed(&before);
    if !is_free(&before) {
        return Err(in_use());
    }
    let copy = TemporaryDir::new()?;
    let copied = copy.path().join(STORE);
    copy_directory(&store, &copied)?;
    // A manager that was started meanwhile has written its process id into the file.
    if !is_free(&before) || changed(&before) != begun {
        return Err(in_use());
    }
    read(&copied).map_err(|reason| RecordedError::Store { path: state.clone(), reason })
}

/// Copies directories and regular files.
fn copy_directory(from: &Path, to: &Path) -> Result<(), RecordedError> {
    let failed = |path: &Path, reason| RecordedError::File { path: path.to_owned(), reason };
    fs::create_dir(to).map_err(|reason| failed(to, reason))?;
    for entry in fs::read_dir(from).map_err(|reason| failed(from, reason))? {
        let entry = entry.map_err(|reason| failed(from, reason))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|reason| failed(&source, reason))?;
        if kind.is_dir() {
            copy_directory(&source, &target)?;
        } else if kind.is_file() {
            fs::copy(&source, &target).map_err(|reason| failed(&source, reason))?;
        }
    }
    Ok(())
}

fn read(store: &Path) -> Result<RecordedJobs, StoreError> {
    let store = EmbeddedStore::open(store)?;
    let mut jobs = RecordedJobs::default();
    store.scan_jobs(&|key| RecordedJobs::KEYS.contains(&key), &mut |job| {
        let values = job.entries.into_iter().map(|entry| (entry.name, entry.value));
        jobs.add(JobId::new(job.id), values.collect());
        ControlFlow::Continue(())
    })?;
    Ok(jobs)
}
