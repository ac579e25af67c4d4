//! The directory that a job has for itself while it runs (`FLUX_JOB_TMPDIR`), with the files of its
//! jobspec (RFC 37).
//!
//! Each directory is named after its job's id, below a directory of the state directory. A shepherd removes only
//! directories with such a name, in that place, in a state directory with a manager's marker. It removes them
//! through handles, so that no link leads the removal elsewhere.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use jobtap_core::job::{Encoding, JobId};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use serde_json::Value;

use super::super::job_user::{Identity, JobUser};
use super::super::system_error::plain;
use crate::exec::StartJob;
use crate::exec::data::decode_data;
use crate::files::{self, Dir, Found, KeptDir, Kind};

/// The tag for the directory in commands and file names.
const TAG: &str = "{{tmpdir}}";

/// The bits of a file's mode that are used: the permissions to read, write and execute it.
const PERMISSIONS: u64 = 0o777;

/// The directory of all job directories, below the manager's state directory.
const ALL: &str = "tmp";

/// The directory in it to which job directories are moved for removal.
const ASIDE: &str = "removing";

/// The directory in it with spare directories: those that ended jobs have left as they were made. Other jobs of the
/// same user get them: making and removing a directory takes longer than everything else that a short job needs, on
/// some file systems by far.
const SPARE: &str = "spare";

/// The maximum number of directories that are kept there.
const MOST_SPARE: usize = 64;

/// The maximum number of nodes for which the job's directory has a directory each.
const MOST_NODES: usize = 64;

/// The mode of a job's directory as it is made.
const MODE: u32 = 0o700;

/// The directories of all jobs.
#[derive(Clone, Debug)]
pub(in crate::exec::shepherd) struct JobDirs(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Dir,
    /// The directory [`ALL`].
    all: KeptDir,
    /// The directory [`SPARE`].
    kept: KeptDir,
    /// The channel to the thread that removes directories, once it is started.
    remover: Mutex<Option<Sender<()>>>,
    /// The names in [`SPARE`] that this shepherd has put there.
    spare: Mutex<Vec<OsString>>,
}

/// The directory of one job. If it is not removed, the next shepherd removes it when it starts.
#[derive(Debug)]
pub(in crate::exec::shepherd) struct JobDir {
    dirs: JobDirs,
    name: OsString,
    path: PathBuf,
}

/// Why a job has no directory, although it uses it.
#[derive(Debug, thiserror::Error)]
pub(in crate::exec::shepherd) enum JobDirError {
    /// The directory can't be made.
    #[error("cannot make {}: {}", path.display(), plain(error))]
    Make { path: PathBuf, error: io::Error },
    /// One of the job's files can't be written into it.
    #[error("file {name}: {fault}")]
    File { name: String, fault: FileFault },
    /// The directories of the job's nodes can't be made.
    #[error("cannot make a directory for each node: {}", plain(.0))]
    Nodes(io::Error),
    /// The directory can't be given to the job's user, or is out of the user's reach.
    #[error("cannot use {}: {}", path.display(), plain(error))]
    Use { path: PathBuf, error: io::Error },
}

/// Why a file of a job can't be written.
#[derive(Debug, thiserror::Error)]
pub(in crate::exec::shepherd) enum FileFault {
    /// It would be outside of the directory.
    #[error("the name must stay within the job's directory")]
    Name,
    /// Its content isn't what its encoding says.
    #[error(transparent)]
    Content(#[from] base64::DecodeError),
    /// No encoding has this name.
    #[error("unknown encoding '{0}'")]
    Encoding(String),
    /// The system's error.
    #[error("{}", plain(.0))]
    Write(io::Error),
}

impl JobDirs {
    /// Opens the job directories of a state directory.
    pub(in crate::exec::shepherd) fn open(state_dir: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(Inner {
            state: Dir::open(state_dir)?,
            all: KeptDir::new(ALL),
            kept: KeptDir::new(SPARE),
            remover: Mutex::default(),
            spare: Mutex::default(),
        })))
    }

    /// The directory of a job that another shepherd has made.
    pub(in crate::exec::shepherd) fn find(&self, id: JobId) -> Option<JobDir> {
        let name = OsString::from(id.encode(Encoding::DotHex));
        let found = self.0.state.sub(ALL).and_then(|all| all.kind(&name)).ok()?;
        let path = self.0.state.path().join(ALL).join(&name);
        (found == Some(Kind::Directory)).then(|| JobDir { dirs: self.clone(), name, path })
    }

    /// Makes a job's directory and writes the job's files there; both belong to the job's user. Returns `None` if the
    /// directory can't be made, or is out of the user's reach, and the job doesn't visibly use it.
    pub(in crate::exec::shepherd) fn make(
        &self,
        job: &StartJob,
        job_user: &JobUser,
    ) -> Result<Option<JobDir>, JobDirError> {
        let name = OsString::from(job.id.encode(Encoding::DotHex));
        let path = self.0.state.path().join(ALL).join(&name);
        let owner = job_user.other().map(|identity| &**identity);
        let made = self.0.all.with(&self.0.state, |all| self.make_dir(all, &name, owner));
        let made = match made {
            Ok(made) => made,
            Err(_) if !is_used(job) => return Ok(None),
            Err(error) => return Err(JobDirError::Make { path, error }),
        };
        let dir = JobDir { dirs: self.clone(), name, path };
        for (name, file) in job.files.as_object().into_iter().flatten() {
            put(&made, name, file, owner)
                .map_err(|fault| JobDirError::File { name: name.clone(), fault })?;
        }
        if has_node_dirs(job) {
            (0..job.nodes.len())
                .try_for_each(|node| give(&made.make(name_of_node(node))?, owner))
                .map_err(JobDirError::Nodes)?;
        }
        // Last: until then only the shepherd can change what is in it.
        let given = give(&made, owner).and_then(|()| within_reach(dir.path(), job_user));
        match given {
            Ok(()) => Ok(Some(dir)),
            Err(error) => {
                let path = dir.path().to_owned();
                dir.remove();
                if is_used(job) { Err(JobDirError::Use { path, error }) } else { Ok(None) }
            }
        }
    }

    /// Makes a directory in `all`. `owner` is the job's user if that is not the shepherd's own.
    fn make_dir(&self, all: &Dir, name: &OsString, owner: Option<&Identity>) -> io::Result<Dir> {
        if owner.is_some() {
            all.let_others_pass()?;
        } else if let Some(spare) = self.reuse(all, name) {
            return Ok(spare);
        }
        match all.make_new(name) {
            // Left by an earlier launch of the same job, which a killed shepherd did not report.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.put_aside(all, name)?;
                all.make_new(name)
            }
            other => other,
        }
    }

    /// Gives the job a directory that another job has left empty.
    fn reuse(&self, all: &Dir, name: &OsString) -> Option<Dir> {
        let from = self.spare().pop()?;
        self.0.kept.with(all, |kept| kept.rename(&from, all, name)).ok()?;
        let dir = all.sub(name).ok()?;
        if is_as_made(&dir, all).unwrap_or(false) {
            return Some(dir);
        }
        // A process that has outlived its job has used it meanwhile.
        self.put_aside(all, name).ok()?;
        self.remove_in_the_background();
        None
    }

    /// Keeps the directory of a job for another one, if the job has left it as it was made.
    fn keep(&self, all: &Dir, name: &OsString) -> io::Result<bool> {
        let mut spare = self.spare();
        if spare.len() >= MOST_SPARE || !is_as_made(&all.sub(name)?, all)? {
            return Ok(false);
        }
        self.0.kept.with(all, |kept| all.rename(name, kept, name))?;
        spare.push(name.clone());
        Ok(true)
    }

    fn spare(&self) -> MutexGuard<'_, Vec<OsString>> {
        self.0.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the directories that killed shepherds left. To be called before the first job.
    pub(in crate::exec::shepherd) fn sweep(&self, kept: &[&OsString]) {
        if !matches!(files::read_marker(&self.0.state), Ok(Found::Marker(_))) {
            return;
        }
        let Ok(all) = self.0.state.sub(ALL) else { return };
        let Ok(names) = all.names() else { return };
        for name in names.flatten() {
            let is_dir = matches!(all.kind(&name), Ok(Some(Kind::Directory)));
            if is_dir && is_job(&name) && !kept.contains(&&name) {
                // A directory that can't be moved now is left to the next shepherd.
                let _ = self.put_aside(&all, &name);
            }
        }
        if all.sub(SPARE).is_ok() {
            let _ = self.put_aside(&all, &SPARE.into());
        }
        if all.sub(ASIDE).is_ok() {
            self.remove_in_the_background();
        }
    }

    fn put_aside(&self, all: &Dir, name: &OsString) -> io::Result<()> {
        files::move_aside(all, name, &all.make(ASIDE)?).map(drop)
    }

    /// Removes, on another thread, the directories that were moved aside, since all jobs share this thread.
    fn remove_in_the_background(&self) {
        let mut remover = self.0.remover.lock().unwrap_or_else(PoisonError::into_inner);
        if remover.is_none() {
            let (sender, requests) = channel::<()>();
            // A weak reference: the thread ends when the sender in `Inner` is dropped, so it must not
            // keep `Inner` alive.
            let dirs = Arc::downgrade(&self.0);
            let run = move || {
                while requests.recv().is_ok() {
                    // One pass serves all requests that have gathered meanwhile.
                    while requests.try_recv().is_ok() {}
                    let Some(dirs) = dirs.upgrade() else { return };
                    let aside = dirs.state.sub(ALL).and_then(|all| all.sub(ASIDE));
                    // What can't be removed now is left to the next shepherd.
                    let _ = aside.and_then(|aside| files::empty(&aside, &[]));
                }
            };
            if Builder::new().name("remove-tmpdir".to_owned()).spawn(run).is_ok() {
                *remover = Some(sender);
            }
        }
        if let Some(sender) = &*remover {
            let _ = sender.send(());
        }
    }
}

impl JobDir {
    /// The name of the directory.
    pub(in crate::exec::shepherd) fn name(&self) -> &OsString {
        &self.name
    }

    pub(in crate::exec::shepherd) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory with its content. Errors are ignored: the job has ended, and the next shepherd
    /// tries again.
    pub(in crate::exec::shepherd) fn remove(self) {
        let Self { dirs, name, .. } = self;
        let _ = dirs.0.all.with(&dirs.0.state, |all| {
            if dirs.keep(all, &name).unwrap_or(false) {
                return Ok(());
            }
            // An empty directory, the usual case, is removed here; the content of others may take long.
            if all.remove_dir(&name).is_err() {
                dirs.put_aside(all, &name)?;
                dirs.remove_in_the_background();
            }
            Ok(())
        });
    }
}

/// Whether a directory in `all` is empty, and has the same owner, mode, attributes and file system as when it was
/// made.
fn is_as_made(dir: &Dir, all: &Dir) -> io::Result<bool> {
    let (found, parent) = (dir.stat()?, all.stat()?);
    let own = found.st_uid == rustix::process::geteuid().as_raw() && found.st_gid == parent.st_gid;
    if !own || found.st_mode & 0o7777 != MODE || found.st_dev != parent.st_dev {
        return Ok(false);
    }
    let mut names = [0; 64];
    let attributes = match rustix::fs::flistxattr(dir, &mut names) {
        Err(Errno::OPNOTSUPP) => 0,
        // There are attributes, and their names don't fit.
        Err(Errno::RANGE) => names.len(),
        other => other?,
    };
    Ok(attributes == 0 && dir.is_empty()?)
}

/// Gives a file or directory to the job's user.
fn give(what: impl AsFd, owner: Option<&Identity>) -> io::Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    Ok(rustix::fs::fchown(what, Some(owner.uid()), Some(owner.gid()))?)
}

/// Whether the job's user can enter a directory. The state directory may be closed to other users.
fn within_reach(path: &Path, job_user: &JobUser) -> io::Result<()> {
    if job_user.other().is_none() {
        return Ok(());
    }
    job_user.act(|| Ok(accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)?)).flatten()
}

/// Writes a file of the job into its new directory.
fn put(dir: &Dir, name: &str, file: &Value, owner: Option<&Identity>) -> Result<(), FileFault> {
    let path = Path::new(name);
    let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    let (true, Some(last)) = (inside, path.file_name()) else {
        return Err(FileFault::Name);
    };
    let content = content(file)?;
    let mode = file.get("mode").and_then(Value::as_u64).unwrap_or(0o600) & PERMISSIONS;
    let write = || {
        let mut below = None;
        for part in path.parent().into_iter().flat_map(Path::iter) {
            let made = below.as_ref().unwrap_or(dir).make(part)?;
            give(&made, owner)?;
            below = Some(made);
        }
        let mode = u32::try_from(mode).unwrap_or(0o600);
        let mut file = below.as_ref().unwrap_or(dir).new_file(last, mode)?;
        file.write_all(&content)?;
        give(&file, owner)
    };
    write().map_err(FileFault::Write)
}

/// Whether this is the name of a job's directory.
fn is_job(name: &OsString) -> bool {
    let name = name.to_str().unwrap_or_default();
    name.parse::<JobId>().is_ok_and(|id| id.encode(Encoding::DotHex) == name)
}

/// The directory of one of the job's nodes, for what the tasks there share: the directory of the job, if it has one
/// node. Several nodes have a directory each, since all of them are this host. A job with very many nodes has none.
pub(in crate::exec::shepherd) fn of_node(job: &StartJob, node: usize) -> Option<PathBuf> {
    let dir = job.tmpdir.as_ref()?;
    match job.nodes.len() {
        0 | 1 => Some(dir.clone()),
        _ => has_node_dirs(job).then(|| dir.join(name_of_node(node))),
    }
}

fn has_node_dirs(job: &StartJob) -> bool {
    (2..=MOST_NODES).contains(&job.nodes.len())
}

fn name_of_node(node: usize) -> String {
    format!("node-{node}")
}

/// Whether the job has files, or refers to its directory.
fn is_used(job: &StartJob) -> bool {
    job.files.as_object().is_some_and(|files| !files.is_empty())
        || job.command.iter().any(|word| word.contains(TAG))
        || job.shell_options.to_string().contains(TAG)
}

/// The content of a file object: text, base64, or any JSON if `encoding` is missing.
fn content(file: &Value) -> Result<Vec<u8>, FileFault> {
    let data = file.get("data").unwrap_or(&Value::Null);
    match (file.get("encoding").and_then(Value::as_str), data) {
        (Some("base64"), Value::String(text)) => Ok(decode_data(text)?),
        (Some("utf-8"), Value::String(text)) => Ok(text.clone().into_bytes()),
        (None, data) => Ok(data.to_string().into_bytes()),
        (Some(other), _) => Err(FileFault::Encoding(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;
    use crate::exec::NodeTasks;
    use crate::files::Purpose;

    fn job(files: Value) -> StartJob {
        StartJob { files, ..StartJob::new(JobId::new(5)) }
    }

    /// A state directory as a manager makes it.
    fn state() -> (tempfile::TempDir, JobDirs) {
        let state = tempfile::tempdir().unwrap();
        files::write_marker(&Dir::open(state.path()).unwrap(), Purpose::State).unwrap();
        let dirs = JobDirs::open(state.path()).unwrap();
        (state, dirs)
    }

    fn wait_until(what: &str, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(30), "in vain: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_empty(path: &Path) -> bool {
        fs::read_dir(path).unwrap().count() == 0
    }

    #[test]
    fn files_exist_until_the_job_ends() {
        let (state, dirs) = state();
        let files = json!({
            "text": {"mode": 0o104755, "encoding": "utf-8", "data": "a b"},
            "sub/bytes": {"mode": 0o100600, "encoding": "base64", "data": "/w=="},
            "conf.json": {"mode": 0o100644, "data": {"x": 1}},
        });
        let dir = dirs.make(&job(files), &JobUser::default()).unwrap().unwrap();
        let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
        assert_eq!(read("text"), b"a b");
        assert_eq!(read("sub/bytes"), [0xff]);
        assert_eq!(read("conf.json"), b"{\"x\":1}");
        let mode = fs::metadata(dir.path().join("text")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7700, 0o700);
        let path = dir.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        dir.remove();
        assert!(!path.exists(), "at once, whatever is in it");
        wait_until("its content is removed", || is_empty(&state.path().join("tmp/removing")));
    }

    #[test]
    fn each_of_several_nodes_has_a_directory_of_its_own() {
        let (_state, dirs) = state();
        let nodes = |count| (0..count).map(|rank| NodeTasks { rank, ntasks: 1 }).collect();
        for (id, count, there) in [(1, 1, false), (2, 2, true), (3, MOST_NODES as u32 + 1, false)] {
            let mut job = StartJob { nodes: nodes(count), ..numbered(id) };
            let dir = dirs.make(&job, &JobUser::default()).unwrap().unwrap();
            assert_eq!(dir.path().join("node-1").is_dir(), there);
            job.tmpdir = Some(dir.path().to_owned());
            let expected = match count {
                1 => Some(dir.path().to_owned()),
                2 => Some(dir.path().join("node-1")),
                _ => None,
            };
            assert_eq!(of_node(&job, 1), expected);
        }
    }

    #[test]
    fn directories_left_by_a_killed_shepherd_are_removed() {
        let (state, dirs) = state();
        let old = dirs.make(&job(json!({"a": {"data": 1}})), &JobUser::default()).unwrap().unwrap();
        let again = JobDirs::open(state.path()).unwrap();
        again.sweep(&[]);
        let new =
            again.make(&job(json!({"b": {"data": 1}})), &JobUser::default()).unwrap().unwrap();
        assert!(!old.path().join("a").exists() && new.path().join("b").exists());
        wait_until("the old content is removed", || is_empty(&state.path().join("tmp/removing")));
    }

    #[test]
    fn a_job_that_is_started_again_finds_an_empty_directory() {
        let (_state, dirs) = state();
        let old = dirs.make(&job(json!({"a": {"data": 1}})), &JobUser::default()).unwrap().unwrap();
        let new = dirs.make(&job(json!({"b": {"data": 1}})), &JobUser::default()).unwrap().unwrap();
        assert!(!old.path().join("a").exists() && new.path().join("b").exists());
    }

    fn numbered(id: u64) -> StartJob {
        StartJob::new(JobId::new(id))
    }

    fn inode(path: &Path) -> u64 {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).unwrap().ino()
    }

    #[test]
    fn a_directory_that_was_left_as_it_was_made_is_used_again() {
        let (state, dirs) = state();
        let first = dirs.make(&numbered(1), &JobUser::default()).unwrap().unwrap();
        let (path, known) = (first.path().to_owned(), inode(first.path()));
        first.remove();
        assert!(!path.exists(), "the job's directory is gone for others");
        let second = dirs.make(&numbered(2), &JobUser::default()).unwrap().unwrap();
        assert_eq!((inode(second.path()), is_empty(second.path())), (known, true));
        second.remove();
        // The next shepherd knows nothing of it.
        let next = JobDirs::open(state.path()).unwrap();
        next.sweep(&[]);
        wait_until("spare directories are removed", || {
            is_empty(&state.path().join("tmp/removing")) && !state.path().join("tmp/spare").exists()
        });
    }

    #[test]
    fn a_directory_that_a_job_has_changed_is_not_used_again() {
        let (state, dirs) = state();
        let changes: [fn(&Path); 3] = [
            |dir| fs::write(dir.join("file"), "").unwrap(),
            |dir| fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap(),
            |dir| {
                let flags = rustix::fs::XattrFlags::empty();
                // A file system without attributes has nothing that could be left.
                if rustix::fs::setxattr(dir, "user.left", b"x", flags).is_err() {
                    fs::write(dir.join("file"), "").unwrap();
                }
            },
        ];
        for (change, id) in changes.into_iter().zip(1..) {
            let dir = dirs.make(&numbered(id), &JobUser::default()).unwrap().unwrap();
            change(dir.path());
            dir.remove();
            assert!(dirs.spare().is_empty(), "{id}");
        }
        wait_until("they are removed", || is_empty(&state.path().join("tmp/removing")));
    }

    #[test]
    fn a_spare_directory_that_is_used_meanwhile_is_not_given_away() {
        let (state, dirs) = state();
        dirs.make(&numbered(1), &JobUser::default()).unwrap().unwrap().remove();
        let spare = state.path().join("tmp/spare").join(JobId::new(1).encode(Encoding::DotHex));
        fs::write(spare.join("late"), "").unwrap();
        let next = dirs.make(&numbered(2), &JobUser::default()).unwrap().unwrap();
        assert!(is_empty(next.path()));
        wait_until("it is removed", || is_empty(&state.path().join("tmp/removing")));
    }

    #[test]
    fn few_spare_directories_are_kept() {
        let (_state, dirs) = state();
        let many: Vec<_> = (1..=100)
            .map(|id| dirs.make(&numbered(id), &JobUser::default()).unwrap().unwrap())
            .collect();
        many.into_iter().for_each(JobDir::remove);
        assert_eq!(dirs.spare().len(), MOST_SPARE);
    }

    #[test]
    fn a_sweep_touches_nothing_but_directories_of_jobs() {
        let (state, dirs) = state();
        let path = |name: &str| state.path().join(name);
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("precious"), "").unwrap();
        for name in ["tmp/notes", "tmp/0000", "tmp/0000.0000.0000.000G", "tmp.old", "tmp.5/sub"] {
            fs::create_dir_all(path(name)).unwrap();
            fs::write(path(name).join("precious"), "").unwrap();
        }
        fs::write(path("tmp/0000.0000.0000.0007"), "a file").unwrap();
        symlink(elsewhere.path(), path("tmp/0000.0000.0000.0008")).unwrap();
        fs::create_dir(path("tmp/0000.0000.0000.0009")).unwrap();
        symlink(elsewhere.path(), path("tmp/0000.0000.0000.0009/link")).unwrap();
        dirs.sweep(&[]);
        wait_until("the job's directory goes", || is_empty(&path("tmp/removing")));
        assert!(!path("tmp/0000.0000.0000.0009").exists());
        for name in ["tmp/notes", "tmp/0000", "tmp/0000.0000.0000.000G", "tmp.old", "tmp.5/sub"] {
            assert!(path(name).join("precious").exists(), "{name}");
        }
        assert!(path("tmp/0000.0000.0000.0007").exists());
        assert!(path("tmp/0000.0000.0000.0008").is_symlink());
        assert!(elsewhere.path().join("precious").exists());
    }

    #[test]
    fn nothing_is_swept_in_a_directory_without_marker() {
        let state = tempfile::tempdir().unwrap();
        let dir = state.path().join("tmp/0000.0000.0000.0009");
        fs::create_dir_all(&dir).unwrap();
        JobDirs::open(state.path()).unwrap().sweep(&[]);
        assert!(dir.exists());
    }

    #[test]
    fn no_directory_is_made_through_a_link() {
        let (state, dirs) = state();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), state.path().join("tmp")).unwrap();
        let refused = dirs.make(&job(json!({"a": {"data": 1}})), &JobUser::default());
        let refused = refused.unwrap_err().to_string();
        assert!(refused.starts_with("cannot make "), "{refused}");
        dirs.sweep(&[]);
        assert!(is_empty(elsewhere.path()));
    }

    #[test]
    fn a_job_that_names_a_directory_that_cannot_be_made_fails() {
        let (state, dirs) = state();
        fs::write(state.path().join("tmp"), "in the way").unwrap();
        assert!(dirs.make(&job(Value::Null), &JobUser::default()).unwrap().is_none());
        let named = StartJob { command: vec!["{{tmpdir}}/x".to_owned()], ..job(Value::Null) };
        let refused = dirs.make(&named, &JobUser::default()).unwrap_err().to_string();
        assert!(refused.starts_with("cannot make "));
    }

    #[test]
    fn a_file_name_outside_the_directory_is_refused() {
        let (_state, dirs) = state();
        for name in ["../x", "/x", "a/../../x", ""] {
            let files = json!({ name: {"mode": 0o600, "data": 1} });
            let refused = dirs.make(&job(files), &JobUser::default()).unwrap_err().to_string();
            assert!(
                refused.ends_with("the name must stay within the job's directory"),
                "{refused}"
            );
        }
    }
}
