//! A directory with the sources of all crates, for builds without a network or years later.

use std::path::Path;

use super::cargo::{self, Cargo};
use super::error::BuildError;
use super::generate::{self, VENDOR};

/// What `cargo vendor` says about using the directory; cargo skips files in it.
const CONFIG: &str = "cargo-config.toml";

/// Whether the directory was filled.
pub(super) fn is_filled(directory: &Path) -> bool {
    directory.join(CONFIG).is_file()
}

/// Fills it with what the lock names.
pub(super) fn fill(cargo: &Cargo, directory: &Path) -> Result<(), BuildError> {
    let directory = std::path::absolute(directory).map_err(BuildError::file(directory))?;
    let mut command = cargo.command("vendor");
    command.args(["--locked", "--versioned-dirs", "--respect-source-config"]).arg(&directory);
    let output = cargo::run(&mut command)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(BuildError::Resolve(text));
    }
    let file = directory.join(CONFIG);
    std::fs::write(&file, &output.stdout).map_err(BuildError::file(&file))
}

/// Has cargo take its sources from there, and from nowhere else.
pub(super) fn apply(cargo: &mut Cargo, directory: &Path) -> Result<(), BuildError> {
    let directory = std::path::absolute(directory).map_err(BuildError::file(directory))?;
    // Seen at one place, wherever it is: compiled crates keep the names of their sources.
    let place = cargo.directory.join(VENDOR);
    generate::link(&directory, &place)?;
    let file = directory.join(CONFIG);
    let text = std::fs::read_to_string(&file).map_err(BuildError::file(&file))?;
    let table: toml::Table = toml::from_str(&text)
        .map_err(|error| BuildError::refused(format!("{}: {error}", file.display())))?;
    let sources = table.get("source").and_then(toml::Value::as_table);
    for (name, source) in sources.into_iter().flatten() {
        // The generated crate has a name for a directory of crates, and its index there.
        let own = generate::registry_of(name);
        for (key, value) in source.as_table().into_iter().flatten() {
            // It may have been moved since.
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
