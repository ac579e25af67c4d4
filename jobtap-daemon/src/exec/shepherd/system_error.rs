//! The texts of system errors for users.

use std::io;

/// The text of a system error without its number.
pub(super) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
