//! The files of a script: its own, and those beside it that it requires.

use std::path::{Path, PathBuf};

use super::uses::File;
use super::walk::uses;
use crate::files::input;

/// Reads a script, and the files beside it that it requires.
///
/// # Errors
/// The script itself can't be read.
pub(super) fn files(path: &Path) -> std::io::Result<Vec<File>> {
    let script = File { path: path.to_owned(), module: None, source: input::bytes(path)? };
    let mut files = vec![script];
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut next = 0;
    while let Some(file) = files.get(next) {
        for module in uses(std::slice::from_ref(file)).modules.into_keys() {
            let Some(path) = module_path(directory, &module) else { continue };
            if files.iter().all(|file| file.path != path)
                && let Ok(source) = input::bytes(&path)
            {
                files.push(File { path, module: Some(module), source });
            }
        }
        next += 1;
    }
    Ok(files)
}

/// The file of a module beside the script.
pub(super) fn module_path(directory: &Path, module: &str) -> Option<PathBuf> {
    let name = module.replace('.', "/");
    let places = [format!("{name}.lua"), format!("{name}/init.lua")];
    places.iter().map(|place| directory.join(place)).find(|path| path.is_file())
}
