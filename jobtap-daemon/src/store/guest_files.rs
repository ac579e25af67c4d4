//! The keys of a job that are stored as files: its input and output. They grow too fast for the store, so the
//! shepherd writes each to a file of the state directory. This module maps keys to files.
//!
//! If a short job prints little, its output is in the store once the job has ended, and in no file.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jobtap_core::job::{Encoding, JobId};

use super::Key;
use crate::files::Dir;

/// The names of the keys that are files, each with the directory that has its files for all jobs.
const FILES: [(&str, &str); 2] = [("guest.input", "input"), (Key::OUTPUT, "output")];

/// The files of all jobs in one state directory.
#[derive(Clone, Debug)]
pub struct GuestFiles {
    state: PathBuf,
}

impl GuestFiles {
    /// The files in the state directory `state`.
    pub fn new(state: &Path) -> Self {
        Self { state: state.to_owned() }
    }

    /// The names of the keys that are files.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.into_iter().map(|(name, _)| name)
    }

    /// The directories of the files, in the state directory.
    pub fn directories() -> impl Iterator<Item = &'static str> {
        FILES.into_iter().map(|(_, directory)| directory)
    }

    /// The file of key `name` of job `id`; `None` if that key is always in the store. The file need not exist.
    pub fn path(&self, id: u64, name: &str) -> Option<PathBuf> {
        let (_, directory) = FILES.into_iter().find(|(key, _)| *key == name)?;
        Some(self.state.join(directory).join(JobId::new(id).encode(Encoding::DotHex)))
    }

    /// The content of key `name` of job `id`; `None` if the key is not a file or the file does not exist.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn read(&self, id: u64, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.read_up_to(id, name, u64::MAX)
    }

    /// As [`read`](Self::read), for a file of at most `most` bytes.
    ///
    /// # Errors
    /// [`FileTooLarge`](io::ErrorKind::FileTooLarge) for a larger one. Fails if the file can't be read.
    pub fn read_up_to(&self, id: u64, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(path) = self.path(id, name) else {
            return Ok(None);
        };
        let read = |file: File| {
            let mut bytes = Vec::new();
            // One byte more, as the file may grow meanwhile.
            file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
            let fits = bytes.len() as u64 <= most;
            if fits { Ok(bytes) } else { Err(io::ErrorKind::FileTooLarge.into()) }
        };
        match Self::open(&path).and_then(read) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a file that [`path`](Self::path) returned, for reading. A link in the place of the file or
    /// its directory was not made by the manager and is not followed.
    ///
    /// # Errors
    /// Fails if the file can't be opened or is not a regular file.
    pub fn open(path: &Path) -> io::Result<File> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let dir = Dir::open(path.parent().ok_or_else(invalid)?)?;
        dir.regular_file(path.file_name().ok_or_else(invalid)?)
    }

    /// Removes the files of job `id`.
    pub fn remove(&self, id: u64) {
        for path in Self::names().filter_map(|name| self.path(id, name)) {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
            // Errors are ignored: a job without input and output has no files.
            let _ = Dir::open(parent).and_then(|dir| dir.remove_file(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_input_and_output_are_files() {
        let dir = tempfile::tempdir().unwrap();
        let files = GuestFiles::new(dir.path());
        let path = files.path(1, "guest.output").unwrap();
        assert!(path.ends_with("output/0000.0000.0000.0001"), "{}", path.display());
        assert_eq!(files.path(1, "guest.exec.eventlog"), None);
        assert_eq!(files.read(1, "guest.output").unwrap(), None);
        std::fs::create_dir(dir.path().join("output")).unwrap();
        std::fs::write(&path, "x").unwrap();
        assert_eq!(files.read(1, "guest.output").unwrap().unwrap(), b"x");
        std::fs::write(&path, "two").unwrap();
        assert_eq!(files.read_up_to(1, "guest.output", 3).unwrap().unwrap(), b"two");
        let refused = files.read_up_to(1, "guest.output", 2).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
        files.remove(1);
        assert!(!path.exists());
    }

    #[test]
    fn links_are_followed_neither_to_read_nor_to_remove() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let files = GuestFiles::new(&dir.path().join("state"));
        let elsewhere = dir.path().join("elsewhere");
        std::fs::create_dir_all(&elsewhere).unwrap();
        let precious = elsewhere.join("0000.0000.0000.0001");
        std::fs::write(&precious, "precious").unwrap();
        let output = files.path(1, "guest.output").unwrap();
        std::fs::create_dir_all(output.parent().unwrap()).unwrap();
        symlink(&precious, &output).unwrap();
        symlink(&elsewhere, dir.path().join("state/input")).unwrap();
        assert!(files.read(1, "guest.output").is_err());
        assert!(files.read(1, "guest.input").is_err());
        files.remove(1);
        assert!(precious.exists());
    }
}
