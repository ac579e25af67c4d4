//! The indexes of a job array, as users write them.

use std::num::NonZeroU32;

use jobtap_core::array::Elements;
use jobtap_core::resource::Idset;
use thiserror::Error;

/// The maximum index, as in Slurm's largest arrays.
const LARGEST: u32 = 4_000_000;

/// The maximum number of indexes in a list, with those that it repeats.
const MOST_LISTED: usize = 2 * Elements::MOST;

/// The indexes of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Indexes {
    pub(in crate::cli) all: Idset,
    /// The maximum number of elements that are active at once; `None` for no limit.
    pub(in crate::cli) at_once: Option<NonZeroU32>,
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
    #[error("an array has at most {} elements", Elements::MOST)]
    TooMany,
}

impl Indexes {
    /// Reads `0-15`, `1,3,5-7`, `0-15:4`, each with `%N` at the end for the number of jobs at once.
    ///
    /// # Errors
    /// [`IndexError`].
    pub(in crate::cli) fn parse(text: &str) -> Result<Self, IndexError> {
        let (list, at_once) = match text.split_once('%') {
            Some((list, most)) => match most.parse() {
                Ok(most) => (list, Some(most)),
                Err(_) => return Err(IndexError::AtOnce(most.to_owned())),
            },
            None => (text, None),
        };
        let mut runs = Vec::new();
        let mut listed = 0;
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
            listed += (last - first) as usize / step as usize + 1;
            if listed > MOST_LISTED {
                return Err(IndexError::TooMany);
            }
            match step {
                1 => runs.push((first, last)),
                step => {
                    let step = usize::try_from(step).unwrap_or(usize::MAX);
                    runs.extend((first..=last).step_by(step).map(|index| (index, index)));
                }
            }
        }
        // In ascending order, since in any other each one would move all those behind it.
        runs.sort_unstable();
        let mut all = Idset::new();
        for (first, last) in runs {
            all.insert_range(first..=last);
        }
        if all.len() > Elements::MOST {
            return Err(IndexError::TooMany);
        }
        Ok(Self { all, at_once })
    }

    /// The difference of the first two indexes, as `SLURM_ARRAY_TASK_STEP` has it.
    pub(in crate::cli) fn step(&self) -> u32 {
        let first = self.all.first();
        let second = first.and_then(|first| self.all.next_after(first));
        first.zip(second).map_or(1, |(first, second)| second - first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lists_ranges_and_steps() {
        let parsed = |text: &str| Indexes::parse(text).unwrap();
        let all = |text: &str| parsed(text).all.to_string();
        assert_eq!(all("3"), "3");
        assert_eq!(all("1,3,5-7"), "1,3,5-7");
        assert_eq!((all("0-15:4"), parsed("0-15:4").step()), ("0,4,8,12".to_owned(), 4));
        assert_eq!((parsed("0-3%2").at_once, parsed("0-3").at_once), (NonZeroU32::new(2), None));
        assert_eq!(all("5,1,1-2"), "1-2,5");
        assert_eq!(parsed("0-999999").all.len(), 1_000_000);
    }

    /// One by one, between those that are there already, they would take minutes.
    #[test]
    fn ranges_may_lie_between_each_other() {
        let parsed = Indexes::parse("1-999999:2,0-999999:2").unwrap();
        assert_eq!(parsed.all.to_string(), "0-999999");
        let repeated = ["0-3999999"; 3].join(",");
        assert_eq!(Indexes::parse(&repeated).err(), Some(IndexError::TooMany));
    }

    #[test]
    fn refuses_what_is_not_an_index() {
        for text in
            ["", "a", "1-", "3-1", "1-5:0", "1:2", "1%0", "1%", "-1", "5000000", "0-4000000"]
        {
            assert!(Indexes::parse(text).is_err(), "{text}");
        }
    }
}
