//! What every command that talks to the manager has in common: a connection, a runtime, and the form of
//! its failures.

use std::future::Future;
use std::io::{self, Write};
use std::process::ExitCode;

use super::message::{CliError, Prog};
use super::usage::Family;
use crate::client::{Client, ClientError, RpcError};
use crate::shown;

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        Self::failure(error)
    }
}

impl From<RpcError> for CliError {
    fn from(error: RpcError) -> Self {
        Self::failure(error)
    }
}

/// Runs a command that needs the manager; `Ok` of the body is the exit code.
pub(crate) fn with_manager<F>(
    command: &str,
    family: Family,
    body: impl FnOnce(Client) -> F,
) -> ExitCode
where
    F: Future<Output = Result<u8, CliError>>,
{
    run(command, family, async {
        let client = Client::connect().await?;
        body(client).await
    })
}

/// Runs a command's future to its exit code and prints what went wrong.
pub(crate) fn run<T: Into<ExitCode>>(
    command: &str,
    family: Family,
    body: impl Future<Output = Result<T, CliError>>,
) -> ExitCode {
    match outcome(body) {
        Ok(code) => code.into(),
        Err(error) => {
            if !error.text.is_empty() {
                complain(command, family, &error.text);
            }
            ExitCode::from(error.code)
        }
    }
}

/// Runs a command's future to its end.
pub(crate) fn outcome<T>(body: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(body);
    // A thread that reads the terminal can't be ended, so the process doesn't wait for it.
    runtime.shutdown_background();
    outcome
}

/// Prints an error line in the form of the command's family.
pub(crate) fn complain(command: &str, family: Family, text: &str) {
    note(&complaint(command, family, text));
}

/// An error line in the form of the command's family.
pub(crate) fn complaint(command: &str, family: Family, text: &str) -> String {
    let prog = Prog::current();
    match family {
        Family::Script => prog.error(command, text),
        Family::Compiled => prog.plain(command, text),
    }
}

/// Prints a line to standard error. An error is ignored, since it could not be reported.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{}", shown::lines(line));
}

/// Prints on stdout at once, without control characters.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    print_painted(&shown::lines(text))
}

/// Prints text with colours in it on stdout at once. What others wrote must be [`shown`] in it.
pub(crate) fn print_painted(text: &str) -> Result<(), CliError> {
    put(&mut io::stdout().lock(), text.as_bytes())
}

/// Writes to one of our output streams at once.
pub(crate) fn put(stream: &mut impl Write, bytes: &[u8]) -> Result<(), CliError> {
    let written = stream.write_all(bytes).and_then(|()| stream.flush());
    written.map_err(|error| CliError::write(&error))
}
