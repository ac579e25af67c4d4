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
//! | `listed` | what each of them becomes |

mod flux;
mod listed;
mod recorded;
mod sacct;

pub(crate) use self::listed::Listed;
pub(crate) use self::recorded::of_recorded;

use crate::error::ListFault;

/// Whether a file that begins like this is an archive, as `jobtap dump` and `flux dump` write it.
pub(crate) fn is_archive(begin: &[u8]) -> bool {
    begin.get(257..262) == Some(b"ustar") || begin.starts_with(b"BZh")
}

/// The format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `sacct --parsable2`.
    Sacct,
    /// Another form of `sacct`, which can't be read; what it is.
    OtherSacct(&'static str),
    /// `flux jobs --json`.
    Json,
}

impl Format {
    /// The format of a text that begins like this; `None` is SWF.
    pub(crate) fn detect(begin: &[u8]) -> Option<Self> {
        let text = begin.trim_ascii_start();
        let first_line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let heading = first_line.windows(5).any(|word| word.eq_ignore_ascii_case(b"JobID"));
        match text.first()? {
            b'{' if is_json_of_slurm(text) => Some(Self::OtherSacct("the JSON")),
            b'{' => Some(Self::Json),
            // A comment of SWF.
            b';' => None,
            _ if heading && first_line.contains(&b'|') => Some(Self::Sacct),
            _ if heading => Some(Self::OtherSacct("the table")),
            _ if first_line.contains(&b'|') => {
                Some(Self::OtherSacct("the output without a heading"))
            }
            _ => None,
        }
    }

    /// Reads a whole list.
    ///
    /// # Errors
    /// [`ListFault`].
    pub(crate) fn read(self, bytes: &[u8]) -> Result<Listed, ListFault> {
        match self {
            Self::OtherSacct(form) => Err(ListFault::Form(form)),
            Self::Sacct => sacct::read(&String::from_utf8_lossy(bytes)),
            Self::Json => flux::read(&String::from_utf8_lossy(bytes)),
        }
    }
}

/// Whether a text that begins like this is JSON of Slurm's commands: they say which plugin has written it.
fn is_json_of_slurm(begin: &[u8]) -> bool {
    let has = |word: &[u8]| begin.windows(word.len()).any(|found| found == word);
    has(b"\"meta\"") && has(b"\"plugin\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_known_by_the_first_line() {
        let of = |text: &str| Format::detect(text.as_bytes());
        assert_eq!(of("JobIDRaw|User|Submit\n"), Some(Format::Sacct));
        assert_eq!(of("{\"jobs\": []}"), Some(Format::Json));
        let other = |text: &str| match of(text) {
            Some(Format::OtherSacct(form)) => form,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            other("JobID           JobName  Partition\n------------ ----------\n"),
            "the table"
        );
        assert_eq!(other("JobID,User,Submit\n"), "the table");
        assert_eq!(other("1|ann|2026-01-05T10:00:00\n"), "the output without a heading");
        assert_eq!(other("{\"meta\": {\"plugin\": {}}, \"jobs\": []}"), "the JSON");
        assert_eq!(of("; Computer: x\n"), None);
        assert_eq!(of("1 0 -1 5 1 -1\n"), None);
        assert_eq!(of(""), None);
    }
}
