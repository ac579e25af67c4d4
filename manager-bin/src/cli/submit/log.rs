//! `--log` and `--log-stderr`: the files for the messages of a submitting command and the output of its jobs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use super::error::ArgError;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::work;

/// The names of the log files of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) struct LogNames {
    /// For ids and output, and for errors if `errors` is `None`.
    pub(in crate::cli) log: Option<String>,
    /// For errors.
    pub(in crate::cli) errors: Option<String>,
}

/// The open log files by name, which the jobs share.
#[derive(Debug, Default)]
pub(in crate::cli) struct LogFiles(BTreeMap<String, Arc<File>>);

impl LogFiles {
    /// Opens the named files. Truncates files that exist, unless another job has opened them already.
    ///
    /// # Errors
    /// [`ArgError::File`] if a file can't be created.
    pub(in crate::cli) fn sinks(&mut self, names: &LogNames) -> Result<Sinks, ArgError> {
        let out = names.log.as_deref().map(|name| self.open(name)).transpose()?;
        let err = names.errors.as_deref().map(|name| self.open(name)).transpose()?;
        let err = err.or_else(|| out.clone());
        Ok(Sinks { out, err })
    }

    fn open(&mut self, name: &str) -> Result<Arc<File>, ArgError> {
        if let Some(file) = self.0.get(name) {
            return Ok(Arc::clone(file));
        }
        let file = File::create(name).map_err(|error| ArgError::file(name, &error))?;
        let file = Arc::new(file);
        self.0.insert(name.to_owned(), Arc::clone(&file));
        Ok(file)
    }
}

/// Where the lines of a job are written: log files, or standard output and standard error.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct Sinks {
    out: Option<Arc<File>>,
    err: Option<Arc<File>>,
}

impl Sinks {
    /// Writes to one of the two without buffering.
    pub(in crate::cli) fn write(&self, stderr: bool, bytes: &[u8]) -> Result<(), CliError> {
        match if stderr { &self.err } else { &self.out } {
            Some(file) => session::write(&mut &**file, bytes),
            None if stderr => work::beside(|| session::write(&mut io::stderr().lock(), bytes)),
            None => work::beside(|| session::write(&mut io::stdout().lock(), bytes)),
        }
    }

    /// Writes a message to the log file for errors or to standard error.
    pub(in crate::cli) fn print_message(&self, line: &str) {
        match &self.err {
            // There is nowhere to report a failure to write a message.
            Some(file) => drop(writeln!(&mut &**file, "{line}")),
            None => session::print_message(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_written_to_the_log_without_a_file_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let name = |name: &str| Some(dir.path().join(name).to_str().unwrap().to_owned());
        let mut files = LogFiles::default();
        let one = files.sinks(&LogNames { log: name("a"), errors: None }).unwrap();
        let two = files.sinks(&LogNames { log: name("a"), errors: name("b") }).unwrap();
        one.write(false, b"1\n").unwrap();
        two.write(false, b"2\n").unwrap();
        one.print_message("3");
        two.print_message("4");
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!((read("a").as_str(), read("b").as_str()), ("1\n2\n3\n", "4\n"));
        let missing = files.sinks(&LogNames { log: name("no/such"), errors: None }).unwrap_err();
        assert!(missing.to_string().starts_with("No such file or directory: '"), "{missing}");
    }
}
