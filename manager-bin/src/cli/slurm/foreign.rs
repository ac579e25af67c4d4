//! What is said about a script of Lua, for fuzzers.

use std::path::PathBuf;

use super::uses::File;
use super::walk;

/// Follows the values of a script through its text. Returns how many modules it requires.
pub fn uses(source: &[u8]) -> usize {
    let file = File { path: PathBuf::from("script"), module: None, source: source.to_owned() };
    walk::uses(&[file]).modules.len()
}
