//! Why a string names no topic, for the author who wrote it, and what to write instead.

use std::fmt;

/// What is wrong with the string of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoTopic {
    /// The string begins like the members of a family, and what follows can't be the name of one.
    Member { name: String, family: &'static str, example: &'static str },
    /// No dependency can have this scheme, since a scheme is the beginning of a URI.
    Scheme { written: String, meant: String },
    /// The name of an event is nearly that of an event of RFC 21.
    Event { written: String, meant: &'static str },
    /// The name of a moment in Flux or Slurm that is no topic here.
    Foreign { name: String, instead: &'static str },
    /// A pattern other than those that are topics.
    Pattern { name: String },
    /// Nearly the string of a topic, or its end.
    Misspelt { name: String, meant: String },
    /// No topic has a string like this.
    Unknown { name: String, known: Vec<&'static str> },
}

impl fmt::Display for NoTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member { name, family, example } => {
                let prefix = family.trim_end_matches('*');
                write!(
                    f,
                    "`{name}` names no member of `{family}`\n\
                     note: write one name, as in `{prefix}{example}`, or `{family}` for all"
                )
            }
            Self::Scheme { written, meant } => write!(
                f,
                "no dependency can have the scheme `{written}`: it begins with a letter and has lower-case \
                 letters, digits, `+`, `-` and `.`\nnote: write `job.dependency.{meant}`"
            ),
            Self::Event { written, meant } => write!(
                f,
                "no event is named `{written}`; did you mean `job.event.{meant}`?\n\
                 note: if a plugin posts an event of this name, rename it, since it reads like a mistake"
            ),
            Self::Foreign { name, instead } => {
                write!(f, "jobtap has no topic `{name}`\nnote: {instead}")
            }
            Self::Pattern { name } => write!(
                f,
                "`{name}` is a pattern, and a handler names its topics\n\
                 note: write each one, as in `#[on(\"job.state.run\", \"job.state.cleanup\")]`; only \
                 `job.*`, `job.state.*`, `job.event.*`, `job.dependency.*` and `job.update.*` stand for \
                 many"
            ),
            Self::Misspelt { name, meant } => {
                write!(f, "no topic is named `{name}`; did you mean `{meant}`?")
            }
            Self::Unknown { name, known } => write!(
                f,
                "no topic is named `{name}`\nnote: the topics are `{}`",
                known.join("`, `")
            ),
        }
    }
}
