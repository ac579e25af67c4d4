//! The errors in the options of a submission.

use jobtap_core::jobspec::{JobspecError, ShapeError};
use jobtap_core::resource::QueryError;
use thiserror::Error;

use super::pattern::InvalidPattern;
use crate::cli::common::message::system_text;
use crate::rpc::errno::EINVAL;

/// The reason why the options don't make a jobspec. Its text is printed after `PROG-COMMAND: ERROR: `.
#[derive(Debug, Clone, PartialEq, Error)]
pub(crate) enum ArgError {
    #[error("--{option}: invalid int value '{value}'")]
    Int { option: &'static str, value: String },
    #[error("Per-resource options can't be used with per-task options. (See --help for details)")]
    PerResourceAndTask,
    #[error("{0} can't be used with other resource options")]
    ShapeAndCounts(&'static str),
    #[error("--shape and --resources-json are mutually exclusive: use only one of them")]
    ShapeAndFile,
    #[error("--shape={shape}: {error}")]
    Shape { shape: String, error: ShapeError },
    /// Flux's message, which scripts may search for.
    #[error("invalid literal for int() with base 10: '{0}'")]
    Urgency(String),
    #[error("--signal={option}: {fault}")]
    Signal { option: String, fault: SignalFault },
    #[error("Invalid taskmap URI \"{0}\"")]
    Taskmap(String),
    #[error("--flags: Unknown flag {0}")]
    Flag(String),
    #[error("specify only one of --cc or --bcc")]
    CcAndBcc,
    #[error("invalid Flux standard duration")]
    Duration,
    #[error("duration must not be negative")]
    NegativeDuration,
    #[error("duration must be a normal, finite value")]
    InfiniteDuration,
    #[error("Invalid datetime: \"{0}\"")]
    Datetime(String),
    #[error("per-task input not supported for submit")]
    PerTaskInput,
    #[error("--env: Variable '{name}' not found in {rule}")]
    EnvUnset { name: String, rule: String },
    #[error("--env: Unable to substitute {0}")]
    EnvSubstitution(String),
    #[error("--env: {InvalidPattern} in {0}")]
    EnvPattern(String),
    #[error("--env: files name each other too deeply in {0}")]
    EnvNesting(String),
    #[error("--env: [Errno {errno}] {text}: '{name}'")]
    EnvFile { name: String, errno: i32, text: String },
    #[error("--rlimit: {InvalidPattern} in {0}")]
    RlimitPattern(String),
    #[error("Invalid rlimit \"{0}\"")]
    UnknownRlimit(String),
    #[error("Invalid value in {name}={value}")]
    RlimitValue { name: String, value: String },
    #[error("No corresponding rlimit matching \"{0}\"")]
    UnmatchedRlimit(String),
    #[error("unknown constraint operator '{0}'")]
    ConstraintOperator(String),
    #[error("--requires='{query}': {error}")]
    Requires { query: String, error: Box<QueryError> },
    #[error("failed to set {key} to {value}")]
    SetAttr { key: String, value: String },
    #[error("--add-file: invalid permissions '{0}': use an octal number such as 0755")]
    Permissions(String),
    #[error("--add-file={option}: [Errno {errno}] {text}: '{name}'")]
    AddFile { option: String, name: String, errno: i32, text: String },
    #[error("{text}: '{name}'")]
    File { name: String, text: String },
    #[error(transparent)]
    Jobspec(#[from] JobspecError),
}

/// What is wrong with the value of `--signal`.
#[derive(Debug, Clone, PartialEq, Error)]
pub(crate) enum SignalFault {
    #[error("signal must be > 0")]
    NotPositive,
    #[error("signal '{0}' is invalid")]
    Unknown(String),
    #[error("invalid Flux standard duration")]
    Time,
}

impl ArgError {
    /// The error that the file `name` with rules for the environment can't be read.
    pub(crate) fn env_file(name: &str, error: &std::io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(EINVAL);
        Self::EnvFile { name: name.to_owned(), errno, text: system_text(error) }
    }

    /// The error that the file `name` of an option `--add-file` can't be read.
    pub(crate) fn add_file(option: &str, name: &str, error: &std::io::Error) -> Self {
        Self::AddFile {
            option: option.to_owned(),
            name: name.to_owned(),
            errno: error.raw_os_error().unwrap_or(EINVAL),
            text: system_text(error),
        }
    }

    /// The error that the file `name` can't be read.
    pub(crate) fn file(name: &str, error: &std::io::Error) -> Self {
        Self::File { name: name.to_owned(), text: system_text(error) }
    }
}
