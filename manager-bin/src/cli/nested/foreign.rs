//! The directives of batch scripts, for fuzzers.

use super::directives;

/// The words of each directive of a script, with its line.
pub fn directives(script: &str) -> Option<Vec<(usize, Vec<String>)>> {
    let found = directives::directives("script", script).ok()?;
    Some(found.into_iter().map(|directive| (directive.line, directive.words)).collect())
}
