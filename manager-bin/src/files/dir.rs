//! A directory that is held open. What is done below the handle stays in that directory, whatever becomes
//! of the path that led to it, and no symbolic link in it is followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

/// Only for the owner.
const PRIVATE_DIR: Mode = Mode::RWXU;

/// An open directory.
#[derive(Debug)]
pub(crate) struct Dir {
    handle: OwnedFd,
    path: PathBuf,
}

/// What a name in a directory stands for. Links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    Regular,
    Symlink,
    Socket,
    Fifo,
    Device,
}

impl Kind {
    fn of(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Self::Directory,
            FileType::RegularFile => Self::Regular,
            FileType::Symlink => Self::Symlink,
            FileType::Socket => Self::Socket,
            FileType::Fifo => Self::Fifo,
            _ => Self::Device,
        }
    }

    /// What a message calls it.
    pub(crate) fn described(self) -> &'static str {
        match self {
            Self::Directory => "a directory",
            Self::Regular => "a regular file",
            Self::Symlink => "a symbolic link",
            Self::Socket => "a socket",
            Self::Fifo => "a FIFO",
            Self::Device => "a device",
        }
    }
}

impl Dir {
    /// Opens a directory. Links on the way to it are followed, its own name must not be one.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // A trailing slash or dot would have a link at the end followed.
        let path: PathBuf = path.components().collect();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok(Self { handle, path })
    }

    /// Opens the directory that a file named by a user is in, or is to be in, and gives the file's name
    /// there. The user's own links on the way are followed.
    pub(crate) fn of_file(file: &Path) -> io::Result<(Self, OsString)> {
        let (Some(name), false) = (file.file_name(), ends_as_directory(file)) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is the name of a directory",
            ));
        };
        let path = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok((Self { handle, path }, name.to_owned()))
    }

    /// The path by which it was opened, for messages and for those who can't use a handle.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of this very directory, from `/` and without links.
    pub(crate) fn real_path(&self) -> io::Result<PathBuf> {
        std::fs::read_link(self.through_handle())
    }

    /// A path to this very directory for calls that take no handle. Good while `self` lives, in this
    /// process alone.
    pub(crate) fn through_handle(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_raw_fd()))
    }

    /// Its own owner, mode and identity.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.handle)?)
    }

    /// What `name` stands for; `None` when it isn't there.
    pub(crate) fn kind(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Kind>> {
        Ok(self.entry(name)?.as_ref().map(Kind::of))
    }

    /// Owner, mode and identity of `name`; `None` when it isn't there.
    pub(crate) fn entry(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.handle, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens a directory in this one.
    pub(crate) fn sub(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = name.as_ref();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&self.handle, name, flags, Mode::empty())?;
        Ok(Self { handle, path: self.path.join(name) })
    }

    /// Makes a new directory in this one, for its owner alone.
    pub(crate) fn make_new(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.handle, name.as_ref(), PRIVATE_DIR)?;
        self.sub(name)
    }

    /// Opens a directory in this one, which is made for its owner alone if it isn't there.
    pub(crate) fn make(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        self.make_with(name, PRIVATE_DIR)
    }

    /// As [`make`](Self::make), with the access that the process' umask leaves to others.
    pub(crate) fn make_shared(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        self.make_with(name, Mode::RWXU | Mode::RWXG | Mode::RWXO)
    }

    fn make_with(&self, name: impl AsRef<OsStr>, mode: Mode) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.handle, name.as_ref(), mode) {
            Ok(()) | Err(Errno::EXIST) => self.sub(name),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens a file in this directory; `flags` say how, and a link in its place is refused. It is never
    /// waited for the other end of a FIFO.
    pub(crate) fn file(
        &self,
        name: impl AsRef<OsStr>,
        flags: OFlags,
        mode: u32,
    ) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let mode = Mode::from_raw_mode(mode);
        Ok(rustix::fs::openat(&self.handle, name.as_ref(), flags, mode)?.into())
    }

    /// Makes a new file to be written.
    pub(crate) fn new_file(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        self.file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode)
    }

    /// Opens a regular file that is there to be read.
    pub(crate) fn regular_file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let file = self.file(name, OFlags::RDONLY, 0)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        }
    }

    /// Lets nobody but the owner use `name`, which must not be a link.
    pub(crate) fn make_private(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        // The handle of the thing itself: a socket can't be opened in another way, and a change by its
        // name would follow a link that took its place.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&self.handle, name.as_ref(), flags, Mode::empty())?;
        let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
    }

    /// Removes a name that isn't a directory's.
    pub(crate) fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, name.as_ref(), AtFlags::empty())?)
    }

    /// Removes an empty directory in this one.
    pub(crate) fn remove_dir(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, name.as_ref(), AtFlags::REMOVEDIR)?)
    }

    /// Moves a name of this directory to a new one in `to`; nothing is replaced.
    pub(crate) fn rename(
        &self,
        name: impl AsRef<OsStr>,
        to: &Self,
        new: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        let (name, new) = (name.as_ref(), new.as_ref());
        let moved = rustix::fs::renameat_with(self, name, to, new, RenameFlags::NOREPLACE);
        match moved {
            // Some network file systems know no such flag.
            Err(Errno::INVAL | Errno::NOSYS) if to.entry(new)?.is_none() => {
                Ok(rustix::fs::renameat(self, name, to, new)?)
            }
            other => Ok(other?),
        }
    }

    /// The names in it, but for itself and the directory above, as they come.
    pub(crate) fn names(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>> + use<>> {
        let entries = rustix::fs::Dir::read_from(&self.handle)?;
        Ok(entries.filter_map(|entry| match entry {
            Ok(entry) => {
                let name = entry.file_name().to_bytes();
                let counts = name != b"." && name != b"..";
                counts.then(|| Ok(OsString::from_vec(name.to_vec())))
            }
            Err(errno) => Some(Err(errno.into())),
        }))
    }

    /// Makes durable which names are in it.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.handle)?)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// Whether a path ends with a slash or a dot, which `Path` doesn't show.
fn ends_as_directory(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_is_not_followed_whatever_follows_its_name() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("real")).unwrap();
        symlink("real", base.path().join("link")).unwrap();
        for name in ["link", "link/", "link/.", "link//"] {
            assert!(Dir::open(&base.path().join(name)).is_err(), "{name}");
        }
        let dir = Dir::open(base.path()).unwrap();
        assert!(dir.sub("link").is_err() && dir.make("link").is_err());
        assert!(dir.sub("real").is_ok());
        assert_eq!(dir.kind("link").unwrap(), Some(Kind::Symlink));
        assert_eq!(dir.kind("nothing").unwrap(), None);
    }

    #[test]
    fn files_are_neither_opened_nor_made_through_links() {
        let base = tempfile::tempdir().unwrap();
        let victim = base.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, base.path().join("link")).unwrap();
        symlink(base.path().join("new"), base.path().join("dangling")).unwrap();
        let dir = Dir::open(base.path()).unwrap();
        for name in ["link", "dangling"] {
            assert!(dir.regular_file(name).is_err() && dir.new_file(name, 0o600).is_err());
            assert!(dir.file(name, OFlags::WRONLY | OFlags::CREATE, 0o600).is_err());
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(!base.path().join("new").exists());
    }

    #[test]
    fn the_handle_stays_with_a_directory_that_is_moved() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("a")).unwrap();
        let dir = Dir::open(&base.path().join("a")).unwrap();
        fs::rename(base.path().join("a"), base.path().join("b")).unwrap();
        dir.make("sub").unwrap();
        let sub = base.path().join("b/sub");
        assert_eq!(fs::metadata(&sub).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(dir.real_path().unwrap(), base.path().canonicalize().unwrap().join("b"));
    }

    #[test]
    fn a_rename_replaces_nothing() {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("a"), "a").unwrap();
        fs::write(base.path().join("b"), "b").unwrap();
        let dir = Dir::open(base.path()).unwrap();
        assert!(dir.rename("a", &dir, "b").is_err());
        assert_eq!(fs::read_to_string(base.path().join("b")).unwrap(), "b");
        dir.rename("a", &dir, "c").unwrap();
    }
}
