//! Files that are replaced atomically: a name refers to the complete old or the complete new file.
//!
//! The content is written to a file with a random name in the same directory, which is then renamed. A
//! rename follows no link, and only regular files are replaced. So another user who can write in the same
//! directory can neither have other files overwritten nor read private content.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use tempfile::NamedTempFile;

use super::{Dir, Kind};

/// The prefix of the names of unfinished files.
const PREFIX: &str = ".jobtap-unfinished-";

/// The number of random letters in their names.
const RANDOM: usize = 12;

/// The bits of a mode with the permissions to read, write and execute a file.
const PERMISSIONS: u32 = 0o777;

/// Who may read a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its owner only, for private content.
    Private,
    /// As for the file that it replaces, if this user owns that file; otherwise as the process's umask
    /// permits.
    Kept,
    /// As [`Kept`](Self::Kept), and a new file is executable.
    Program,
}

impl Access {
    /// The mode of a new file before the umask is applied.
    fn mode(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Kept => 0o666,
            Self::Program => 0o777,
        }
    }
}

/// A file that is being written. If it is dropped without `finish`, it is removed.
#[derive(Debug)]
pub struct WholeFile {
    // Declared, and so dropped, before the directory, through whose handle it is removed.
    file: NamedTempFile,
    dir: Dir,
    name: OsString,
}

impl WholeFile {
    /// Begins to write the file `path`.
    ///
    /// # Errors
    /// Fails if `path` exists and isn't a regular file, or the directory can't be written.
    pub fn create(path: &Path, access: Access) -> io::Result<Self> {
        let (dir, name) = Dir::of_file(path)?;
        Self::create_in(dir, name, access)
    }

    fn create_in(dir: Dir, name: OsString, access: Access) -> io::Result<Self> {
        let replaced = check(&dir, &name)?;
        let file = tempfile::Builder::new()
            .prefix(PREFIX)
            .rand_bytes(RANDOM)
            .permissions(Permissions::from_mode(access.mode()))
            .tempfile_in(dir.through_handle())?;
        if replaced && access != Access::Private {
            keep_mode(&dir, &name, file.as_file())?;
        }
        Ok(Self { file, dir, name })
    }

    /// The file to write to.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Moves the file to its path, durably.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        self.place()?.sync()
    }

    /// Closes the file without moving it to its path, so that it can be executed first.
    pub fn close(self) -> io::Result<ClosedFile> {
        self.file.as_file().sync_all()?;
        let real = self.dir.real_path()?;
        let path = real.join(self.file.path().file_name().unwrap_or_default());
        let Self { file, dir, name } = self;
        Ok(ClosedFile { file: file.into_temp_path(), dir, name, path })
    }

    /// Moves the file to its path.
    fn place(self) -> io::Result<Dir> {
        let Self { file, dir, name } = self;
        let to = dir.through_handle().join(&name);
        check(&dir, &name)?;
        file.persist(to).map_err(|error| error.error)?;
        Ok(dir)
    }
}

/// A complete file that was not moved to its path yet.
#[derive(Debug)]
pub struct ClosedFile {
    file: tempfile::TempPath,
    dir: Dir,
    name: OsString,
    path: PathBuf,
}

impl ClosedFile {
    /// Its temporary path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves it to its path, durably.
    pub fn finish(self) -> io::Result<()> {
        let Self { file, dir, name, .. } = self;
        check(&dir, &name)?;
        file.persist(dir.through_handle().join(&name)).map_err(|error| error.error)?;
        dir.sync()
    }
}

/// Checks that a file can be written at `path`, before its content is produced.
pub fn check_target(path: &Path) -> io::Result<()> {
    let (dir, name) = Dir::of_file(path)?;
    check(&dir, &name).map(drop)
}

/// Writes a file atomically and durably.
pub fn write_whole(path: &Path, bytes: &[u8], access: Access) -> io::Result<()> {
    let file = WholeFile::create(path, access)?;
    file.file().write_all(bytes)?;
    file.finish()
}

/// Writes a file atomically at `inner` below a directory. Missing directories are created, and none below
/// `directory` may be a link. The file is not synced, which would take long for many files, so this is for
/// files that can be produced again.
pub fn write_below(directory: &Path, inner: &Path, bytes: &[u8]) -> io::Result<()> {
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    let (true, Some(name)) = (inner.components().all(is_name), inner.file_name()) else {
        let text = "it is no path below a directory";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    };
    let (mut dir, _) = Dir::of_file(&directory.join(name))?;
    for part in inner.parent().into_iter().flat_map(Path::iter) {
        dir = dir.make_shared(part)?;
    }
    place_in(dir, name.to_owned(), bytes)
}

/// Writes a file of a directory atomically. It is not synced, so this is for files that can be produced again.
pub(crate) fn place_in(dir: Dir, name: OsString, bytes: &[u8]) -> io::Result<()> {
    let file = WholeFile::create_in(dir, name, Access::Kept)?;
    file.file().write_all(bytes)?;
    file.place().map(drop)
}

/// Writes a file that must not exist.
pub fn create_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (dir, name) = Dir::of_file(path)?;
    dir.new_file(name, Access::Kept.mode())?.write_all(bytes)
}

/// Whether there is a regular file, which will be replaced. Any other kind of file is an error.
fn check(dir: &Dir, name: &OsString) -> io::Result<bool> {
    let advice = match dir.kind(name)? {
        None => return Ok(false),
        Some(Kind::Regular) => return Ok(true),
        Some(Kind::Symlink) => {
            let target = std::fs::read_link(dir.through_handle().join(name));
            let target = target.map(|target| format!(" to {}", target.display()));
            format!(
                "it is a symbolic link{}, and is not replaced: name the file itself",
                target.unwrap_or_default()
            )
        }
        Some(Kind::Directory) => "it is a directory: name a file".to_owned(),
        Some(kind) => format!(
            "it is {}, and is not replaced: name a regular file, or a new one",
            kind.described()
        ),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, advice))
}

/// Gives `file` the permissions of the one that it replaces, unless another user owns that: such a user may
/// have created it with permissions that allow them to change the new content.
fn keep_mode(dir: &Dir, name: &OsString, file: &File) -> io::Result<()> {
    match dir.entry(name)? {
        Some(old) if old.st_uid == file.metadata()?.uid() => {
            file.set_permissions(Permissions::from_mode(old.st_mode & PERMISSIONS))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn only_regular_files_are_replaced() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        fs::write(path("victim"), "precious").unwrap();
        symlink("victim", path("link")).unwrap();
        symlink("nothing", path("dangling")).unwrap();
        fs::create_dir(path("directory")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), fifo, 0o600.into(), 0).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        let cases = [
            ("link", "it is a symbolic link to victim, and is not replaced: name the file itself"),
            ("dangling", "it is a symbolic link to nothing"),
            ("directory", "it is a directory"),
            ("directory/", "it is the name of a directory"),
            ("fifo", "it is a FIFO, and is not replaced: name a regular file, or a new one"),
            ("socket", "it is a socket"),
            ("/dev/full", "it is a device"),
            ("none/x", "No such file or directory"),
        ];
        let kinds = || {
            ["link", "dangling", "directory", "fifo", "socket"]
                .map(|name| Dir::open(base.path()).unwrap().kind(name).unwrap().unwrap())
        };
        let before = kinds();
        for (name, expected) in cases {
            for access in [Access::Private, Access::Kept, Access::Program] {
                let error = write_whole(&path(name), b"x", access).unwrap_err().to_string();
                assert!(error.starts_with(expected), "{name}: {error}");
            }
            assert!(check_target(&path(name)).is_err() && create_new(&path(name), b"x").is_err());
        }
        assert_eq!(kinds(), before);
        assert_eq!(fs::read_to_string(path("victim")).unwrap(), "precious");
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 6, "and nothing else is left");
    }

    #[test]
    fn a_private_file_is_private_whatever_was_there() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("file");
        write_whole(&path, b"1", Access::Private).unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        write_whole(&path, b"2", Access::Private).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"2".to_vec(), 0o600));
    }

    #[test]
    fn a_file_that_is_changed_keeps_its_mode() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("file");
        fs::write(&path, "1").unwrap();
        for expected in [0o640, 0o664, 0o755] {
            fs::set_permissions(&path, Permissions::from_mode(expected)).unwrap();
            write_whole(&path, b"2", Access::Kept).unwrap();
            assert_eq!(mode(&path), expected);
        }
    }

    #[test]
    fn a_file_of_another_user_does_not_pass_on_its_mode() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("file");
        fs::write(&path, "1").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        if std::os::unix::fs::chown(&path, Some(65534), None).is_err() {
            println!("skipped: only root can give a file away");
            return;
        }
        write_whole(&path, b"2", Access::Program).unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o022), (0, 0), "with the usual umask");
    }

    #[test]
    fn an_unfinished_file_is_not_visible() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("file");
        fs::write(&path, "old").unwrap();
        let file = WholeFile::create(&path, Access::Kept).unwrap();
        file.file().write_all(b"half").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        drop(file);
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1);
        let closed = WholeFile::create(&path, Access::Program).unwrap().close().unwrap();
        assert!(closed.path().starts_with(base.path().canonicalize().unwrap()));
        assert!(closed.path().exists());
        drop(closed);
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1);
    }

    #[test]
    fn no_file_is_written_through_a_linked_directory() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        fs::create_dir_all(path("elsewhere/sub")).unwrap();
        fs::create_dir(path("tree")).unwrap();
        symlink("../elsewhere", path("tree/link")).unwrap();
        symlink("../elsewhere/new", path("tree/file")).unwrap();
        for inner in ["link/x", "link/sub/x", "file", "../x", "/x", "", "a/../../x"] {
            let written = write_below(&path("tree"), inner.as_ref(), b"x");
            assert!(written.is_err(), "{inner}");
        }
        write_below(&path("tree"), "a/b/c".as_ref(), b"1").unwrap();
        write_below(&path("tree"), "a/b/c".as_ref(), b"2").unwrap();
        assert_eq!(fs::read(path("tree/a/b/c")).unwrap(), b"2");
        assert_eq!(fs::read_dir(path("elsewhere")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(path("elsewhere/sub")).unwrap().count(), 0);
        assert!(!path("x").exists());
    }

    #[test]
    fn a_link_that_appears_during_the_write_is_not_replaced() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("file");
        let file = WholeFile::create(&path, Access::Kept).unwrap();
        symlink("victim", &path).unwrap();
        assert!(file.finish().unwrap_err().to_string().starts_with("it is a symbolic link"));
        assert!(!base.path().join("victim").exists());
    }
}
