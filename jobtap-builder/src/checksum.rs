//! Checksums of whole packages: SHA-256 over their files.

use std::collections::BTreeMap;
use std::path::Path;

use jobtap_daemon::composition::digest::hex;
use sha2::{Digest, Sha256};

use crate::error::BuildError;

/// Returns SHA-256 over the names and contents of files.
pub(crate) fn of_files<'a>(files: impl IntoIterator<Item = (&'a String, &'a Vec<u8>)>) -> String {
    let mut hasher = Sha256::new();
    for (name, bytes) in files {
        // With lengths, so that no two sets of files give the same input.
        hasher.update(format!("{} {name} {}\n", name.len(), bytes.len()));
        hasher.update(bytes);
    }
    hex(&hasher.finalize())
}

/// Returns SHA-256 over the files of a package's directory, without those that tools made.
pub(crate) fn of_package(root: &Path) -> Result<String, BuildError> {
    let files = files_below(root)?;
    // As for cargo, a directory with a manifest of its own is another package.
    let inner = files.keys().filter_map(|name| name.strip_suffix("/Cargo.toml"));
    let inner: Vec<String> = inner.map(|package| format!("{package}/")).collect();
    let own = |name: &str| !inner.iter().any(|package| name.starts_with(package.as_str()));
    Ok(of_files(files.iter().filter(|(name, _)| own(name))))
}

/// Returns the files below a directory by their names, without hidden ones, `target`, and lock files,
/// which cargo ignores in a dependency.
pub(crate) fn files_below(root: &Path) -> Result<BTreeMap<String, Vec<u8>>, BuildError> {
    let mut files = BTreeMap::new();
    collect(root, "", &mut files)?;
    Ok(files)
}

fn collect(
    root: &Path,
    below: &str,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> Result<(), BuildError> {
    let directory = root.join(below);
    for entry in std::fs::read_dir(&directory).map_err(BuildError::file(&directory))? {
        let entry = entry.map_err(BuildError::file(&directory))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().map_err(BuildError::file(&directory))?;
        if name.starts_with('.') || name == "target" || name == "Cargo.lock" {
            continue;
        }
        let below = if below.is_empty() { name } else { format!("{below}/{name}") };
        if kind.is_dir() {
            collect(root, &below, files)?;
        } else if kind.is_file() {
            let path = entry.path();
            files.insert(below, std::fs::read(&path).map_err(BuildError::file(&path))?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_tools_are_not_part_of_a_package() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let file = directory.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        put("src/lib.rs", "a");
        let first = of_package(directory.path()).unwrap();
        put("target/debug/x", "b");
        put(".git/HEAD", "c");
        put("Cargo.lock", "d");
        put("sdk/core/Cargo.toml", "e");
        put("sdk/core/src/lib.rs", "f");
        assert_eq!(of_package(directory.path()).unwrap(), first);
        put("src/lib.rs", "b");
        assert_ne!(of_package(directory.path()).unwrap(), first);
    }
}
