//! The part of a job's record that the shepherd writes itself: input and output grow too fast to go
//! through the store, so each is a file of the state directory. Here is which key is which file.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jobtap_core::job::{Encoding, JobId};

use crate::files::Dir;

/// Keys below a job that are files, each with the directory that the files of all jobs are in.
const KEPT: [(&str, &str); 2] = [("guest.input", "input"), ("guest.output", "output")];

/// The files of all jobs in one state directory.
#[derive(Clone, Debug)]
pub struct GuestFiles {
    state: PathBuf,
}

impl GuestFiles {
    /// Those in the state directory `state`.
    pub fn new(state: &Path) -> Self {
        Self { state: state.to_owned() }
    }

    /// Names of the keys that are files.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KEPT.into_iter().map(|(name, _)| name)
    }

    /// The directories, in the state directory, that the files are in.
    pub fn directories() -> impl Iterator<Item = &'static str> {
        KEPT.into_iter().map(|(_, directory)| directory)
    }

    /// The file of key `name` of job `id`; none when that key is the store's. It need not be there.
    pub fn path(&self, id: u64, name: &str) -> Option<PathBuf> {
        let (_, directory) = KEPT.into_iter().find(|(key, _)| *key == name)?;
        Some(self.state.join(directory).join(JobId::new(id).encode(Encoding::DotHex)))
    }

    /// What is under key `name` of job `id`; none when it is no file or not there.
    ///
    /// # Errors
    /// What the system answers.
    pub fn read(&self, id: u64, name: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(path) = self.path(id, name) else {
            return Ok(None);
        };
        let read = |mut file: File| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map(|_| bytes)
        };
        match Self::open(&path).and_then(read) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the file that [`path`](Self::path) gave, to be read. A link there, or in the place of the
    /// directory, was put by somebody else and is not followed.
    ///
    /// # Errors
    /// What the system answers; a file that isn't a regular one.
    pub fn open(path: &Path) -> io::Result<File> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let dir = Dir::open(path.parent().ok_or_else(invalid)?)?;
        dir.regular_file(path.file_name().ok_or_else(invalid)?)
    }

    /// Removes all of them of job `id`.
    pub fn remove(&self, id: u64) {
        for path in Self::names().filter_map(|name| self.path(id, name)) {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
            // The job may have neither read nor printed anything.
            let _ = Dir::open(parent).and_then(|dir| dir.remove_file(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_and_output_are_files_and_the_rest_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let files = GuestFiles::new(dir.path());
        let path = files.path(1, "guest.output").unwrap();
        assert!(path.ends_with("output/0000.0000.0000.0001"), "{}", path.display());
        assert_eq!(files.path(1, "guest.exec.eventlog"), None);
        assert_eq!(files.read(1, "guest.output").unwrap(), None);
        std::fs::create_dir(dir.path().join("output")).unwrap();
        std::fs::write(&path, "x").unwrap();
        assert_eq!(files.read(1, "guest.output").unwrap().unwrap(), b"x");
        files.remove(1);
        assert!(!path.exists());
    }

    #[test]
    fn links_are_neither_read_nor_followed_to_what_is_removed() {
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
