//! The common part of all commands: the asynchronous runtime, the connection to the manager, and the printing
//! of output and errors.

use std::future::Future;
use std::io::{self, Write};
use std::pin::Pin;
use std::process::ExitCode;

use crate::cli::common::message::{CliError, Prog};
use crate::cli::common::usage::Family;
use crate::cli::common::work;
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

/// Connects to the manager and runs a command. `body` returns the exit code.
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

/// Runs the future of a command, prints its error and returns its exit code.
pub(crate) fn run<T: Into<ExitCode>>(
    command: &str,
    family: Family,
    body: impl Future<Output = Result<T, CliError>>,
) -> ExitCode {
    match block_on(body) {
        Ok(code) => code.into(),
        Err(error) => {
            if !error.text.is_empty() {
                print_error(command, family, &error.text);
            }
            ExitCode::from(error.code)
        }
    }
}

/// Runs the future of a command in a new runtime.
pub(crate) fn block_on<T>(body: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Boxed: otherwise each command would get its own copy of the runtime's code that drives it, which is slow to
    // compile.
    let body: Pin<Box<dyn Future<Output = _> + '_>> = Box::pin(body);
    let result = runtime.block_on(body);
    // A thread that reads from a terminal can't be interrupted, so the process doesn't wait for it.
    runtime.shutdown_background();
    result
}

/// Prints an error message in the form of the command's family.
pub(crate) fn print_error(command: &str, family: Family, text: &str) {
    print_message(&error_line(command, family, text));
}

/// An error message in the form of the command's family.
pub(crate) fn error_line(command: &str, family: Family, text: &str) -> String {
    let prog = Prog::current();
    match family {
        Family::Script => prog.error(command, text),
        Family::Compiled => prog.plain(command, text),
        Family::Slurm => format!("{command}: error: {text}"),
    }
}

/// Prints a line to standard error. An error is ignored: there is nowhere to report it.
pub(crate) fn print_message(line: &str) {
    // In one call, so that lines of commands that share a terminal are not mixed.
    let line = shown::lines(line) + "\n";
    let _ = work::beside(|| io::stderr().write_all(line.as_bytes()));
}

/// Prints the messages that plugins add to a response: each line as `PROG-COMMAND: LINE` on standard error.
pub(crate) fn print_plugin_messages(command: &str, messages: &[String]) {
    let prog = Prog::current();
    for line in messages.iter().flat_map(|message| message.lines()) {
        print_message(&prog.plain(command, line));
    }
}

/// Prints the messages that plugins add to a response if it is a refusal, and returns the response. For requests that
/// plugins decide on.
pub(crate) fn print_refusal_messages<R>(
    command: &str,
    response: Result<R, RpcError>,
) -> Result<R, RpcError> {
    response.inspect_err(|refusal| print_plugin_messages(command, &refusal.messages))
}

/// The width of the terminal in columns. The variable `COLUMNS` overrides what the terminal reports.
pub(crate) fn columns() -> Option<usize> {
    let variable = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal =
        || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col.into());
    // Terminals that don't know their size report 0.
    variable.or_else(terminal).filter(|columns| *columns > 0)
}

/// Prints to standard output without buffering, and escapes control characters.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    print_painted(&shown::lines(text))
}

/// Prints text that contains colors to standard output without buffering. The caller must have escaped the
/// texts of users in it, see [`shown`].
pub(crate) fn print_painted(text: &str) -> Result<(), CliError> {
    work::beside(|| write(&mut io::stdout().lock(), text.as_bytes()))
}

/// Writes to an output stream without buffering.
pub(crate) fn write(stream: &mut impl Write, bytes: &[u8]) -> Result<(), CliError> {
    let written = stream.write_all(bytes).and_then(|()| stream.flush());
    written.map_err(|error| CliError::write(&error))
}
