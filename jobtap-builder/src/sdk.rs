//! The SDK that a manager is built with: the copy that this program carries, or a checkout.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jobtap_daemon::files;
use semver::Version;

use crate::checksum;
use crate::error::{BuildError, SdkError, SdkName};
use crate::scan::{self, Declared};

/// The sources that `build.rs` packed: for each file its name, its length and its bytes.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sdk.lz4"));

/// The packages of the SDK, by their folders.
const PACKAGES: &[&str] = include!("../build/packages.rs");

/// An SDK on disk.
#[derive(Debug, Clone)]
pub(crate) struct Sdk {
    /// Its workspace.
    pub(crate) root: PathBuf,
    /// Its version.
    pub(crate) version: Version,
    /// The oldest compiler that it compiles with, from Cargo.toml.
    pub(crate) rust_version: Option<String>,
    /// SHA-256 of its packages.
    pub(crate) checksum: String,
    /// Its builtin plugins.
    pub(crate) builtins: Vec<Declared>,
    /// Whether it is the copy that this program carries.
    pub(crate) embedded: bool,
}

impl Sdk {
    /// Returns the embedded SDK, unpacked below a directory if it isn't there yet.
    pub(crate) fn embedded(cache: &Path) -> Result<Self, BuildError> {
        let files = unpack()?;
        let checksum = checksum::of_files(packages(&files));
        let name = checksum.get(..16).unwrap_or(&checksum);
        let root = cache.join("sdk").join(name);
        if !root.exists() {
            let all = cache.join("sdk");
            std::fs::create_dir_all(&all).map_err(BuildError::file(&all))?;
            // Renamed when it is complete, so that an interrupted build leaves no incomplete copy.
            let half = tempfile::Builder::new().prefix(".unfinished-").tempdir_in(&all);
            let half = half.map_err(BuildError::file(&all))?;
            write_tree(half.path(), &files)?;
            if let Err(reason) = std::fs::rename(half.path(), &root)
                && !root.exists()
            {
                return Err(BuildError::File { path: root, reason });
            }
        }
        Self::open(root, checksum, true)
    }

    /// Unpacks some packages of the embedded SDK into a directory.
    pub(crate) fn unpacked_into(directory: &Path, packages: &[&str]) -> Result<Self, BuildError> {
        let mut files = unpack()?;
        let checksum = checksum::of_files(self::packages(&files));
        reduce_root(&mut files, packages)?;
        let wanted = |name: &String| match name.split_once('/') {
            Some((package, _)) => packages.contains(&package),
            None => true,
        };
        files.retain(|name, _| wanted(name));
        write_tree(directory, &files)?;
        Self::open(directory.to_path_buf(), checksum, true)
    }

    /// Returns the SDK of a checkout.
    pub(crate) fn at(path: &Path) -> Result<Self, BuildError> {
        let root = std::fs::canonicalize(path).map_err(BuildError::file(path))?;
        for package in PACKAGES {
            if !root.join(package).join("Cargo.toml").is_file() {
                return Err(SdkError::NoSdk { path: path.to_path_buf(), package }.into());
            }
        }
        let mut files = BTreeMap::new();
        for package in PACKAGES {
            for (name, bytes) in checksum::files_below(&root.join(package))? {
                files.insert(format!("{package}/{name}"), bytes);
            }
        }
        let checksum = checksum::of_files(packages(&files));
        Self::open(root, checksum, false)
    }

    fn open(root: PathBuf, checksum: String, embedded: bool) -> Result<Self, BuildError> {
        let file = root.join("Cargo.toml");
        let text = std::fs::read_to_string(&file).map_err(BuildError::file(&file))?;
        let table: toml::Table = toml::from_str(&text).unwrap_or_default();
        let package = table.get("workspace").and_then(|workspace| workspace.get("package"));
        let said = |key: &str| package?.get(key)?.as_str();
        let rust_version = said("rust-version").map(str::to_owned);
        let version = said("version").and_then(|text| Version::parse(text).ok());
        let version = version.ok_or(SdkError::NoVersion(file))?;
        let builtins = scan::library(&root.join("jobtap-builtins/src/lib.rs")).declared;
        Ok(Self { root, version, rust_version, checksum, builtins, embedded })
    }

    /// Copies the sources that a manager is compiled from.
    pub(crate) fn copy(&self, directory: &Path) -> Result<(), BuildError> {
        let mut files = BTreeMap::new();
        for name in ["Cargo.toml", "Cargo.lock"] {
            let path = self.root.join(name);
            files.insert(name.to_owned(), std::fs::read(&path).map_err(BuildError::file(&path))?);
        }
        reduce_root(&mut files, PACKAGES)?;
        for package in PACKAGES {
            let root = self.root.join(package);
            let package_files = checksum::files_below(&root)?.into_iter();
            let named = package_files.map(|(name, bytes)| (format!("{package}/{name}"), bytes));
            files.extend(named.filter(|(name, _)| is_packed(name)));
        }
        write_tree(directory, &files)
    }

    /// Returns its name for messages.
    pub(crate) fn named(&self) -> Box<SdkName> {
        let checkout = Some(self.root.clone()).filter(|_| !self.embedded);
        Box::new(SdkName { version: self.version.clone(), checkout })
    }
}

/// Returns the files of the packages that `build.rs` packs, without the workspace's own, so that a checkout
/// and its packed copy have the same checksum.
fn packages(files: &BTreeMap<String, Vec<u8>>) -> impl Iterator<Item = (&String, &Vec<u8>)> {
    files.iter().filter(|(name, _)| is_packed(name))
}

fn is_packed(name: &str) -> bool {
    let Some((_, inner)) = name.split_once('/') else { return false };
    let part = inner.split('/').next().unwrap_or_default();
    let snapshot = Path::new(name).extension().is_some_and(|extension| extension == "snap");
    ["Cargo.toml", "build.rs", "build", "src", "benches"].contains(&part) && !snapshot
}

/// Returns the embedded files by their names.
fn unpack() -> Result<BTreeMap<String, Vec<u8>>, SdkError> {
    let broken = || SdkError::Damaged;
    let bytes = lz4_flex::decompress_size_prepended(PACKED).map_err(|_| broken())?;
    let mut files = BTreeMap::new();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let (name, after) = line(rest).ok_or_else(broken)?;
        let (length, after) = line(after).ok_or_else(broken)?;
        let length: usize = length.parse().map_err(|_| broken())?;
        let (content, after) = after.split_at_checked(length).ok_or_else(broken)?;
        files.insert(name.to_owned(), content.to_vec());
        rest = after;
    }
    if files.is_empty() {
        return Err(SdkError::NotCarried);
    }
    reduce_root(&mut files, PACKAGES)?;
    Ok(files)
}

fn line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (text, rest) = bytes.split_at_checked(end)?;
    Some((std::str::from_utf8(text).ok()?, rest.get(1..)?))
}

/// Removes from the workspace's manifest what isn't among the packages.
fn reduce_root(files: &mut BTreeMap<String, Vec<u8>>, packages: &[&str]) -> Result<(), SdkError> {
    let Some(root) = files.get_mut("Cargo.toml") else { return Ok(()) };
    let text = String::from_utf8_lossy(root).into_owned();
    let mut document: toml_edit::DocumentMut = text.parse().map_err(SdkError::Workspace)?;
    if let Some(workspace) = document.get_mut("workspace").and_then(|item| item.as_table_mut()) {
        workspace.remove("default-members");
        workspace.insert(
            "members",
            toml_edit::value(packages.iter().copied().collect::<toml_edit::Array>()),
        );
        let dependencies = workspace.get_mut("dependencies").and_then(|item| item.as_table_mut());
        if let Some(dependencies) = dependencies {
            let path = |item: &toml_edit::Item| Some(item.get("path")?.as_str()?.to_owned());
            dependencies
                .retain(|_, item| path(item).is_none_or(|p| packages.contains(&p.as_str())));
        }
    }
    *root = document.to_string().into_bytes();
    Ok(())
}

/// Writes files below a directory, which is made if it doesn't exist.
pub(crate) fn write_tree(
    directory: &Path,
    tree: &BTreeMap<String, Vec<u8>>,
) -> Result<(), BuildError> {
    std::fs::create_dir_all(directory).map_err(BuildError::file(directory))?;
    for (name, bytes) in tree {
        let file = directory.join(name);
        files::write_below(directory, Path::new(name), bytes).map_err(BuildError::file(&file))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_sdk_is_this_workspace() {
        let cache = tempfile::tempdir().unwrap();
        let embedded = Sdk::embedded(cache.path()).unwrap();
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let here = Sdk::at(workspace).unwrap();
        assert_eq!(embedded.checksum, here.checksum);
        let names = |sdk: &Sdk| -> Vec<(String, Vec<String>)> {
            sdk.builtins.iter().map(|found| (found.name.clone(), found.topics())).collect()
        };
        assert_eq!(names(&embedded), names(&here));
        assert_eq!(embedded.version.to_string(), env!("CARGO_PKG_VERSION"));
        assert!(embedded.builtins.iter().any(|found| found.name == ".priority-default"));
        // A second build finds it there.
        assert_eq!(Sdk::embedded(cache.path()).unwrap().root, embedded.root);
        // The unpacked copy has the same checksum.
        assert_eq!(Sdk::at(&embedded.root).unwrap().checksum, here.checksum);
    }

    #[test]
    fn each_builtin_can_be_left_out() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for found in Sdk::at(workspace).unwrap().builtins {
            let feature = found.name.trim_start_matches('.').to_owned();
            assert_eq!(found.features, [feature], "{} needs a feature of its name", found.name);
        }
    }

    #[test]
    fn a_directory_without_an_sdk_is_refused() {
        let empty = tempfile::tempdir().unwrap();
        let text = Sdk::at(empty.path()).unwrap_err().to_string();
        assert!(text.contains("name the root of a checkout"), "{text}");
    }
}
