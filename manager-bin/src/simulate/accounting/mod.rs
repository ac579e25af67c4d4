//! Traces from accounting: lists of jobs of Slurm and Flux, and what a manager has recorded.
//!
//! Such lists aren't in the order of submission, so they are read as a whole. Their times are UNIX times; second 0 of
//! the trace is the first submission.
//!
//! | file | what it holds |
//! |---|---|
//! | `sacct` | the output of `sacct --parsable2` |
//! | `flux` | the output of `flux jobs --json` or `jobtap jobs --json` |
//! | `recorded` | dumps and state directories |

mod flux;
mod recorded;
mod sacct;

use std::collections::BTreeMap;

use jobtap_core::simulation::TraceJob;

pub(super) use recorded::of_recorded;

/// The jobs of a list, with what could not be mapped.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// The jobs. Their times are UNIX times; what is unknown is -1.
    pub(super) jobs: Vec<TraceJob>,
    /// Jobs that never started.
    pub(super) never_ran: u64,
    /// Broken lines, or jobs of a dump, each with its place and what is wrong with it.
    pub(super) broken: Vec<String>,
    /// What is not replayed as it was, a sentence each.
    pub(super) notes: Vec<String>,
}

/// Whether a file that begins like this is an archive, as `jobtap dump` and `flux dump` write it.
pub(super) fn is_archive(begin: &[u8]) -> bool {
    begin.get(257..262) == Some(b"ustar") || begin.starts_with(b"BZh")
}

/// Which list a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// `sacct --parsable2`.
    Sacct,
    /// `flux jobs --json`.
    Json,
}

impl Format {
    /// The format of a text that begins like this; `None` is SWF.
    pub(super) fn of(begin: &[u8]) -> Option<Self> {
        let text = begin.trim_ascii_start();
        let first_line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let heading = first_line.windows(5).any(|word| word.eq_ignore_ascii_case(b"JobID"));
        match text.first()? {
            b'{' => Some(Self::Json),
            _ if heading && first_line.contains(&b'|') => Some(Self::Sacct),
            _ => None,
        }
    }

    /// Reads a whole list.
    ///
    /// # Errors
    /// Why it is no such list.
    pub(super) fn read(self, bytes: &[u8]) -> Result<Listed, String> {
        match self {
            Self::Sacct => sacct::read(&String::from_utf8_lossy(bytes)),
            Self::Json => flux::read(&String::from_utf8_lossy(bytes)),
        }
    }
}

/// Numbers for users of whom only the name is known.
#[derive(Debug, Default)]
struct Names {
    known: BTreeMap<String, u32>,
    /// How many jobs got a number.
    given: u64,
}

impl Names {
    /// The first number: those of people are below on most systems.
    const FIRST: u32 = 100_001;

    fn number(&mut self, name: &str) -> u32 {
        self.given += 1;
        let next = Self::FIRST + u32::try_from(self.known.len()).unwrap_or(0);
        *self.known.entry(name.to_owned()).or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_known_by_the_first_line() {
        let of = |text: &str| Format::of(text.as_bytes());
        assert_eq!(of("JobIDRaw|User|Submit\n"), Some(Format::Sacct));
        assert_eq!(of("{\"jobs\": []}"), Some(Format::Json));
        assert_eq!(of("; Computer: x\n"), None);
        assert_eq!(of("1 0 -1 5 1 -1\n"), None);
        assert_eq!(of(""), None);
    }
}
