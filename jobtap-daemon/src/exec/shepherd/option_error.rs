//! What is wrong with a job's shell options.

use std::fmt;

use jobtap_core::resource::{IdsetError, ResourceError};
use rustix::io::Errno;
use serde_json::Value;

/// A shell option that can't be used.
#[derive(Debug, PartialEq)]
pub(super) struct OptionError {
    /// The option, with those that it is a part of: `output.stdout.path`.
    option: String,
    fault: OptionFault,
}

/// Why an option can't be used.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum OptionFault {
    /// The value has another form.
    #[error("{value} is {what}")]
    Form {
        value: Box<Value>,
        /// What it is seen to be: `no flag`.
        what: &'static str,
    },
    /// The same, where the value isn't shown.
    #[error("must be {0}")]
    Must(&'static str),
    /// A name that means nothing here.
    #[error("unknown {what} '{name}'{}", advice(*known))]
    Unknown {
        what: &'static str,
        name: String,
        /// The names that can be used, if they are shown.
        known: Option<&'static str>,
    },
    /// The option has no part with this name.
    #[error("{whole} has no such part, but {}", .known.join(", "))]
    Part { whole: &'static str, known: &'static [&'static str] },
    /// Flux's job shell has the option, and the shepherd can't do what it asks for, for this reason.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A stream that is to be a file has none.
    #[error("missing for type file")]
    NoPath,
    /// Neither ids nor a mask of them.
    #[error("'{0}' is no mask in hexadecimal")]
    Mask(String),
    /// No list of ids.
    #[error("'{set}': {error}")]
    Ids { set: String, error: IdsetError },
    /// A list without ids.
    #[error("'{0}': a list of ids is empty")]
    NoIds(String),
    /// The resources of the job can't be read.
    #[error("the {what} of the job: {error}")]
    Resources { what: &'static str, error: ResourceError },
    /// This host doesn't have the CPU, or the shepherd may not use it.
    #[error("CPU {0} can't be used on this host")]
    Cpu(u32),
    /// The system doesn't say which CPUs the shepherd may use.
    #[error("{0}")]
    Cpus(Errno),
    /// No system limit has this name.
    #[error("no such resource limit")]
    Limit,
    /// A kind of resource that tasks can't be counted per.
    #[error("{0} is neither node nor core")]
    Resource(String),
    /// The kind of resource that tasks are counted per is not there.
    #[error("missing: node or core")]
    NoResource,
    /// A terminal and a file can't both be the input.
    #[error("the input of a terminal can't come from a file")]
    TerminalInput,
}

fn advice(known: Option<&str>) -> String {
    known.map(|known| format!(": use {known}")).unwrap_or_default()
}

impl OptionError {
    pub(super) fn new(option: impl Into<String>, fault: OptionFault) -> Self {
        Self { option: option.into(), fault }
    }

    /// The value of the option has another form: it is `what`.
    pub(super) fn form(option: impl Into<String>, value: &Value, what: &'static str) -> Self {
        Self::new(option, OptionFault::Form { value: Box::new(value.clone()), what })
    }

    /// The option is a name that means nothing here.
    pub(super) fn unknown(option: impl Into<String>, what: &'static str, name: &str) -> Self {
        Self::new(option, OptionFault::Unknown { what, name: name.to_owned(), known: None })
    }
}

impl std::error::Error for OptionError {}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { option, fault } = self;
        match fault {
            OptionFault::NoResource => write!(f, "{option} is {fault}"),
            fault => write!(f, "{option}: {fault}"),
        }
    }
}
