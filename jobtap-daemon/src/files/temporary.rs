//! Directories for one run of the program, in the system's directory for temporary files. A process that is
//! killed leaves its directory there; later processes remove it.

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::lock::{LOCK, Lock};
use super::marker::{self, Found, MARKER, Purpose};
use super::{Dir, removal};

/// The prefix of their names.
const PREFIX: &str = "jobtap-";

/// The number of random letters in their names.
const RANDOM: usize = 12;

/// The names that are removed last, so that an interrupted removal can be continued.
const PROOF: [&str; 2] = [LOCK, MARKER];

/// The maximum number of names that one search goes through, of directories that it inspects, and of
/// directories that it removes. The limits bound the time of a start after many processes were killed.
const MAX_NAMES: usize = 20_000;
const MAX_LOOKED_INTO: usize = 4_096;
const MAX_REMOVED: usize = 32;

/// The reason why no temporary directory could be created.
#[derive(Debug, thiserror::Error)]
#[error("can't make a temporary directory in {}{}: {reason}; set TMPDIR to a directory that you can write", base.display(), source_of_base())]
pub struct TemporaryDirError {
    base: PathBuf,
    reason: io::Error,
}

/// Names the source of the directory's path, if it isn't the system's default.
fn source_of_base() -> &'static str {
    if std::env::var_os("TMPDIR").is_some() { ", which TMPDIR names" } else { "" }
}

/// A directory that only its owner may enter, removed with all that is in it when this is dropped.
#[derive(Debug)]
pub struct TemporaryDir {
    base: Dir,
    name: OsString,
    dir: Dir,
    path: PathBuf,
    _lock: Lock,
}

impl TemporaryDir {
    /// Creates a temporary directory.
    pub fn new() -> Result<Self, TemporaryDirError> {
        let base = std::env::temp_dir();
        Self::new_in(&base).map_err(|reason| TemporaryDirError { base, reason })
    }

    fn new_in(base: &Path) -> io::Result<Self> {
        let base = open_base(base)?;
        if base.real_path()?.to_str().is_none() {
            let text = "a manager's address is text, and this path is not UTF-8";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        // The name is random, so that other users can't occupy it in advance.
        let made = tempfile::Builder::new()
            .prefix(PREFIX)
            .rand_bytes(RANDOM)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(base.through_handle())?
            .keep();
        let name = made.file_name().unwrap_or_default().to_owned();
        let dir = base.sub(&name)?;
        // Locked before it is marked: other processes may remove a marked directory that isn't locked.
        let lock = Lock::take(&dir).map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
        marker::write(&dir, Purpose::Temporary)?;
        let path = dir.real_path()?;
        Ok(Self { base, name, dir, path, _lock: lock })
    }

    /// The absolute path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryDir {
    /// Entries that can't be removed now are left to later processes.
    fn drop(&mut self) {
        remove(&self.base, &self.name, &self.dir);
    }
}

/// Removes directories that killed processes left, a bounded number of them. `in_use` returns whether a
/// directory that isn't locked is still needed.
pub fn remove_leftovers(in_use: impl Fn(&Dir) -> bool) {
    remove_leftovers_in(&std::env::temp_dir(), in_use);
}

/// Removes the directory of a process that is gone, by its path. Does nothing unless it is
/// [proven](remove_leftover) to be left over: a user may have made it a state directory since.
pub(crate) fn remove_leftover_at(path: &Path) -> io::Result<()> {
    let (base, name) = Dir::of_file(path)?;
    match remove_leftover(&base, &name, |_| false) {
        true => Ok(()),
        false => Err(io::Error::other("it is in use, or something in it can't be removed")),
    }
}

fn remove_leftovers_in(base: &Path, in_use: impl Fn(&Dir) -> bool) {
    let Ok(base) = open_base(base) else { return };
    let Ok(names) = base.names() else { return };
    let ours = |name: &OsString| name.as_bytes().starts_with(PREFIX.as_bytes());
    let names = names.take(MAX_NAMES).flatten().filter(ours).take(MAX_LOOKED_INTO);
    let mut removed = 0;
    for name in names {
        removed += usize::from(remove_leftover(&base, &name, &in_use));
        if removed == MAX_REMOVED {
            break;
        }
    }
}

/// Removes a directory if it is proven to be left over: created by this user's processes, marked for one
/// run, and not locked.
fn remove_leftover(base: &Dir, name: &OsStr, in_use: impl Fn(&Dir) -> bool) -> bool {
    let Ok(dir) = base.sub(name) else { return false };
    let private = dir.stat().is_ok_and(|stat| {
        // Others may pass through the directory of a manager that serves guests.
        stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o066 == 0
    });
    if !private || !matches!(marker::read(&dir), Ok(Found::Marker(Purpose::Temporary))) {
        return false;
    }
    let Ok(_lock) = Lock::take(&dir) else { return false };
    !in_use(&dir) && remove(base, name, &dir)
}

/// Removes a directory with its content. The marker and the lock, which prove what it is, are removed last.
fn remove(base: &Dir, name: &OsStr, dir: &Dir) -> bool {
    let emptied = removal::empty(dir, &PROOF).is_ok()
        && dir.names().is_ok_and(|mut names| {
            names.all(|name| name.is_ok_and(|name| PROOF.iter().any(|proof| **proof == *name)))
        });
    if emptied {
        for name in PROOF {
            let _ = dir.remove_file(name);
        }
    }
    emptied && base.remove_dir(name).is_ok()
}

/// Opens the directory for temporary files. It may be a link, since the user names it.
fn open_base(base: &Path) -> io::Result<Dir> {
    Dir::of_file(&base.join(PREFIX)).map(|(base, _)| base)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates a directory as a killed process leaves it: the lock is free.
    fn left(base: &Path, name: &str, purpose: Purpose) -> PathBuf {
        let dir = open_base(base).unwrap().make_new(name).unwrap();
        drop(Lock::take(&dir).unwrap());
        marker::write(&dir, purpose).unwrap();
        let path = base.join(name);
        fs::create_dir(path.join("store")).unwrap();
        fs::write(path.join("store/x"), "x").unwrap();
        path
    }

    #[test]
    fn it_is_private_and_removed_with_its_content() {
        let base = tempfile::tempdir().unwrap();
        let made = TemporaryDir::new_in(base.path()).unwrap();
        let path = made.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::write(path.join("a/b/c"), "x").unwrap();
        drop(made);
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_directories_of_killed_processes_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        let killed = left(base.path(), "jobtap-killed", Purpose::Temporary);
        let running = TemporaryDir::new_in(base.path()).unwrap();
        left(base.path(), "jobtap-needed", Purpose::Temporary);
        fs::write(path("jobtap-needed/needed"), "").unwrap();
        left(base.path(), "jobtap-state", Purpose::State);
        left(base.path(), "other-name", Purpose::Temporary);
        left(base.path(), "jobtap-open", Purpose::Temporary);
        fs::set_permissions(path("jobtap-open"), Permissions::from_mode(0o770)).unwrap();
        fs::create_dir_all(path("jobtap-of-another/store")).unwrap();
        fs::write(path("jobtap-a-file"), "").unwrap();
        left(base.path(), "linked", Purpose::Temporary);
        symlink("linked", path("jobtap-link")).unwrap();
        let before = fs::read_dir(base.path()).unwrap().count();
        remove_leftovers_in(base.path(), |dir| dir.kind("needed").unwrap().is_some());
        assert!(!killed.exists());
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), before - 1);
        assert!(running.path().join(MARKER).exists() && path("linked/store/x").exists());
    }

    #[test]
    fn a_directory_that_became_a_state_directory_is_not_removed() {
        let base = tempfile::tempdir().unwrap();
        let killed = left(base.path(), "jobtap-killed", Purpose::Temporary);
        let state = left(base.path(), "jobtap-state", Purpose::State);
        remove_leftover_at(&killed).unwrap();
        remove_leftover_at(&state).unwrap_err();
        assert!(!killed.exists() && state.join("store/x").exists());
    }

    #[test]
    fn one_search_removes_a_bounded_number() {
        let base = tempfile::tempdir().unwrap();
        for number in 0..MAX_REMOVED + 3 {
            left(base.path(), &format!("jobtap-{number}"), Purpose::Temporary);
        }
        remove_leftovers_in(base.path(), |_| false);
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 3);
        remove_leftovers_in(base.path(), |_| false);
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_named() {
        let reason = TemporaryDir::new_in("/nonexistent".as_ref()).unwrap_err();
        let error = TemporaryDirError { base: "/nonexistent".into(), reason }.to_string();
        assert!(error.contains("in /nonexistent") && error.contains("set TMPDIR"), "{error}");
        let base = tempfile::tempdir().unwrap();
        let base = base.path().join(OsStr::from_bytes(b"\xff"));
        fs::create_dir(&base).unwrap();
        let error = TemporaryDir::new_in(&base).unwrap_err().to_string();
        assert!(error.contains("not UTF-8"), "{error}");
    }
}
