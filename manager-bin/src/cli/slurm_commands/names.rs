//! Lists of names in options.

use crate::cli::common::message::CliError;
use crate::users::Users;

/// The words of a list with commas.
pub(super) fn split(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The ids of users that are given by their names or numbers.
pub(super) fn uids(list: &str, users: &Users) -> Result<Vec<u32>, CliError> {
    let uid = |word: &String| {
        let number = word.parse().ok().or_else(|| users.number(word));
        number.ok_or_else(|| CliError::failure(format!("Invalid user: {word}")))
    };
    split(list).iter().map(uid).collect()
}
