//! `job raise`: raises an exception on jobs.

use super::several::{any_failed, print_message, until_repeated};
use crate::cli::common::ids::Target;
use crate::cli::common::message::CliError;
use crate::client::Client;
use crate::rpc::services::job_manager::Raise;

/// Options and arguments of `job raise`.
#[derive(Debug, clap::Args)]
pub(super) struct RaiseArgs {
    /// Severity of the exception: 0 (fatal) to 7
    #[arg(short = 's', long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    severity: i64,
    /// Type of the exception
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "cancel")]
    kind: String,
    /// Note of the exception
    #[arg(short = 'm', long, value_name = "NOTE")]
    message: Option<String>,
    /// Job ids, then the words of a note
    #[arg(value_name = "JOBID", required = true)]
    words: Vec<String>,
    /// A note after `--`, whose words may look like ids
    #[arg(value_name = "NOTE", last = true)]
    note: Vec<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &RaiseArgs) -> Result<u8, CliError> {
    let (targets, words) = split(&args.words)?;
    let words = [words, &args.note].concat();
    let note = match (&args.message, words.is_empty()) {
        (Some(_), false) => {
            return Err(CliError::failure("Do not set note on command line and with --message"));
        }
        (Some(note), true) => note.clone(),
        (None, _) => words.join(" "),
    };
    let (targets, repeated) = until_repeated(&targets);
    let requests = targets.iter().map(|target| Raise {
        id: target.id,
        kind: args.kind.clone(),
        severity: args.severity,
        note: note.clone(),
    });
    let responses = client.call_all(requests).await;
    if repeated {
        return Err(CliError::failure("flux_job_raise: File exists"));
    }
    let mut failed = false;
    for (target, response) in targets.iter().zip(responses) {
        if let Err(error) = response {
            print_message(format!("raise {}: {error}", target.typed));
            failed = true;
        }
    }
    any_failed(failed)
}

/// Splits the words into the leading job ids and the remaining words, which are the note.
fn split(words: &[String]) -> Result<(Vec<Target>, &[String]), CliError> {
    let mut targets = Vec::new();
    let mut rest = words;
    while let Some((word, others)) = rest.split_first() {
        match Target::parse(word) {
            Ok(target) => targets.push(target),
            // Without any id the first word must have been meant as one.
            Err(error) if targets.is_empty() => return Err(error),
            Err(_) => break,
        }
        rest = others;
    }
    Ok((targets, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_first_word_that_is_not_an_id_starts_the_note() {
        let words = words("12 f2oLkTLb not needed");
        let (targets, note) = split(&words).unwrap();
        assert_eq!(targets.len(), 2);
        assert_eq!(note, ["not", "needed"]);
    }

    #[test]
    fn a_note_without_an_id_is_an_invalid_id() {
        assert_eq!(split(&words("no-id 12")).unwrap_err().text, "error parsing jobid: \"no-id\"");
    }
}
