//! Job arrays: a job is submitted for each index of `--array`.

use thiserror::Error;

/// The maximum number of jobs in an array.
const MOST: usize = 10_000;

/// The maximum index, as in Slurm's largest arrays.
const LARGEST: u32 = 4_000_000;

/// The indexes of an array, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Indexes {
    pub(in crate::cli) all: Vec<u32>,
    /// The maximum number of jobs that run at once; `None` for no limit.
    pub(in crate::cli) at_once: Option<usize>,
}

/// A text that makes no array.
#[derive(Debug, PartialEq, Eq, Error)]
pub(in crate::cli) enum IndexError {
    #[error("'{0}' after % must be a number above 0")]
    AtOnce(String),
    #[error("'{0}' is not an index: use N, N-M or N-M:STEP")]
    NoIndex(String),
    #[error("index {0} is larger than {LARGEST}")]
    TooLarge(u32),
    #[error("an array has at most {MOST} jobs")]
    TooMany,
}

impl Indexes {
    /// Reads `0-15`, `1,3,5-7`, `0-15:4`, each with `%N` at the end for the number of jobs at once.
    ///
    /// # Errors
    /// [`IndexError`].
    pub(in crate::cli) fn parse(text: &str) -> Result<Self, IndexError> {
        let (list, at_once) = match text.split_once('%') {
            Some((list, most)) => match most.parse::<usize>() {
                Ok(most) if most > 0 => (list, Some(most)),
                _ => return Err(IndexError::AtOnce(most.to_owned())),
            },
            None => (text, None),
        };
        let mut all = Vec::new();
        for part in list.split(',') {
            let wrong = || IndexError::NoIndex(part.to_owned());
            let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
            let (range, step) = match part.split_once(':') {
                Some((range, step)) => (range, number(step)?),
                None => (part, 1),
            };
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None if part.contains(':') => return Err(wrong()),
                None => (number(range)?, number(range)?),
            };
            if step == 0 || last < first {
                return Err(wrong());
            }
            if last > LARGEST {
                return Err(IndexError::TooLarge(last));
            }
            all.extend((first..=last).step_by(usize::try_from(step).unwrap_or(usize::MAX)));
            if all.len() > MOST {
                return Err(IndexError::TooMany);
            }
        }
        all.sort_unstable();
        all.dedup();
        Ok(Self { all, at_once })
    }

    /// The difference of the first two indexes, as `SLURM_ARRAY_TASK_STEP` has it.
    pub(in crate::cli) fn step(&self) -> u32 {
        match self.all.as_slice() {
            [first, second, ..] => second - first,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lists_ranges_and_steps() {
        let all = |text: &str| Indexes::parse(text).unwrap();
        assert_eq!(all("3").all, [3]);
        assert_eq!(all("1,3,5-7").all, [1, 3, 5, 6, 7]);
        assert_eq!((all("0-15:4").all, all("0-15:4").step()), (vec![0, 4, 8, 12], 4));
        assert_eq!((all("0-3%2").at_once, all("0-3").at_once), (Some(2), None));
        assert_eq!(all("5,1,1-2").all, [1, 2, 5]);
    }

    #[test]
    fn refuses_what_is_not_an_index() {
        for text in ["", "a", "1-", "3-1", "1-5:0", "1:2", "1%0", "1%", "-1", "5000000", "0-20000"]
        {
            assert!(Indexes::parse(text).is_err(), "{text}");
        }
    }
}
