//! What the subcommands on several jobs have in common: an error about one job is printed, and the others follow.

use std::collections::BTreeSet;

use crate::cli::common::ids::Target;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;

/// The name of this command in messages.
pub(super) const COMMAND: &str = "job";

/// Prints a message on standard error; the command continues.
pub(super) fn print_message(text: impl std::fmt::Display) {
    session::print_error(COMMAND, Family::Compiled, &text.to_string());
}

/// The jobs up to the first that is named a second time, and whether there is one. As in Flux, the requests up to it
/// are sent, but then the command fails.
pub(super) fn until_repeated(targets: &[Target]) -> (&[Target], bool) {
    let mut seen = BTreeSet::new();
    let end = targets.iter().position(|target| !seen.insert(target.id));
    let sent = end.and_then(|end| targets.get(..=end)).unwrap_or(targets);
    (sent, end.is_some())
}

/// The exit code of a command on several jobs: 1 if it failed for any of them.
pub(super) fn any_failed(failed: bool) -> Result<u8, CliError> {
    Ok(u8::from(failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_after_one_that_is_named_twice_are_left_out() {
        let sent = |ids: &[&str]| {
            let targets: Vec<Target> = ids.iter().map(|id| Target::parse(id).unwrap()).collect();
            let (sent, repeated) = until_repeated(&targets);
            (sent.len(), repeated)
        };
        assert_eq!(sent(&["1", "2", "3"]), (3, false));
        assert_eq!(sent(&["1", "2", "0x1", "4", "4"]), (3, true));
        assert_eq!(sent(&[]), (0, false));
    }
}
