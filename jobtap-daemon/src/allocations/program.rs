//! Runs a command of an outer job manager, with a bound on its time and on what it prints.

use std::ffi::OsStr;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

use crate::limited;
use crate::open_files::OpenFiles;

/// The most bytes that a command may print.
const MOST_PRINTED: u64 = 4 << 20;

/// The most letters of what it says that are shown.
const MOST_SAID: usize = 400;

/// What a command has printed.
pub(super) struct Printed {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// A command has not done what it was to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProgramError {
    /// It isn't there, for instance.
    #[error("{program}: {reason}")]
    Start { program: String, reason: std::io::Error },
    #[error("{program} has not ended within {} s", limit.as_secs())]
    Late { program: String, limit: Duration },
    #[error("{program} prints more than {} MiB", MOST_PRINTED >> 20)]
    TooMuch { program: String },
    /// It says why.
    #[error("{0}")]
    Failed(String),
    /// What it prints makes no sense.
    #[error("{program} prints {line:?}, which isn't what is expected of it")]
    Unreadable { program: String, line: String },
}

/// A command to run.
pub(super) struct Program<'a> {
    /// The program and its arguments.
    pub(super) words: Vec<String>,
    /// Its input.
    pub(super) input: &'a str,
    /// Variables that are added to its environment.
    pub(super) env: Vec<(&'a str, String)>,
    /// How long it may take.
    pub(super) limit: Duration,
}

impl Program<'_> {
    /// Runs it, whatever its exit status. It is killed when the limit has passed.
    pub(super) async fn run(self) -> Result<Printed, ProgramError> {
        let program = self.name();
        let limit = self.limit;
        match timeout(limit, self.run_to_its_end()).await {
            Ok(printed) => printed,
            Err(_) => Err(ProgramError::Late { program, limit }),
        }
    }

    /// Runs it, and returns what it prints; what it says is the error if it fails.
    pub(super) async fn output(self) -> Result<String, ProgramError> {
        let name = self.name();
        let printed = self.run().await?;
        match printed.status.success() {
            true => Ok(printed.stdout),
            false => Err(ProgramError::Failed(said(&name, &printed))),
        }
    }

    fn name(&self) -> String {
        self.words.first().cloned().unwrap_or_default()
    }

    async fn run_to_its_end(self) -> Result<Printed, ProgramError> {
        let program = self.name();
        let failed = |reason| ProgramError::Start { program: program.clone(), reason };
        let path = std::env::var_os("PATH");
        let found =
            limited::Program { name: OsStr::new(&program), directory: None, path: path.as_deref() };
        // The manager has raised its own limit of open files, which a job of the outer manager would inherit.
        let command = limited::command(&found, OpenFiles::of_this_process().to_lower());
        let mut command = Command::from(command.map_err(failed)?);
        command.args(self.words.iter().skip(1)).envs(self.env).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A command that doesn't read its input says itself what is wrong.
                let _ = stdin.write_all(self.input.as_bytes()).await;
            }
        };
        let ((), stdout, stderr) = tokio::join!(feed, read(stdout), read(stderr));
        let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
            return Err(ProgramError::TooMuch { program });
        };
        let status = child.wait().await.map_err(failed)?;
        Ok(Printed { status, stdout, stderr })
    }
}

/// What comes through a pipe; `None` if it is too much.
async fn read(from: Option<impl AsyncRead + Unpin>) -> Option<String> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // What can't be read is missing in what the command has printed.
        let _ = from.take(MOST_PRINTED + 1).read_to_end(&mut bytes).await;
    }
    (bytes.len() as u64 <= MOST_PRINTED).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// What a command says about its failure, in one line and without its name.
pub(super) fn said(program: &str, printed: &Printed) -> String {
    let name = program.rsplit('/').next().unwrap_or(program);
    let lines = printed.stderr.lines().map(|line| bare(name, line)).filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join("; ");
    match text.is_empty() {
        true => format!("{name} fails without a word ({})", printed.status),
        false => text.chars().filter(|letter| !letter.is_control()).take(MOST_SAID).collect(),
    }
}

/// A line without the program's name and the word that it is an error.
fn bare<'a>(name: &str, line: &'a str) -> &'a str {
    let mut line = line.trim();
    let prefixes = [format!("{name}:"), format!("{}:", name.replace(' ', "-"))];
    for prefix in prefixes.iter().map(String::as_str).chain(["error:", "fatal:", "ERROR:"]) {
        line = line.strip_prefix(prefix).unwrap_or(line).trim_start();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &'static str, limit: Duration) -> Program<'static> {
        let words = ["sh", "-c", script].map(str::to_owned).into();
        Program { words, input, env: vec![("GREETING", "hello".to_owned())], limit }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_program_reads_and_prints() {
        let program = shell("echo $GREETING; cat", "you", LONG);
        assert_eq!(program.output().await.unwrap(), "hello\nyou");
    }

    #[tokio::test]
    async fn what_a_program_says_is_the_error_in_one_line() {
        let script = "echo 'sh: error: Batch job submission failed: no such partition' >&2; \
                      echo 'sh: second line' >&2; exit 1";
        let error = shell(script, "", LONG).output().await.unwrap_err().to_string();
        assert_eq!(error, "Batch job submission failed: no such partition; second line");
        let error = shell("exit 3", "", LONG).output().await.unwrap_err().to_string();
        assert_eq!(error, "sh fails without a word (exit status: 3)");
    }

    #[tokio::test]
    async fn a_program_is_bounded() {
        let late = shell("exec sleep 60", "", Duration::from_millis(50)).output().await;
        assert_eq!(late.unwrap_err().to_string(), "sh has not ended within 0 s");
        let much = shell("head -c 5000000 /dev/zero", "", LONG).output().await.unwrap_err();
        assert_eq!(much.to_string(), "sh prints more than 4 MiB");
        let words = vec!["/no/such/sbatch".to_owned()];
        let absent = Program { words, input: "", env: Vec::new(), limit: LONG };
        let error = absent.output().await.unwrap_err().to_string();
        assert!(error.starts_with("/no/such/sbatch: No such file"), "{error}");
    }
}
