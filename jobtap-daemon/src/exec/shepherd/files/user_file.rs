//! Files that a job's user names: opened without ever waiting for the user.
//!
//! The shepherd serves the jobs of all users on one thread. A FIFO is a pipe, which a process can
//! [keep locked](super::super::deserted): even to open it may take for ever, so it isn't opened here.
//!
//! It has files of many users open. A process may use its own open files by name (`/proc/self/fd/N`), whatever
//! directories they are in, so no path of a user may lead through such a name.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, Stat, accessat,
    fcntl_getfl, fcntl_setfl, fstat, fstatfs, openat, openat2, readlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
/// A standard stream of a task.
pub(in crate::exec::shepherd) enum TaskStream {
    Open(OwnedFd),
    /// A file that the task opens itself.
    OpenedByTask(PathBuf, Purpose),
}

/// How a user's file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::exec::shepherd) enum Purpose {
    Read,
    /// To append to it. It is created if it doesn't exist.
    Append,
}

impl Purpose {
    /// The flags of an open that doesn't wait for the other end of a FIFO, and makes no terminal the controlling one.
    fn flags(self) -> OFlags {
        let flags = match self {
            Self::Read => OFlags::RDONLY,
            Self::Append => OFlags::WRONLY | OFlags::APPEND,
        };
        flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC
    }
}

/// A user's file, as [`open`] finds it.
#[derive(Debug)]
pub(in crate::exec::shepherd) enum UserFile {
    Open(File),
    /// A FIFO. It isn't opened yet: its user's threads, or the task, open it, since that may take for ever.
    Fifo,
    /// A file whose content depends on the process that opens it, as below `/proc/self`. The process of a task has to
    /// open it: the shepherd would show, or change, its own data.
    OfProcess,
}

/// How many times to look for a file that others keep removing and creating.
const ATTEMPTS: u32 = 8;

/// Opens a user's file by its absolute path.
pub(in crate::exec::shepherd) fn open(path: &Path, purpose: Purpose) -> io::Result<UserFile> {
    let mut error = Errno::EXIST;
    for _ in 0..ATTEMPTS {
        let found = match find(path, OFlags::PATH | OFlags::CLOEXEC) {
            Err(Errno::NOENT) if purpose == Purpose::Append => {
                if path.as_os_str().as_bytes().ends_with(b"/") {
                    return Err(Errno::ISDIR.into());
                }
                match open_by_steps(path, purpose.flags() | OFlags::CREATE | OFlags::EXCL) {
                    // Another process has just made it.
                    Err(Errno::EXIST) => {
                        error = Errno::EXIST;
                        continue;
                    }
                    made => return Ok(UserFile::Open(File::from(made?))),
                }
            }
            found => found?,
        };
        match open_found(&found, purpose) {
            // Another host has replaced it: what a network file system had in its cache is gone now.
            Err(Errno::STALE) => error = Errno::STALE,
            opened => return Ok(opened?),
        }
    }
    Err(error.into())
}

/// Opens what `found` refers to. Not by its path, where a FIFO may be by now.
fn open_found(found: &OwnedFd, purpose: Purpose) -> rustix::io::Result<UserFile> {
    let stat = fstat(found)?;
    let name = format!("/proc/self/fd/{}", found.as_raw_fd());
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => {
            let access = match purpose {
                Purpose::Read => Access::READ_OK,
                Purpose::Append => Access::WRITE_OK,
            };
            accessat(CWD, name, access, AtFlags::EACCESS)?;
            return Ok(UserFile::Fifo);
        }
        FileType::RegularFile if purpose == Purpose::Append => {
            let target = PathBuf::from(OsString::from_vec(
                readlinkat(CWD, &*name, Vec::new())?.into_bytes(),
            ));
            // It may be in no directory any more.
            let place = target.parent().and_then(|parent| stat_of(parent).ok());
            if place.is_some_and(|place| is_trap(&place, stat.st_uid)) {
                return Err(Errno::ACCESS);
            }
        }
        _ => {}
    }
    if fstatfs(found).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC) {
        return Ok(UserFile::OfProcess);
    }
    openat(CWD, name, purpose.flags(), Mode::empty()).map(|file| UserFile::Open(File::from(file)))
}

fn stat_of(directory: &Path) -> rustix::io::Result<Stat> {
    fstat(openat(CWD, directory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Whether something of the user `owner` may be there to catch what other users write: in a directory such as `/tmp`, and
/// neither of the user that this thread acts as nor of the directory's owner. The system refuses to open such a file with
/// `O_CREAT`, and to follow such a link, by `fs.protected_regular` and `fs.protected_symlinks`.
fn is_trap(directory: &Stat, owner: u32) -> bool {
    let mode = Mode::from_raw_mode(directory.st_mode);
    mode.contains(Mode::SVTX)
        && mode.intersects(Mode::WGRP | Mode::WOTH)
        && owner != geteuid().as_raw()
        && owner != directory.st_uid
}

/// Opens a user's file, whatever it is. The calling process is the task's, or the thread is one that a user may let wait.
pub(in crate::exec::shepherd) fn open_patiently(path: &Path, purpose: Purpose) -> io::Result<File> {
    Ok(File::from(find(path, purpose.flags())?))
}

/// Opens a file by its path.
fn find(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    static BY_SYSTEM: OnceLock<bool> = OnceLock::new();
    // The system call exists since Linux 5.6, and not in all containers.
    let by_system = BY_SYSTEM.get_or_init(|| open_by_system(Path::new("/"), OFlags::PATH).is_ok());
    if *by_system { open_by_system(path, flags) } else { open_by_steps(path, flags) }
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
        let stat = fstat(&found)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            links += 1;
            if links > LINKS || fstatfs(&found)?.f_type == PROC_SUPER_MAGIC {
                return Err(Errno::LOOP);
            }
            if is_trap(&fstat(&here)?, stat.st_uid) {
                return Err(Errno::ACCESS);
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

/// Makes a file that was opened here a standard stream of a task, which expects that it waits.
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
    use std::os::unix::fs::{PermissionsExt, symlink};

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

    #[test]
    fn a_file_is_opened_by_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        rustix::fs::mknodat(CWD, path("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
        symlink("fifo", path("to-fifo")).unwrap();
        for purpose in [Purpose::Read, Purpose::Append] {
            for name in ["fifo", "to-fifo"] {
                assert!(matches!(open(&path(name), purpose).unwrap(), UserFile::Fifo), "{name}");
            }
            let own = open(Path::new("/proc/self/stat"), purpose);
            assert!(!matches!(own, Ok(UserFile::Open(_))), "{own:?}");
        }
        for name in ["new", "new"] {
            assert!(matches!(open(&path(name), Purpose::Append).unwrap(), UserFile::Open(_)));
        }
        symlink("sub/../to-new", path("dangling")).unwrap();
        fs::create_dir(path("sub")).unwrap();
        assert!(matches!(open(&path("dangling"), Purpose::Append).unwrap(), UserFile::Open(_)));
        assert!(path("to-new").is_file());
        let errno = |name: &str| open(&path(name), Purpose::Append).unwrap_err().raw_os_error();
        for name in ["sub", "dir/"] {
            assert_eq!(errno(name), Some(Errno::ISDIR.raw_os_error()), "{name}");
        }
        assert!(!path("dir").exists());
    }

    /// As the system refuses them where the administrator has not turned that off.
    #[test]
    fn what_others_have_put_into_a_shared_directory_is_a_trap() {
        if !geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        fs::write(path("theirs"), "").unwrap();
        symlink("by-link", path("link")).unwrap();
        for name in ["theirs", "link"] {
            std::os::unix::fs::lchown(path(name), Some(61003), None).unwrap();
            let refused = open(&path(name), Purpose::Append).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{name}");
        }
        assert!(!path("by-link").exists());
        assert!(open(&path("theirs"), Purpose::Read).is_ok());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["theirs", "link"] {
            assert!(open(&path(name), Purpose::Append).is_ok(), "{name}");
        }
    }
}
