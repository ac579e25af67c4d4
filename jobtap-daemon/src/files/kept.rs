//! A directory that is used again and again, and therefore stays open.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::Stat;

use super::Dir;

/// A subdirectory that is created and opened at its first use.
#[derive(Debug)]
pub(crate) struct KeptDir {
    name: &'static str,
    open: Mutex<Option<Open>>,
}

/// The directory, and its device and inode.
#[derive(Clone, Debug)]
struct Open {
    dir: Arc<Dir>,
    identity: (u64, u64),
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

impl KeptDir {
    /// The directory with this name.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, open: Mutex::default() }
    }

    /// Calls `work` with the directory, which lies in `parent`. If another directory has its name now, that one is
    /// opened instead, and a link is refused: files written into a directory that was moved would not be found.
    ///
    /// If the directory is removed meanwhile, `work` fails for that reason and is called once more, with a new
    /// directory.
    pub(crate) fn with<T>(
        &self,
        parent: &Dir,
        mut work: impl FnMut(&Dir) -> io::Result<T>,
    ) -> io::Result<T> {
        let kept = self.lock().clone();
        if let Some(Open { dir, identity: known }) = kept
            && parent.entry(self.name)?.is_some_and(|stat| identity(&stat) == known)
        {
            match work(&dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => return other,
            }
        }
        let dir = Arc::new(parent.make(self.name)?);
        *self.lock() = Some(Open { identity: identity(&dir.stat()?), dir: Arc::clone(&dir) });
        work(&dir)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_that_was_removed_is_made_again() {
        let base = tempfile::tempdir().unwrap();
        let parent = Dir::open(base.path()).unwrap();
        let kept = KeptDir::new("sub");
        let add = |name: &str| kept.with(&parent, |dir| dir.new_file(name, 0o600).map(drop));
        add("a").unwrap();
        add("b").unwrap();
        fs::remove_dir_all(base.path().join("sub")).unwrap();
        add("c").unwrap();
        let names: Vec<_> = fs::read_dir(base.path().join("sub")).unwrap().flatten().collect();
        assert_eq!(names.len(), 1);
        assert_eq!(names[0].file_name(), "c");
        assert_eq!(add("c").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_link_that_replaces_it_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let parent = Dir::open(base.path()).unwrap();
        let kept = KeptDir::new("sub");
        kept.with(&parent, |_| Ok(())).unwrap();
        fs::rename(base.path().join("sub"), base.path().join("moved")).unwrap();
        symlink(base.path().join("moved"), base.path().join("sub")).unwrap();
        assert!(kept.with(&parent, |_| Ok(())).is_err());
    }

    #[test]
    fn a_link_in_its_place_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), base.path().join("sub")).unwrap();
        let parent = Dir::open(base.path()).unwrap();
        assert!(KeptDir::new("sub").with(&parent, |_| Ok(())).is_err());
    }
}
