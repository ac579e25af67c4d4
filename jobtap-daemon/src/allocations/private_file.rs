//! Files with an invitation, for outer job managers that read a script or a file by its path. Only the user can read them.

use std::io;
use std::path::{Path, PathBuf};

use crate::files::{Access, write_whole};

/// The directory in the state directory.
const DIRECTORY: &str = "allocations";

/// The directory of these files.
#[derive(Clone)]
pub(super) struct PrivateFiles {
    directory: PathBuf,
}

impl PrivateFiles {
    /// Those in the manager's state directory.
    pub(super) fn new(state_dir: &Path) -> Self {
        Self { directory: state_dir.join(DIRECTORY) }
    }

    /// Writes a file, and returns its path.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut private = std::fs::DirBuilder::new();
        private.recursive(true).mode(0o700).create(&self.directory)?;
        let path = self.path(name);
        write_whole(&path, text.as_bytes(), Access::Private)?;
        Ok(path)
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&self, name: &str) {
        let _ = std::fs::remove_file(self.path(name));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}
