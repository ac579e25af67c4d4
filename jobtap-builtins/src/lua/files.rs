//! Opens files for scripts, but none that could block.
//!
//! Opening a pipe that has no writer waits for one, and reading from a terminal or another device may wait
//! forever. A script opens files in directories where users can make pipes, and a thread that waits there
//! can't be stopped. So a file is opened without waiting, and its type is then checked on the open
//! descriptor, whatever takes its name meanwhile.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Opens a file as `io.open` does in this mode, without emptying it.
pub(super) fn open(path: &Path, mode: &str) -> io::Result<OwnedFd> {
    let access = match mode.trim_end_matches('b') {
        "r" => OFlags::RDONLY,
        "w" => OFlags::WRONLY | OFlags::CREATE,
        "a" => OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND,
        "r+" | "rb+" => OFlags::RDWR,
        _ => OFlags::RDWR | OFlags::CREATE,
    };
    // Checked before opening, too, since opening a device may have side effects.
    match rustix::fs::stat(path) {
        Ok(stat) if !never_blocks(&stat) => return Err(not_a_file()),
        _ => {}
    }
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::from_raw_mode(0o666)) {
        Err(Errno::NXIO) => return Err(not_a_file()),
        opened => opened?,
    };
    if never_blocks(&rustix::fs::fstat(&file)?) { Ok(file) } else { Err(not_a_file()) }
}

/// Reads a file of a script.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    match File::from(open(path, "r")?).read_to_end(&mut text) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => Err(not_a_file()),
        read => read.map(|_| text),
    }
}

/// Whether it is a regular file, a directory, or `/dev/null`.
fn never_blocks(stat: &Stat) -> bool {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Directory => true,
        FileType::CharacterDevice => {
            (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)) == (1, 3)
        }
        _ => false,
    }
}

fn not_a_file() -> io::Error {
    io::Error::other("not a file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_and_devices_are_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        for path in [&*pipe, &*link, Path::new("/dev/zero"), Path::new("/dev/tty")] {
            for mode in ["r", "w", "a", "r+", "w+", "a+", "rb", "wb", "r+b"] {
                let error = open(path, mode).unwrap_err();
                assert_eq!(error.to_string(), "not a file", "{} {mode}", path.display());
            }
        }
        assert!(read(&pipe).is_err());
    }

    #[test]
    fn files_directories_and_the_null_device_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        assert_eq!(open(&file, "r").unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(open(&file, "w").unwrap());
        std::fs::write(&file, "text").unwrap();
        // The file is truncated only when Lua opens it.
        drop(open(&file, "w").unwrap());
        assert_eq!(read(&file).unwrap(), b"text");
        drop(open(directory.path(), "r").unwrap());
        drop(open(Path::new("/dev/null"), "w").unwrap());
    }
}
