//! A directory with the sources of all crates, for builds without a network or years later.

use std::path::Path;

use jobtap_daemon::files::{self, Access};

use crate::cargo::{self, Cargo};
use crate::error::{BuildError, PlaceError, ResolveError};
use crate::generate::{self, VENDOR};

/// The file with the configuration that `cargo vendor` prints. Cargo ignores files beside the crates.
const CONFIG: &str = "cargo-config.toml";

/// Returns whether a build has filled the directory.
pub(crate) fn is_filled(directory: &Path) -> bool {
    directory.join(CONFIG).is_file()
}

/// Refuses a directory with other files in it, which `cargo vendor` would remove.
pub(crate) fn check(directory: &Path) -> Result<(), BuildError> {
    let entry = match std::fs::read_dir(directory) {
        Ok(mut entries) => entries.next(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(reason) => return Err(BuildError::File { path: directory.to_path_buf(), reason }),
    };
    match entry {
        Some(_) if !is_filled(directory) => {
            Err(PlaceError::NoVendor(directory.to_path_buf()).into())
        }
        _ => Ok(()),
    }
}

/// Fills the directory with the crates of the lock.
pub(crate) fn fill(cargo: &Cargo, directory: &Path) -> Result<(), BuildError> {
    let directory = std::path::absolute(directory).map_err(BuildError::file(directory))?;
    let mut command = cargo.command("vendor");
    command.args(["--locked", "--versioned-dirs", "--respect-source-config"]).arg(&directory);
    let output = cargo::run(&mut command)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(ResolveError::Cargo(text).into());
    }
    let file = directory.join(CONFIG);
    let text = &output.stdout;
    files::write_whole(&file, text, Access::Kept).map_err(BuildError::file(&file))
}

/// Makes cargo take all sources from the directory.
pub(crate) fn apply(cargo: &mut Cargo, directory: &Path) -> Result<(), BuildError> {
    let directory = std::path::absolute(directory).map_err(BuildError::file(directory))?;
    // Through a link with one path for all directories, since compiled crates contain the paths of their
    // sources.
    let place = cargo.directory.join(VENDOR);
    generate::link(&directory, &place)?;
    let file = directory.join(CONFIG);
    let text = std::fs::read_to_string(&file).map_err(BuildError::file(&file))?;
    let table: toml::Table = toml::from_str(&text)
        .map_err(|error| PlaceError::VendorConfig { file, reason: Box::new(error) })?;
    let sources = table.get("source").and_then(toml::Value::as_table);
    for (name, source) in sources.into_iter().flatten() {
        // The generated crate declares a directory of crates under a name, with its index.
        let own = generate::registry_of(name);
        for (key, value) in source.as_table().into_iter().flatten() {
            // The directory may have been moved since it was filled.
            let value = match key.as_str() {
                "directory" => toml::Value::String(place.display().to_string()),
                "registry" if own.is_some() => continue,
                _ => value.clone(),
            };
            let name = generate::quoted(own.unwrap_or(name));
            cargo.config.push(format!("source.{name}.{key}={value}"));
        }
    }
    cargo.offline = true;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_other_files_is_refused() {
        let base = tempfile::tempdir().unwrap();
        assert!(check(&base.path().join("new")).is_ok() && check(base.path()).is_ok());
        std::fs::create_dir(base.path().join("Documents")).unwrap();
        let refusal = check(base.path()).unwrap_err().to_string();
        assert!(refusal.contains("name a new or an empty directory"), "{refusal}");
        std::fs::write(base.path().join(CONFIG), "").unwrap();
        assert!(check(base.path()).is_ok());
    }
}
