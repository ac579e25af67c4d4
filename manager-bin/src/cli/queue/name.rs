//! The names in what the subcommands read and print: that of the queue, and their own.

use crate::cli::common::message::CliError;

/// The name of this command in messages and in the names of files.
pub(super) const COMMAND: &str = "queue";

/// The queue to which a subcommand applies, given as an argument or as an option.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct QueueName {
    /// Name of the queue
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,
    /// Name of the queue
    #[arg(short = 'q', long = "queue", value_name = "NAME", hide = true)]
    option: Option<String>,
}

impl QueueName {
    pub(super) fn get(&self) -> Result<Option<&str>, CliError> {
        match (&self.option, &self.queue) {
            (Some(option), Some(queue)) => Err(CliError::failure(format!(
                "Conflicting queues specified as --queue={option} and {queue}"
            ))),
            (option, queue) => Ok(option.as_deref().or(queue.as_deref())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_and_option_must_not_both_name_a_queue() {
        let name = |queue: Option<&str>, option: Option<&str>| {
            let (queue, option) = (queue.map(str::to_owned), option.map(str::to_owned));
            let name = QueueName { queue, option };
            name.get().map(|name| name.map(str::to_owned)).map_err(|error| error.text)
        };
        assert_eq!(name(Some("a"), None), Ok(Some("a".to_owned())));
        assert_eq!(name(None, Some("a")), Ok(Some("a".to_owned())));
        assert_eq!(name(None, None), Ok(None));
        let error = name(Some("b"), Some("a")).unwrap_err();
        assert_eq!(error, "Conflicting queues specified as --queue=a and b");
    }
}
