//! Why a job can't be started. The texts are for the job's user.

use std::io;
use std::path::PathBuf;

use super::files::jobdir::JobDirError;
use super::job_user::JobUserError;
use super::option_error::OptionError;
use super::placement::TaskMapError;
use super::system_error::plain;

/// Why a job can't be started, or, by the shepherd that takes the place of another one, not be continued.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// A shell option can't be used.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The shepherd can't act as the job's user.
    #[error(transparent)]
    User(#[from] JobUserError),
    /// The tasks can't be placed as the job asks for.
    #[error(transparent)]
    TaskMap(#[from] TaskMapError),
    /// The job's own directory can't be made.
    #[error(transparent)]
    Directory(#[from] JobDirError),
    /// The job's output log can't be made.
    #[error("cannot make the output log: {0}")]
    MakeLog(io::Error),
    /// The output log that another shepherd has made can't be continued.
    #[error("cannot open the output log: {0}")]
    ContinueLog(io::Error),
    /// The output log can't be written.
    #[error("cannot write output: {}", plain(.0))]
    WriteLog(io::Error),
    /// A file for output can't be opened.
    #[error("cannot open output file {}: {}", path.display(), plain(error))]
    Output { path: PathBuf, error: io::Error },
    /// The file that the tasks read can't be opened.
    #[error("cannot open input file {}: {}", path.display(), plain(error))]
    Input { path: PathBuf, error: io::Error },
    /// The name of the file that the tasks read can't be kept for clients.
    #[error("cannot keep the input: {}", plain(.0))]
    KeepInput(io::Error),
    /// What a task prints can't be copied.
    #[error("cannot capture output: {}", plain(.0))]
    Capture(io::Error),
    /// Input can't be copied to a task.
    #[error("cannot pass input: {}", plain(.0))]
    PassInput(io::Error),
    /// The terminal of a task that runs can't be joined to the job again.
    #[error("{}", plain(.0))]
    Terminal(io::Error),
}
