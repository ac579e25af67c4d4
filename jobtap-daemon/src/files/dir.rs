//! The handle of an open directory. Operations through the handle stay in that directory even if its path
//! changes meanwhile, and follow no symbolic link in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, RenameFlags, SeekFrom, Stat};
use rustix::io::Errno;

/// Access for the owner only.
const PRIVATE_DIR: Mode = Mode::RWXU;

/// An open directory.
#[derive(Debug)]
pub struct Dir {
    handle: OwnedFd,
    path: PathBuf,
}

/// The kind of file that a name in a directory refers to. Links are not followed.
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
    fn from_stat(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Self::Directory,
            FileType::RegularFile => Self::Regular,
            FileType::Symlink => Self::Symlink,
            FileType::Socket => Self::Socket,
            FileType::Fifo => Self::Fifo,
            _ => Self::Device,
        }
    }

    /// The kind as text, for messages.
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
    /// Opens a directory. Links on the way to it are followed, but its last component must not be a link.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // With a trailing slash or dot the system would follow a link in the last component.
        let path: PathBuf = path.components().collect();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok(Self { handle, path })
    }

    /// Opens the parent directory of a path that a user named, and returns the file's name there. Links on
    /// the way are followed, since the user chose them.
    pub fn of_file(file: &Path) -> io::Result<(Self, OsString)> {
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

    /// The path by which it was opened, for messages and for calls that can't use a handle.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The current path of this directory, absolute and without links.
    pub(crate) fn real_path(&self) -> io::Result<PathBuf> {
        std::fs::read_link(self.through_handle())
    }

    /// A path through the handle, for calls that take no handle. Valid in this process, while `self` lives.
    pub(crate) fn through_handle(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_raw_fd()))
    }

    /// The owner, mode and identity of this directory.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.handle)?)
    }

    /// The kind of `name`; `None` if it does not exist.
    pub(crate) fn kind(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Kind>> {
        Ok(self.entry(name)?.as_ref().map(Kind::from_stat))
    }

    /// The owner, mode and identity of `name`; `None` if it does not exist.
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

    /// Creates a directory in this one that only its owner may use.
    pub(crate) fn make_new(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.handle, name.as_ref(), PRIVATE_DIR)?;
        self.sub(name)
    }

    /// Opens a directory in this one. If it does not exist, it is created for its owner only.
    pub(crate) fn make(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        self.make_with(name, PRIVATE_DIR)
    }

    /// As [`make`](Self::make), with the access for others that the process's umask permits.
    pub(crate) fn make_shared(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        self.make_with(name, Mode::RWXU | Mode::RWXG | Mode::RWXO)
    }

    fn make_with(&self, name: impl AsRef<OsStr>, mode: Mode) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.handle, name.as_ref(), mode) {
            Ok(()) | Err(Errno::EXIST) => self.sub(name),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens a file in this directory with `flags`. Refuses a link in its place, and does not wait for the
    /// other end of a FIFO.
    pub fn file(&self, name: impl AsRef<OsStr>, flags: OFlags, mode: u32) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let mode = Mode::from_raw_mode(mode);
        Ok(rustix::fs::openat(&self.handle, name.as_ref(), flags, mode)?.into())
    }

    /// Creates a file for writing.
    pub(crate) fn new_file(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        self.file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode)
    }

    /// Opens an existing regular file for reading.
    pub(crate) fn regular_file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let file = self.file(name, OFlags::RDONLY, 0)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        }
    }

    /// Sets the mode of `name`, which must not be a link.
    pub(crate) fn set_mode_of(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<()> {
        // Through an O_PATH handle: a socket can't be opened otherwise, and a change by name would follow a
        // link that has replaced it.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&self.handle, name.as_ref(), flags, Mode::empty())?;
        let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
    }

    /// Lets other users pass through this directory to entries whose names they know. They can't list it.
    pub(crate) fn let_others_pass(&self) -> io::Result<()> {
        let mode = Mode::from_raw_mode(self.stat()?.st_mode);
        let passage = Mode::XGRP | Mode::XOTH;
        if mode.contains(passage) {
            return Ok(());
        }
        Ok(rustix::fs::fchmod(&self.handle, mode | passage)?)
    }

    /// Removes a name that is not a directory.
    pub(crate) fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, name.as_ref(), AtFlags::empty())?)
    }

    /// Removes an empty directory in this one.
    pub(crate) fn remove_dir(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, name.as_ref(), AtFlags::REMOVEDIR)?)
    }

    /// Moves a name of this directory to a new one in `to`. Fails if the new name exists.
    pub(crate) fn rename(
        &self,
        name: impl AsRef<OsStr>,
        to: &Self,
        new: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        let (name, new) = (name.as_ref(), new.as_ref());
        let moved = rustix::fs::renameat_with(self, name, to, new, RenameFlags::NOREPLACE);
        match moved {
            // Some network file systems do not support the flag.
            Err(Errno::INVAL | Errno::NOSYS) if to.entry(new)?.is_none() => {
                Ok(rustix::fs::renameat(self, name, to, new)?)
            }
            other => Ok(other?),
        }
    }

    /// The names in this directory without `.` and `..`, in any order.
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

    /// Whether this directory has no entries.
    pub(crate) fn is_empty(&self) -> io::Result<bool> {
        // Uses this handle, which saves opening another one. An earlier call may have left it at the end.
        rustix::fs::seek(&self.handle, SeekFrom::Start(0))?;
        let mut buffer = [MaybeUninit::uninit(); 2048];
        let mut entries = RawDir::new(&self.handle, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes the entries of this directory durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.handle)?)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// Whether a path ends with a slash or a dot, which the components of a `Path` don't include.
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
    fn a_link_with_a_slash_or_dot_is_not_followed() {
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
    fn the_handle_follows_a_directory_that_is_moved() {
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
    fn a_directory_is_empty_without_any_name_of_a_file() {
        let base = tempfile::tempdir().unwrap();
        let dir = Dir::open(base.path()).unwrap();
        assert!(dir.is_empty().unwrap() && dir.is_empty().unwrap());
        fs::write(base.path().join(".hidden"), "").unwrap();
        assert!(!dir.is_empty().unwrap() && !dir.is_empty().unwrap());
        fs::remove_file(base.path().join(".hidden")).unwrap();
        (0..100).for_each(|n| fs::write(base.path().join(format!("{n:0100}")), "").unwrap());
        assert!(!dir.is_empty().unwrap() && !dir.is_empty().unwrap());
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
