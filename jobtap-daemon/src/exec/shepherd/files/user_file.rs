//! Files that a job's user names: opened and written without ever waiting for the user.
//!
//! The shepherd serves the jobs of all users on one thread. A FIFO, a socket or a terminal takes data only as fast
//! as its other end reads, so the shepherd writes to them when they are ready, and does other work meanwhile.
//!
//! It has files of many users open. A process may use its own open files by name (`/proc/self/fd/N`), whatever
//! directories they are in, so no file is opened by such a name.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, fcntl_getfl, fcntl_setfl, fstat,
    fstatfs, openat, openat2, readlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tokio::net::unix::pipe::Sender;
use tokio::sync::Mutex;

use crate::open_files::OpenFiles;

/// A file for the output of a job. Either the shepherd writes to it, or the job's tasks do.
pub(in crate::exec::shepherd) struct OutputFile {
    file: File,
    /// Its path, if only the task may open it.
    of_task: Option<PathBuf>,
    /// Held while a piece is written, so that pieces don't mix.
    turn: Mutex<()>,
}

impl OutputFile {
    /// The file `file`, which [`open`] has opened by the path `path`.
    pub(in crate::exec::shepherd) fn new(file: File, path: &Path) -> Self {
        let of_task = depends_on_process(&file).then(|| path.to_owned());
        Self { file: OpenFiles::of_this_process().apart(file), of_task, turn: Mutex::new(()) }
    }

    /// The file as a standard stream of a task, which expects that a write waits. The shepherd must not write to it
    /// from then on: it would wait, too.
    pub(in crate::exec::shepherd) fn for_task(&self) -> io::Result<TaskStream> {
        match &self.of_task {
            Some(path) => Ok(TaskStream::OpenedByTask(path.clone(), Purpose::Append)),
            None => for_task(self.file.try_clone()?).map(TaskStream::Open),
        }
    }

    fn writable(&self) -> io::Result<&File> {
        match self.of_task {
            Some(_) => Err(io::ErrorKind::PermissionDenied.into()),
            None => Ok(&self.file),
        }
    }

    /// Writes what can be written at once.
    pub(in crate::exec::shepherd) fn write_now(&self, text: &[u8]) -> io::Result<()> {
        self.writable()?.write_all(text)
    }

    /// Writes all of `text`, as fast as the file takes it.
    pub(in crate::exec::shepherd) async fn write(&self, mut text: &[u8]) -> io::Result<()> {
        let mut file = self.writable()?;
        let _turn = self.turn.lock().await;
        while !text.is_empty() {
            match file.write(text) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(size) => text = text.get(size..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Fails for a device that can't say when it is ready; the output is then lost. Everything else is
                    // waited for like a pipe.
                    let copy = OwnedFd::from(self.file.try_clone()?);
                    Sender::from_owned_fd_unchecked(copy)?.writable().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A standard stream of a task.
pub(in crate::exec::shepherd) enum TaskStream {
    Open(OwnedFd),
    /// A file that [depends on the process](depends_on_process) that opens it.
    OpenedByTask(PathBuf, Purpose),
}

/// How a user's file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::exec::shepherd) enum Purpose {
    Read,
    /// To append to it. It is created if it doesn't exist.
    Append,
}

/// Opens a user's file by its absolute path. It doesn't wait for the other end of a FIFO, and makes no terminal the
/// controlling one.
pub(in crate::exec::shepherd) fn open(path: &Path, purpose: Purpose) -> io::Result<File> {
    static BY_SYSTEM: OnceLock<bool> = OnceLock::new();
    let flags = match purpose {
        Purpose::Read => OFlags::RDONLY,
        Purpose::Append => OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE,
    };
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // The system call exists since Linux 5.6, and not in all containers.
    let by_system = BY_SYSTEM.get_or_init(|| open_by_system(Path::new("/"), OFlags::PATH).is_ok());
    let opened = if *by_system { open_by_system(path, flags) } else { open_by_steps(path, flags) };
    Ok(File::from(opened?))
}

/// Whether the content of a file depends on the process that opens it, as below `/proc/self`. The process of a task
/// has to open such a file itself: the shepherd would show, or change, its own data.
pub(in crate::exec::shepherd) fn depends_on_process(file: &File) -> bool {
    fstatfs(file).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC)
}

fn mode(flags: OFlags) -> Mode {
    let created = flags.contains(OFlags::CREATE);
    if created { Mode::from_raw_mode(0o666) } else { Mode::empty() }
}

fn open_by_system(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    openat2(CWD, path, flags, mode(flags), ResolveFlags::NO_MAGICLINKS)
}

/// The maximum number of links on the way to a file, as in the system.
const LINKS: usize = 40;

/// Opens a file step by step, without following a link of the file system `proc`.
fn open_by_steps(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let of_directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = || openat(CWD, "/", of_directory, Mode::empty());
    let mut links = 0;
    let mut here = root()?;
    // The rest of the way, its next component last.
    let mut rest: Vec<OsString> = components(path);
    while let Some(name) = rest.pop() {
        let link = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match openat(&here, &name, link, Mode::empty()) {
            Err(Errno::NOENT) if rest.is_empty() && flags.contains(OFlags::CREATE) => {
                // A link that is put in its place meanwhile is not followed.
                return openat(&here, &name, flags | OFlags::NOFOLLOW, mode(flags));
            }
            found => found?,
        };
        if FileType::from_raw_mode(fstat(&found)?.st_mode) == FileType::Symlink {
            links += 1;
            if links > LINKS || fstatfs(&found)?.f_type == PROC_SUPER_MAGIC {
                return Err(Errno::LOOP);
            }
            let target = readlinkat(&found, "", Vec::new())?.into_bytes();
            let target = PathBuf::from(OsString::from_vec(target));
            if target.is_absolute() {
                here = root()?;
            }
            rest.extend(components(&target));
        } else if rest.is_empty() {
            return openat(&here, &name, flags | OFlags::NOFOLLOW, mode(flags));
        } else {
            here = openat(&here, &name, of_directory | OFlags::NOFOLLOW, Mode::empty())?;
        }
    }
    openat(&here, ".", flags, mode(flags))
}

/// The components of a path without the root, the last one first.
fn components(path: &Path) -> Vec<OsString> {
    let below = path.components().filter(|part| *part != Component::RootDir);
    below.map(|part| part.as_os_str().to_owned()).rev().collect()
}

/// Makes a file that [`open`] has opened a standard stream of a task.
pub(in crate::exec::shepherd) fn for_task(file: File) -> io::Result<OwnedFd> {
    let flags = fcntl_getfl(&file)?;
    if flags.contains(OFlags::NONBLOCK) {
        fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    }
    Ok(OwnedFd::from(file))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    use super::*;

    const APPEND: OFlags = OFlags::WRONLY.union(OFlags::APPEND).union(OFlags::CREATE);

    #[test]
    fn files_are_opened_through_links() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("sub")).unwrap();
        fs::write(path("sub/file"), "text").unwrap();
        symlink("sub", path("relative")).unwrap();
        symlink(path("relative"), path("absolute")).unwrap();
        symlink("loop", path("loop")).unwrap();
        symlink("sub/new", path("to-new")).unwrap();
        for open in [open_by_system, open_by_steps] {
            let read = |name: &str| {
                let file = open(&path(name), OFlags::RDONLY)?;
                Ok::<_, Errno>(io::read_to_string(File::from(file)).unwrap())
            };
            for name in ["sub/file", "relative/file", "absolute/../absolute/./file"] {
                assert_eq!(read(name).as_deref(), Ok("text"), "{name}");
            }
            assert_eq!(read("loop"), Err(Errno::LOOP));
            assert_eq!(read("nosuch"), Err(Errno::NOENT));
            assert_eq!(read("sub/file/x"), Err(Errno::NOTDIR));
            assert_eq!(open(&path("sub"), APPEND).unwrap_err(), Errno::ISDIR);
            for name in ["new", "to-new"] {
                drop(open(&path(name), APPEND).unwrap());
            }
            for name in ["new", "sub/new"] {
                fs::remove_file(path(name)).unwrap();
            }
        }
    }

    #[test]
    fn open_files_are_not_opened_by_their_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let held = File::create(dir.path().join("held")).unwrap();
        let link = dir.path().join("link");
        symlink(format!("/proc/self/fd/{}", held.as_raw_fd()), &link).unwrap();
        let process = std::process::id();
        let names = [
            PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd())),
            PathBuf::from(format!("/proc/{process}/fd/{}", held.as_raw_fd())),
            PathBuf::from(format!("/dev/fd/{}", held.as_raw_fd())),
            PathBuf::from("/proc/thread-self/root/etc/passwd"),
            link,
        ];
        for name in names {
            for purpose in [Purpose::Read, Purpose::Append] {
                let refused = open(&name, purpose).unwrap_err();
                let errno = refused.raw_os_error();
                assert_eq!(errno, Some(Errno::LOOP.raw_os_error()), "{}", name.display());
            }
            assert_eq!(
                open_by_steps(&name, APPEND).unwrap_err(),
                Errno::LOOP,
                "{}",
                name.display()
            );
        }
        // Other files of the file system can be opened.
        assert!(open(Path::new("/proc/version"), Purpose::Read).is_ok());
        assert!(open_by_steps(Path::new("/proc/version"), OFlags::RDONLY).is_ok());
    }
}
