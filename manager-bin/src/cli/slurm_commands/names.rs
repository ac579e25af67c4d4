//! Lists of names in options, and what else the commands have in common.

use std::process::ExitCode;

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::sbatch::read_version;
use crate::users::Users;

/// Prints the version of the program, as `-V` does.
pub(super) fn print_version(command: &str) -> ExitCode {
    session::run(command, Family::Slurm, async {
        session::print(&read_version())?;
        Ok(0u8)
    })
}

/// A variable by which a user sets an option.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The words of a list with commas.
pub(super) fn split(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The words of a list whose commas inside of brackets belong to a word: `7_[1,3],8`.
pub(super) fn split_ids(list: &str) -> Vec<String> {
    let mut depth = 0_u32;
    let separates = |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    let words = list.split(separates).map(str::trim);
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The ids of users that are given by their names or numbers.
pub(super) fn uids(list: &str, users: &Users) -> Result<Vec<u32>, CliError> {
    let uid = |word: &String| {
        let number = word.parse().ok().or_else(|| users.number(word));
        number.ok_or_else(|| CliError::failure(format!("Invalid user: {word}")))
    };
    split(list).iter().map(uid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_brackets_do_not_split_ids() {
        assert_eq!(split_ids("7_[1,3-5], 8,,9_2"), ["7_[1,3-5]", "8", "9_2"]);
        assert_eq!(split_ids("7_[1,3"), ["7_[1,3"]);
    }
}
