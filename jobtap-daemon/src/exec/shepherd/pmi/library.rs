//! The library that MPI programs load if they have no PMI client of their own: Open MPI 4 finds it by
//! `FLUX_PMI_LIBRARY_PATH`, others by an option of their own.
//!
//! The manager's binary contains it, and the shepherd writes it below the state directory, which belongs to the
//! manager. An existing file is used only if it has the same bytes; otherwise it is replaced atomically, so that a
//! program that has loaded the earlier file keeps it.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jobtap_pmi::LIBRARY;

use crate::files::{Dir, place_in};

/// The subdirectory of the state directory that holds the library.
const DIRECTORY: &str = "lib";

/// The names that MPI libraries look for. Both files are the same: they have the functions of both versions of
/// PMI.
const FIRST: &str = "libpmi.so";
const SECOND: &str = "libpmi2.so";

/// World-readable, since jobs of all users load it.
const MODE: u32 = 0o644;

/// Writes the library, and returns its absolute path.
pub(super) fn unpack(state_dir: &Path) -> io::Result<PathBuf> {
    let state = Dir::open(state_dir)?;
    let directory = state.make(DIRECTORY)?;
    directory.let_others_pass()?;
    for name in [FIRST, SECOND] {
        if !is_there(&directory, name).unwrap_or(false) {
            place_in(state.sub(DIRECTORY)?, name.into(), LIBRARY)?;
        }
        directory.set_mode_of(name, MODE)?;
    }
    Ok(directory.real_path()?.join(FIRST))
}

/// Whether a file is the library.
fn is_there(directory: &Dir, name: &str) -> io::Result<bool> {
    let file = directory.regular_file(name)?;
    let mut found = Vec::new();
    file.take(LIBRARY.len() as u64 + 1).read_to_end(&mut found)?;
    Ok(found == LIBRARY)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn the_library_is_written_once_and_mended() {
        let state = tempfile::tempdir().unwrap();
        let path = unpack(state.path()).unwrap();
        assert!(path.is_absolute() && path.ends_with("lib/libpmi.so"), "{path:?}");
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        let first = inode(&path);
        assert_eq!(unpack(state.path()).unwrap(), path);
        assert_eq!(inode(&path), first, "what is there is used");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
        fs::write(path.with_file_name(SECOND), "changed").unwrap();
        unpack(state.path()).unwrap();
        assert_eq!(fs::read(path.with_file_name(SECOND)).unwrap(), LIBRARY);
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let state = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        symlink(other.path(), state.path().join(DIRECTORY)).unwrap();
        unpack(state.path()).unwrap_err();
        fs::remove_file(state.path().join(DIRECTORY)).unwrap();
        fs::create_dir(state.path().join(DIRECTORY)).unwrap();
        let file = other.path().join("file");
        fs::write(&file, "kept").unwrap();
        symlink(&file, state.path().join(DIRECTORY).join(FIRST)).unwrap();
        unpack(state.path()).unwrap_err();
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    }
}
