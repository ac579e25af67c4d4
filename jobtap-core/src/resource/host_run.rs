//! A run of consecutive host names, such as `node[08-11]`: what a hostlist is made of.
//!
//! A name is split in exactly one way, into a prefix and all of its trailing digits. So equal lists
//! are stored equally however they were written, and a lookup compares names, not spellings.

use super::host_segment::Segment;
use std::sync::Arc;

/// More trailing digits than this are left in the prefix: such a name never joins a range, and
/// numbers stay clear of the end of `u64`.
pub(super) const MAX_DIGITS: usize = 18;

/// One name without a number, or names with consecutive numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HostRun {
    pub(super) prefix: Arc<str>,
    pub(super) numbers: Option<Numbers>,
}

/// The numbers of a run, `first <= last`, each written with at least `width` digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Numbers {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Length of the first number's text.
    pub(super) width: usize,
}

/// How many decimal digits `number` has.
pub(super) fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// The name without its trailing digits, and these digits.
pub(super) fn split_digits(name: &str) -> (&str, &str) {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name.split_at(prefix.len())
}

impl HostRun {
    pub(super) fn of_name(name: &str) -> Self {
        let (prefix, number) = split_digits(name);
        let parsed = (number.len() <= MAX_DIGITS).then(|| number.parse::<u64>().ok()).flatten();
        match parsed {
            Some(value) => Self {
                prefix: prefix.into(),
                numbers: Some(Numbers { first: value, last: value, width: number.len() }),
            },
            None => Self { prefix: name.into(), numbers: None },
        }
    }

    /// Number of hosts.
    pub(super) fn len(&self) -> usize {
        self.numbers.map_or(1, Numbers::len)
    }

    pub(super) fn nth(&self, index: usize) -> Option<String> {
        match self.numbers {
            None => (index == 0).then(|| self.prefix.to_string()),
            Some(Numbers { first, last, width }) => {
                let value = first.checked_add(index as u64).filter(|v| *v <= last)?;
                Some(format!("{}{value:0width$}", self.prefix))
            }
        }
    }

    /// Appends `next` when its first name follows this run's last one in number and in width.
    pub(super) fn try_extend(&mut self, next: &Self) -> bool {
        let (Some(mine), Some(theirs)) = (self.numbers.as_mut(), next.numbers) else {
            return false;
        };
        let follows = self.prefix == next.prefix
            && theirs.first == mine.last + 1
            && theirs.width == mine.width.max(digits(theirs.first));
        if follows {
            mine.last = theirs.last;
        }
        follows
    }

    /// Where the single name `name` stands in this run.
    pub(super) fn position(&self, name: &Self) -> Option<usize> {
        if self.prefix != name.prefix {
            return None;
        }
        match (self.numbers, name.numbers) {
            (None, None) => Some(0),
            (Some(mine), Some(n)) => {
                let inside = (mine.first..=mine.last).contains(&n.first)
                    && n.width == mine.width.max(digits(n.first));
                inside.then(|| usize::try_from(n.first - mine.first).ok()).flatten()
            }
            _ => None,
        }
    }

    /// The run cut where its numbers grow by a digit.
    pub(super) fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let mut next = Some(self.numbers.map_or(0, |n| n.first));
        std::iter::from_fn(move || {
            let first = next?;
            let Some(numbers) = self.numbers else {
                next = None;
                return Some(Segment::bare(self.prefix.clone()));
            };
            let width = numbers.width.max(digits(first));
            let last = numbers.last.min(last_of_width(width));
            next = (last < numbers.last).then(|| last + 1);
            Some(Segment { prefix: self.prefix.clone(), width, first, last })
        })
    }
}

/// The highest number of `width` digits.
pub(super) fn last_of_width(width: usize) -> u64 {
    u32::try_from(width)
        .ok()
        .and_then(|width| 10u64.checked_pow(width))
        .map_or(u64::MAX, |power| power - 1)
}

impl Numbers {
    fn len(self) -> usize {
        usize::try_from(self.last - self.first).unwrap_or(usize::MAX).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joins(left: &str, right: &str) -> bool {
        HostRun::of_name(left).try_extend(&HostRun::of_name(right))
    }

    #[test]
    fn neighbours_join_when_one_width_writes_both() {
        for (left, right) in [("foo9", "foo10"), ("foo999", "foo1000"), ("foo09", "foo10")] {
            assert!(joins(left, right), "{left} {right}");
        }
        for (left, right) in [
            ("foo009", "foo10"),
            ("foo01", "foo1"),
            ("foo01", "foo2"),
            ("foo1", "foo02"),
            ("foo1", "bar2"),
            ("foo", "foo1"),
            ("foo1", "foo3"),
        ] {
            assert!(!joins(left, right), "{left} {right}");
        }
    }

    #[test]
    fn a_long_digit_string_stays_a_plain_name() {
        let long = "n1234567890123456789";
        let run = HostRun::of_name(long);
        assert_eq!(run.numbers, None);
        assert_eq!(run.nth(0).unwrap(), long);
        assert!(!joins("n999999999999999999", "n1000000000000000000"));
    }

    #[test]
    fn segments_have_one_width_each() {
        let mut run = HostRun::of_name("n8");
        for n in 9..=120 {
            assert!(run.try_extend(&HostRun::of_name(&format!("n{n}"))));
        }
        let cut: Vec<_> = run.segments().map(|s| (s.width, s.first, s.last)).collect();
        assert_eq!(cut, [(1, 8, 9), (2, 10, 99), (3, 100, 120)]);
        assert_eq!(run.len(), 113);
        assert_eq!(run.nth(2).unwrap(), "n10");
        assert_eq!(run.nth(113), None);
    }
}
