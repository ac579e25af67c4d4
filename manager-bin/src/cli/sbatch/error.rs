//! Why the options of a batch script can't be used: what is wrong, and where it stands.

use std::fmt;
use std::io;

use jobtap_core::resource::HostlistError;
use jobtap_core::slurm::{SetError, TresError};
use thiserror::Error;

use crate::cli::common::indexes::IndexError;
use crate::cli::common::message::system_text;

/// Where options stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    CommandLine,
    /// A line of a script, from 1.
    Line {
        script: String,
        number: usize,
    },
}

/// What stands before an option in a message.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => Ok(()),
            Self::Line { script, number } => write!(f, "{script}:{number}: "),
        }
    }
}

/// The name under which an option was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Long(&'static str),
    Short(char),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Long(name) => write!(f, "--{name}"),
            Self::Short(letter) => write!(f, "-{letter}"),
        }
    }
}

/// Where an option was set: `--time`, `job.sh:3: -t`, `SBATCH_TIMELIMIT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    Option { place: Place, name: Name },
    Variable(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option { place, name } => write!(f, "{place}{name}"),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

/// Words that are not options as they should be.
#[derive(Debug, PartialEq, Error)]
#[error("{place}{fault}")]
pub(super) struct OptionError {
    pub(super) place: Place,
    pub(super) fault: OptionFault,
}

#[derive(Debug, PartialEq, Error)]
pub(super) enum OptionFault {
    #[error("{0} takes no value")]
    TakesNoValue(Name),
    #[error("{name} needs a value: {value}")]
    NeedsValue { name: Name, value: &'static str },
    #[error("unknown option {0}: see --help")]
    Unknown(String),
    #[error("unknown option --{given}: did you mean --{meant}?")]
    Misspelled { given: String, meant: &'static str },
    /// The beginning of the names of several options.
    #[error("--{given} can be {}", or(names))]
    Ambiguous { given: String, names: Vec<&'static str> },
    #[error("--{name} can't be used: {reason}")]
    Refused { name: &'static str, reason: &'static str },
    #[error(
        "heterogeneous jobs ({0}) don't exist here: submit a job for each component, or one job with the resources \
         of all"
    )]
    Heterogeneous(&'static str),
    #[error("a quote isn't closed")]
    OpenQuote,
    #[error("unexpected word '{0}': #SBATCH lines have only options")]
    Word(String),
}

fn or(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("--{name}")).collect();
    names.join(" or ")
}

/// Options that make no request.
#[derive(Debug, Error)]
pub(super) enum RequestError {
    #[error("{origin}: {fault}")]
    Setting { origin: Origin, fault: ValueError },
    /// A file that an option names can't be read.
    #[error("{file}: {}", system_text(reason))]
    File { file: String, reason: io::Error },
    /// It names no hosts.
    #[error(transparent)]
    Hosts(#[from] HostsError),
}

/// A value that the option can't have.
#[derive(Debug, PartialEq, Error)]
pub(super) enum ValueError {
    #[error("invalid number '{0}'")]
    Number(String),
    #[error("must be above 0")]
    NotPositive,
    #[error("'{0}' is too large")]
    TooLarge(String),
    #[error("{most} is less than {least}")]
    Range { least: u32, most: u32 },
    #[error("more than three numbers")]
    MoreThanThree,
    #[error("invalid time '{0}': use minutes, HH:MM:SS, D-HH:MM:SS or UNLIMITED")]
    Duration(String),
    #[error("invalid time '{0}': use now+1hour, 16:00, 2030-01-20T12:34 or tomorrow")]
    Time(String),
    #[error("invalid size '{0}': use MiB, or a number with K, M, G or T")]
    Size(String),
    #[error("unknown {what} '{word}': use {known}")]
    Word { what: &'static str, word: String, known: String },
    /// As [`Word`](Self::Word), where the names aren't listed.
    #[error("unknown {what} '{word}'")]
    UnlistedWord { what: &'static str, word: String },
    #[error("'{word}' is neither {one} nor {other}")]
    Neither { word: String, one: &'static str, other: &'static str },
    #[error(transparent)]
    Hosts(#[from] HostsError),
    #[error(transparent)]
    Indexes(#[from] IndexError),
    #[error(transparent)]
    Tres(#[from] TresError),
    #[error(transparent)]
    Field(#[from] SetError),
}

/// A text that names no hosts.
#[derive(Debug, PartialEq, Error)]
#[error("invalid hosts '{text}': {error}")]
pub(super) struct HostsError {
    pub(super) text: String,
    pub(super) error: HostlistError,
}
