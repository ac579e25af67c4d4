//! The state directory: everything that a manager keeps between runs, for one manager at a time.
//!
//! A manager removes and replaces files in its state directory, so it takes only a directory that is new or empty, or
//! that a manager has marked. In a directory with other files, which stay as they are, it makes a directory of its own.
//! Directories that others could change are refused, as are a home and `/`.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;

use crate::exec;
use crate::files::{
    self, Dir, Found, Kind, LOCK, Lock, LockError, MARKER, Purpose, TemporaryDir, TemporaryDirError,
};
use crate::store::GuestFiles;
use crate::users;

/// The permission bits that let the group and all others change a directory.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The bits of a mode that say who may read, write and enter a directory.
const PERMISSIONS: u32 = 0o7777;

/// The name of the state directory in a directory that has other files.
const OWN: &str = "jobtap";

/// The store's directory in the state directory.
const STORE: &str = "store";

/// The shepherd's directory for the directories of running jobs.
const JOB_DIRS: &str = "tmp";

/// Why a state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// Another manager runs in it.
    #[error("the state directory {} is in use by the manager with pid {pid}", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process id that the other manager wrote into the lock file.
        pid: String,
    },
    /// It belongs to another user.
    #[error("the state directory {} belongs to user {uid}, and this is user {own}: start the manager as that user, or name another directory", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// The user of this process.
        own: u32,
    },
    /// Other users can write to it.
    #[error("the state directory {} can be changed by other users (its mode is {mode:04o}): take that from them with `chmod go-w`, or name another directory", path.display())]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is not empty, and no manager made it.
    #[error("the state directory {} is not one that jobtap made, and it is not empty (it holds {found:?}): name a new or an empty directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// A name in it.
        found: String,
    },
    /// It is the home of the user who starts the manager.
    #[error("{} is a home directory, whose files would lie between those of the manager: name a directory for the state alone, such as {}", .0.display(), .0.join(OWN).display())]
    Home(PathBuf),
    /// It is `/`.
    #[error(
        "the root of the file system can't be the state directory: name a directory for it alone, such as /var/lib/jobtap"
    )]
    Root,
    /// It is a link.
    #[error("the state directory {} is a symbolic link to {}: name that directory itself", path.display(), target.display())]
    Link {
        /// The link.
        path: PathBuf,
        /// Where it leads to.
        target: PathBuf,
    },
    /// A file in it is not of the type that a manager made.
    #[error("the state directory {} is not as jobtap left it: {} in it is {found} and should be {expected}; put back what was there, or name another directory", path.display(), name.display())]
    Changed {
        /// The directory.
        path: PathBuf,
        /// The file, relative to the directory.
        name: PathBuf,
        /// Its type.
        found: &'static str,
        /// The type that a manager made.
        expected: &'static str,
    },
    /// A later version made it.
    #[error("the state directory {} has format {format}, which this jobtap doesn't know: start it with the jobtap that made it", path.display())]
    Format {
        /// The directory.
        path: PathBuf,
        /// Its format.
        format: String,
    },
    /// Its path is not UTF-8, and the address of a manager is text.
    #[error("the state directory {}: a manager can't be reached by a path that is not UTF-8; name another directory", .0.display())]
    NotText(PathBuf),
    /// It is a file.
    #[error("the state directory {} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The disk is full.
    #[error("the state directory {} is on a full disk", .0.display())]
    Full(PathBuf),
    /// A temporary directory cannot be created.
    #[error(transparent)]
    Temporary(#[from] TemporaryDirError),
    /// Any other error.
    #[error("can't use the state directory {}: {reason}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        reason: io::Error,
    },
}

/// A state directory that no other manager uses until this is dropped.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    held: Held,
}

/// What keeps other managers out.
#[derive(Debug)]
enum Held {
    /// The lock of a directory that stays.
    Lock { _lock: Lock },
    /// A directory that is removed when this is dropped.
    Temporary { _dir: TemporaryDir },
}

impl StateDir {
    /// Takes this directory, or makes one of its own in it if there are other files. Creates it, for its owner only, if
    /// it does not exist.
    ///
    /// # Errors
    /// It is in use, or a manager may not use it. In either case nothing in it was changed.
    pub fn open(path: &Path) -> Result<Self, StateDirError> {
        // Strips a slash at the end, with which a link would be followed.
        let given: PathBuf = path.components().collect();
        let dir = open_or_make(&given)?;
        match take(&dir, &given, &homes()) {
            // Another manager that starts at the same moment has made the directory its own.
            Err(StateDirError::NotEmpty { path, .. }) if found(&dir, &path)? == Found::Nothing => {
                let path = path.join(OWN);
                take(&open_or_make(&path)?, &path, &[])
            }
            Err(StateDirError::NotEmpty { .. }) => take(&dir, &given, &homes()),
            other => other,
        }
    }

    /// Creates a temporary directory that is removed when this is dropped.
    ///
    /// # Errors
    /// The directory for temporary files cannot be used.
    pub fn temporary() -> Result<Self, StateDirError> {
        let dir = TemporaryDir::new()?;
        let path = dir.path().to_owned();
        Ok(Self { path, held: Held::Temporary { _dir: dir } })
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is removed when this is dropped.
    pub fn is_temporary(&self) -> bool {
        matches!(self.held, Held::Temporary { .. })
    }
}

/// The state directory that a manager would continue with if it were started with this directory.
pub fn existing(path: &Path) -> Option<PathBuf> {
    let marked = |path: &Path| path.join(MARKER).symlink_metadata().is_ok();
    [path.to_owned(), path.join(OWN)].into_iter().find(|path| marked(path))
}

/// Takes exactly this directory. One of `homes` may already be a state directory, but doesn't become one.
fn take(dir: &Dir, given: &Path, homes: &[PathBuf]) -> Result<StateDir, StateDirError> {
    let path = dir.real_path().map_err(|reason| explain(given, reason))?;
    let failed = |reason| explain(&path, reason);
    let stat = dir.stat().map_err(failed)?;
    check_directory(&path, &stat)?;
    let mut left_over = false;
    match found(dir, &path)? {
        Found::Marker(purpose) => {
            check_content(dir, &path)?;
            left_over = purpose == Purpose::Temporary;
        }
        Found::Nothing => {
            if homes.iter().any(|home| is(home, &stat)) {
                return Err(StateDirError::Home(path));
            }
            check_empty(dir, &path, &[])?;
            mark(dir, &path)?;
        }
        Found::Unfinished => {
            check_empty(dir, &path, &[MARKER, LOCK])?;
            dir.remove_file(MARKER).map_err(failed)?;
            mark(dir, &path)?;
        }
        Found::Format(format) => return Err(StateDirError::Format { path, format }),
        Found::Foreign => {
            let (name, found) = (PathBuf::from(MARKER), "something else");
            let expected = "jobtap's mark of the directory";
            return Err(StateDirError::Changed { path, name, found, expected });
        }
    }
    let lock = Lock::take(dir).map_err(|error| match error {
        LockError::Held(pid) => StateDirError::InUse { path: path.clone(), pid },
        LockError::Io(reason) => explain(&path, reason),
    })?;
    if left_over {
        // A temporary directory that a killed manager left becomes a permanent one when a manager is started with it.
        dir.remove_file(MARKER).map_err(failed)?;
        mark(dir, &path)?;
    }
    Ok(StateDir { path, held: Held::Lock { _lock: lock } })
}

fn found(dir: &Dir, path: &Path) -> Result<Found, StateDirError> {
    files::read_marker(dir).map_err(|reason| explain(path, reason))
}

/// The homes of the user who starts the manager, according to the environment and to the system.
fn homes() -> Vec<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let of_environment = std::env::var_os("HOME").map(PathBuf::from);
    of_environment.into_iter().chain(users::home(own)).collect()
}

/// Whether a path leads to the directory of `stat`.
fn is(path: &Path, stat: &Stat) -> bool {
    rustix::fs::stat(path).is_ok_and(|of| (of.st_dev, of.st_ino) == (stat.st_dev, stat.st_ino))
}

/// Removes directories that killed managers left in the directory for temporary files: a bounded number,
/// on a thread of its own, so that the start does not wait for it.
pub fn remove_leftovers() {
    let remove = || files::remove_leftovers(exec::shepherd_listens);
    // Without a thread they are left for the next start.
    let _ = std::thread::Builder::new().name("leftovers".to_owned()).spawn(remove);
}

fn open_or_make(path: &Path) -> Result<Dir, StateDirError> {
    check_text(path)?;
    match Dir::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other.map_err(|reason| refused(path, reason)),
    }
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(path);
    made.and_then(|()| Dir::open(path)).map_err(|reason| refused(path, reason))
}

/// Returns why a directory cannot be opened. The system has the same error for links and files.
fn refused(path: &Path, reason: io::Error) -> StateDirError {
    let path = path.to_owned();
    match std::fs::symlink_metadata(&path) {
        Ok(found) if found.is_symlink() => {
            let target = std::fs::read_link(&path).unwrap_or_default();
            StateDirError::Link { path, target }
        }
        Ok(found) if !found.is_dir() => StateDirError::NotADirectory(path),
        _ => explain(&path, reason),
    }
}

/// Checks that a directory is not `/`, and that only this user can change it.
fn check_directory(path: &Path, stat: &Stat) -> Result<(), StateDirError> {
    check_text(path)?;
    let path = path.to_owned();
    if is(Path::new("/"), stat) {
        return Err(StateDirError::Root);
    }
    let own = rustix::process::geteuid().as_raw();
    if stat.st_uid != own {
        return Err(StateDirError::NotOurs { path, uid: stat.st_uid, own });
    }
    if stat.st_mode & WRITABLE_BY_OTHERS != 0 {
        return Err(StateDirError::Writable { path, mode: stat.st_mode & PERMISSIONS });
    }
    Ok(())
}

fn check_text(path: &Path) -> Result<(), StateDirError> {
    match path.to_str() {
        Some(_) => Ok(()),
        None => Err(StateDirError::NotText(path.to_owned())),
    }
}

fn check_empty(dir: &Dir, path: &Path, but: &[&str]) -> Result<(), StateDirError> {
    for name in dir.names().map_err(|reason| explain(path, reason))? {
        let name = name.map_err(|reason| explain(path, reason))?;
        if !but.iter().any(|known| **known == *name) {
            let found = name.to_string_lossy().into_owned();
            return Err(StateDirError::NotEmpty { path: path.to_owned(), found });
        }
    }
    Ok(())
}

fn mark(dir: &Dir, path: &Path) -> Result<(), StateDirError> {
    match files::write_marker(dir, Purpose::State) {
        // Another manager starts at the same moment; the lock decides.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(|reason| explain(path, reason)),
    }
}

/// Refuses links in place of the manager's files: the manager would write to their targets. The store's engine opens
/// its files by their paths, so all of them are checked.
fn check_content(dir: &Dir, path: &Path) -> Result<(), StateDirError> {
    let directories = GuestFiles::directories().chain([STORE, JOB_DIRS]);
    let directories = directories.map(|name| (name, Kind::Directory));
    let files = [LOCK, exec::SHEPHERD_LOG].map(|name| (name, Kind::Regular));
    for (name, expected) in directories.chain(files) {
        match dir.kind(name).map_err(|reason| explain(path, reason))? {
            Some(kind) if kind != expected => {
                return Err(StateDirError::Changed {
                    path: path.to_owned(),
                    name: name.into(),
                    found: kind.described(),
                    expected: expected.described(),
                });
            }
            _ => {}
        }
    }
    let mut below = vec![PathBuf::from(STORE)];
    while let Some(inner) = below.pop() {
        let there = match open_below(dir, &inner) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.map_err(|reason| explain(path, reason))?,
        };
        for name in there.names().map_err(|reason| explain(path, reason))? {
            let name = name.map_err(|reason| explain(path, reason))?;
            let kind = there.kind(&name).map_err(|reason| explain(path, reason))?;
            match kind {
                None | Some(Kind::Regular) => {}
                Some(Kind::Directory) => below.push(inner.join(name)),
                Some(kind) => {
                    return Err(StateDirError::Changed {
                        path: path.to_owned(),
                        name: inner.join(name),
                        found: kind.described(),
                        expected: "a file of the store",
                    });
                }
            }
        }
    }
    Ok(())
}

/// Opens a directory below another one. No directory on the way may be a link.
fn open_below(dir: &Dir, inner: &Path) -> io::Result<Dir> {
    let mut components = inner.iter();
    let first = components.next().ok_or(io::ErrorKind::NotFound)?;
    components.try_fold(dir.sub(first)?, |dir, name| dir.sub(name))
}

fn explain(path: &Path, reason: io::Error) -> StateDirError {
    let path = path.to_path_buf();
    match reason.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StateDirError::Full(path),
        io::ErrorKind::NotADirectory => StateDirError::NotADirectory(path),
        _ => StateDirError::Io { path, reason },
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// All names below a directory, with the content of the files.
    fn content(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut all = Vec::new();
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap();
            all.push((
                path.clone(),
                if kind.is_file() { fs::read(&path).unwrap() } else { vec![] },
            ));
            if kind.is_dir() {
                all.extend(content(&path));
            }
        }
        all.sort();
        all
    }

    fn refusal(path: &Path) -> String {
        StateDir::open(path).unwrap_err().to_string()
    }

    #[test]
    fn it_is_made_for_its_owner_only_and_locked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/state");
        let first = StateDir::open(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let refusal = refusal(&path);
        assert!(refusal.ends_with(&format!("pid {}", std::process::id())), "{refusal}");
        drop(first);
        assert!(StateDir::open(&path).is_ok());
    }

    #[test]
    fn an_empty_directory_may_have_been_made_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        drop(StateDir::open(&path).unwrap());
        fs::write(path.join("notes"), "of the administrator").unwrap();
        drop(StateDir::open(&path.join(".")).unwrap());
        assert!(path.join("notes").exists());
    }

    #[test]
    fn what_no_manager_made_is_refused_and_left_as_it_is() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        for name in ["taken", "open", "open/sub", "linked", "marked", "filed"] {
            fs::create_dir(path(name)).unwrap();
        }
        for name in ["taken/jobtap/store", "taken/jobtap/tmp"] {
            fs::create_dir_all(path(name)).unwrap();
            fs::write(path(name).join("precious"), name).unwrap();
        }
        symlink("../taken", path("linked/jobtap")).unwrap();
        fs::write(path("filed/jobtap"), "precious").unwrap();
        fs::write(path("marked").join(MARKER), "precious").unwrap();
        fs::write(path("file"), "precious").unwrap();
        for (name, mode) in [("open", 0o775), ("open/sub", 0o1777)] {
            fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        }
        symlink("taken", path("link")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        let cases = [
            ("taken", "taken/jobtap is not one that jobtap made, and it is not empty (it holds \""),
            ("taken/", "name a new or an empty directory"),
            ("linked", "linked/jobtap is a symbolic link to ../taken"),
            ("filed", "filed/jobtap is not a directory"),
            ("marked", "jobtap-directory in it is something else"),
            ("open", "can be changed by other users (its mode is 0775)"),
            ("open/sub", "(its mode is 1777): take that from them with `chmod go-w`"),
            ("file", "is not a directory"),
            ("file/x", "is not a directory"),
            ("link", "is a symbolic link to taken: name that directory itself"),
            ("link/", "is a symbolic link"),
            ("link/.", "is a symbolic link"),
            ("dangling", "is a symbolic link to nowhere"),
            ("/", "such as /var/lib/jobtap"),
            ("//", "such as /var/lib/jobtap"),
            ("/..", "such as /var/lib/jobtap"),
        ];
        let before = content(base.path());
        for (name, expected) in cases {
            let refusal = refusal(&path(name));
            assert!(refusal.contains(expected), "{name}: {refusal}");
        }
        assert_eq!(content(base.path()), before);
    }

    #[test]
    fn beside_other_files_it_is_a_directory_of_its_own() {
        let base = tempfile::tempdir().unwrap();
        for name in ["store", "tmp", "output"] {
            fs::create_dir(base.path().join(name)).unwrap();
            fs::write(base.path().join(name).join("precious"), name).unwrap();
        }
        fs::write(base.path().join("lock"), "precious").unwrap();
        let before = content(base.path());
        assert_eq!(existing(base.path()), None);
        let first = StateDir::open(base.path()).unwrap();
        let own = base.path().canonicalize().unwrap().join(OWN);
        assert_eq!(first.path(), own);
        assert_eq!(own.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let refused = refusal(base.path());
        assert!(refused.ends_with(&format!("pid {}", std::process::id())), "{refused}");
        drop(first);
        // It stays the same one when the other files are gone.
        let mut others = content(base.path());
        others.retain(|(path, _)| {
            !path.starts_with(&own) && !path.starts_with(base.path().join(OWN))
        });
        assert_eq!(others, before);
        for name in ["store", "tmp", "output"] {
            fs::remove_dir_all(base.path().join(name)).unwrap();
        }
        fs::remove_file(base.path().join("lock")).unwrap();
        assert_eq!(StateDir::open(base.path()).unwrap().path(), own);
        assert_eq!(existing(base.path()), Some(base.path().join(OWN)));
    }

    #[test]
    fn a_home_does_not_become_one() {
        let base = tempfile::tempdir().unwrap();
        let dir = Dir::open(base.path()).unwrap();
        let homes = [base.path().to_owned()];
        let refused = take(&dir, base.path(), &homes).unwrap_err().to_string();
        let expected =
            format!("such as {}", base.path().canonicalize().unwrap().join(OWN).display());
        assert!(
            refused.contains("is a home directory") && refused.ends_with(&expected),
            "{refused}"
        );
        assert_eq!(content(base.path()), []);
        // The home of a service may be its state directory from before.
        drop(take(&dir, base.path(), &[]).unwrap());
        drop(take(&dir, base.path(), &homes).unwrap());
    }

    #[test]
    fn a_path_that_is_not_text_is_refused_before_it_is_made() {
        use std::os::unix::ffi::OsStrExt;
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join(std::ffi::OsStr::from_bytes(b"st\xff"));
        let refusal = refusal(&path);
        assert!(refusal.contains("not UTF-8; name another directory"), "{refusal}");
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        if std::os::unix::fs::chown(dir.path(), Some(65534), None).is_err() {
            println!("skipped: only root can give a directory away");
            return;
        }
        let refusal = refusal(dir.path());
        assert!(refusal.contains("belongs to user 65534, and this is user 0"), "{refusal}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn links_in_the_place_of_its_parts_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let elsewhere = base.path().join("elsewhere");
        fs::create_dir_all(elsewhere.join("db-3")).unwrap();
        for name in ["store", "input", "output", "tmp", "lock", "shepherd.log"] {
            let state = base.path().join(format!("state-{name}"));
            drop(StateDir::open(&state).unwrap());
            let _ = fs::remove_file(state.join(name));
            symlink(&elsewhere, state.join(name)).unwrap();
            let refusal = refusal(&state);
            let expected = format!("{name} in it is a symbolic link and should be a ");
            assert!(refusal.contains(&expected), "{refusal}");
        }
        let state = base.path().join("state");
        drop(StateDir::open(&state).unwrap());
        fs::create_dir_all(state.join("store/db-3/keyspaces")).unwrap();
        drop(StateDir::open(&state).unwrap());
        symlink(&elsewhere, state.join("store/db-3/keyspaces/1")).unwrap();
        let refusal = refusal(&state);
        assert!(refusal.contains("store/db-3/keyspaces/1 in it is a symbolic link"), "{refusal}");
    }

    #[test]
    fn a_marker_that_was_not_finished_is_made_anew() {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join(MARKER), "jobtap state dir").unwrap();
        drop(StateDir::open(base.path()).unwrap());
        fs::write(base.path().join(MARKER), "jobtap state dir").unwrap();
        fs::write(base.path().join("precious"), "").unwrap();
        assert!(refusal(base.path()).contains("it holds \"precious\""));
    }

    #[test]
    fn a_format_that_is_not_known_is_refused() {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join(MARKER), "jobtap state directory, format 7\n").unwrap();
        let refusal = refusal(base.path());
        assert!(refusal.contains("has format 7") && refusal.contains("that made it"), "{refusal}");
    }

    #[test]
    fn a_temporary_one_that_is_named_is_kept_from_then_on() {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), Permissions::from_mode(0o700)).unwrap();
        let dir = Dir::open(base.path()).unwrap();
        files::write_marker(&dir, Purpose::Temporary).unwrap();
        drop(StateDir::open(base.path()).unwrap());
        assert_eq!(files::read_marker(&dir).unwrap(), Found::Marker(Purpose::State));
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
