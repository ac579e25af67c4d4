//! The part of a job's record that the shepherd writes itself: input and output grow too fast to go
//! through the store, so each is a file of the state directory. Here is which key is which file.

use std::io;
use std::path::{Path, PathBuf};

use jobtap_core::job::{Encoding, JobId};

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
        match std::fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes all of them of job `id`.
    pub fn remove(&self, id: u64) {
        for path in Self::names().filter_map(|name| self.path(id, name)) {
            // The job may have neither read nor printed anything.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

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
}
