//! Removes directory trees below a directory's handle.
//!
//! A job may leave a tree of any depth and breadth, with links and mounts in it. So links are removed and
//! not followed, and mount points are not entered. A tree is removed from its top: the entries of a directory
//! are moved up, which needs no more than two open directories at any depth.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Dir, Kind};

/// The prefix of the names of directories that were moved aside for removal.
const ASIDE: &str = "removing.";

/// Removes the content of `dir` except for the names in `keep`. Entries that can't be removed stay.
pub(crate) fn empty(dir: &Dir, keep: &[&str]) -> io::Result<()> {
    loop {
        let mut progress = false;
        for name in dir.names()? {
            let name = name?;
            if !keep.iter().any(|kept| **kept == *name) {
                progress |= take_apart(dir, &name);
            }
        }
        if !progress {
            return Ok(());
        }
    }
}

/// Moves `name` of `from` to a new, unused name in `to`.
pub(crate) fn move_aside(from: &Dir, name: &OsStr, to: &Dir) -> io::Result<OsString> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let new = OsString::from(format!("{}{number}", aside()));
        match from.rename(name, to, &new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|()| new),
        }
    }
}

/// The prefix of the names that this process gives.
fn aside() -> String {
    format!("{ASIDE}{}.", std::process::id())
}

fn is_aside(name: &OsStr) -> bool {
    name.as_bytes().starts_with(aside().as_bytes())
}

/// Removes `name`. If it is a directory that isn't empty, its entries are removed or moved up to `dir`.
/// Returns whether this made progress.
fn take_apart(dir: &Dir, name: &OsStr) -> bool {
    if remove(dir, name) {
        return true;
    }
    // A mount point can't be moved, so it is not entered and stays. A directory that was moved before is
    // not moved again, otherwise the scan of the names in `dir` would not terminate.
    let name = match is_aside(name) {
        true => name.to_owned(),
        false => match move_aside(dir, name, dir) {
            Ok(name) => name,
            Err(_) => return false,
        },
    };
    let Ok(sub) = dir.sub(&name) else { return false };
    let Ok(names) = sub.names() else { return false };
    let mut progress = false;
    for inner in names.flatten() {
        progress |= remove(&sub, &inner) || move_aside(&sub, &inner, dir).is_ok();
    }
    dir.remove_dir(&name).is_ok() || progress
}

/// Removes a file or an empty directory.
fn remove(dir: &Dir, name: &OsStr) -> bool {
    match dir.kind(name) {
        Ok(Some(Kind::Directory)) => dir.remove_dir(name).is_ok(),
        Ok(Some(_)) => dir.remove_file(name).is_ok(),
        Ok(None) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_removed_and_their_targets_stay() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        fs::create_dir_all(path("outside/sub")).unwrap();
        fs::write(path("outside/sub/precious"), "1").unwrap();
        fs::create_dir_all(path("tree/a/b")).unwrap();
        fs::write(path("tree/a/b/file"), "2").unwrap();
        fs::write(path("tree/kept"), "3").unwrap();
        symlink("../outside", path("tree/link")).unwrap();
        symlink(path("outside/sub"), path("tree/a/b/link")).unwrap();
        empty(&Dir::open(&path("tree")).unwrap(), &["kept"]).unwrap();
        let left: Vec<_> = fs::read_dir(path("tree")).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(left, [path("tree/kept")]);
        assert!(path("outside/sub/precious").exists());
    }

    #[test]
    fn a_deep_tree_needs_no_more_descriptors_than_a_flat_one() {
        let base = tempfile::tempdir().unwrap();
        let mut dir = Dir::open(base.path()).unwrap();
        // Far more than files may be open, and longer than any path may be.
        for _ in 0..2100 {
            dir = dir.make_new("d").unwrap();
        }
        drop(dir);
        empty(&Dir::open(base.path()).unwrap(), &[]).unwrap();
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }

    /// A mount on a directory, which lasts as long as this value.
    struct Mount(std::path::PathBuf);

    impl Mount {
        fn new(what: &std::path::Path, on: &std::path::Path) -> Option<Self> {
            let mut mount = std::process::Command::new("mount");
            let mounted = mount.arg("--bind").args([what, on]).stderr(std::process::Stdio::null());
            let mounted = mounted.status().is_ok_and(|status| status.success());
            mounted.then(|| Self(on.to_owned()))
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.0).status();
        }
    }

    #[test]
    fn a_mount_point_is_not_entered() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        fs::create_dir_all(path("outside")).unwrap();
        fs::write(path("outside/precious"), "1").unwrap();
        fs::create_dir_all(path("tree/a/mount")).unwrap();
        fs::write(path("tree/a/file"), "2").unwrap();
        let Some(mut mount) = Mount::new(&path("outside"), &path("tree/a/mount")) else {
            println!("skipped: only root can mount a directory");
            return;
        };
        let tree = Dir::open(&path("tree")).unwrap();
        fs::create_dir(path("tree/top")).unwrap();
        let top = Mount::new(&path("outside"), &path("tree/top")).unwrap();
        empty(&tree, &[]).unwrap();
        assert!(path("tree/top/precious").exists());
        drop(top);
        empty(&tree, &[]).unwrap();
        let left: Vec<_> = tree.names().unwrap().map(Result::unwrap).collect();
        assert_eq!(left.len(), 1, "{left:?}");
        // It was moved with the directory that it is in.
        mount.0 = path("tree").join(&left[0]).join("mount");
        assert!(path("outside/precious").exists() && mount.0.join("precious").exists());
        assert!(!path("tree").join(&left[0]).join("file").exists());
        drop(mount);
        empty(&tree, &[]).unwrap();
        assert_eq!(tree.names().unwrap().count(), 0);
        assert!(path("outside/precious").exists());
    }

    #[test]
    fn an_entry_that_cannot_be_removed_does_not_block_the_others() {
        // The kernel's own files refuse to be removed.
        let _ = empty(&Dir::open("/proc/self/task".as_ref()).unwrap(), &[]);
        assert!(fs::exists("/proc/self/task").unwrap());
    }
}
