//! The job that a command is about, as the user typed it.

use jobtap_core::job::JobId;

use crate::cli::message::CliError;

/// A job id and its text on the command line, which messages repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Target {
    pub(in crate::cli) id: JobId,
    pub(in crate::cli) typed: String,
}

impl Target {
    /// Reads an id in any of its forms.
    pub(in crate::cli) fn parse(text: &str) -> Result<Self, CliError> {
        let id = text
            .parse()
            .map_err(|_| CliError::failure(format!("error parsing jobid: \"{text}\"")))?;
        Ok(Self { id, typed: text.to_owned() })
    }
}
