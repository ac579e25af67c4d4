//! An ordered list of host names, stored as runs such as `node[0-9999]`.

use super::HostlistError;
use super::host_run::{HostRun, Numbers};
use super::host_segment::{NameSet, Segment, sorted_runs};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// An ordered list of hosts (RFC 29); a host may occur more than once.
///
/// Two lists are equal when they name the same hosts in the same order, however they were written.
///
/// ```
/// use jobtap_core::resource::Hostlist;
/// let mut hosts: Hostlist = "foo1,foo2,foo3,login".parse()?;
/// assert_eq!(hosts.to_string(), "foo[1-3],login");
/// assert_eq!(hosts.find("foo3"), Some(2));
/// hosts.delete(&"foo2".parse()?);
/// assert_eq!(hosts.to_string(), "foo[1,3],login");
/// # Ok::<(), jobtap_core::resource::HostlistError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Hostlist {
    /// Maximal runs: a run never continues the one before it.
    pub(super) runs: Vec<HostRun>,
}

impl Hostlist {
    /// The most hosts that one range of the text form names (RFC 29).
    pub const MAX_RANGE: u64 = 1_048_576;
    /// The most items that one bracket of the text form holds (RFC 29).
    pub const MAX_ITEMS: usize = 10_240;

    /// The empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { runs: Vec::new() }
    }

    /// Number of hosts, duplicates counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.iter().fold(0usize, |sum, run| sum.saturating_add(run.len()))
    }

    /// Whether the list has no host.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The name at `index`, counted from 0.
    #[must_use]
    pub fn nth(&self, index: usize) -> Option<String> {
        let mut index = index;
        for run in &self.runs {
            if index < run.len() {
                return run.nth(index);
            }
            index -= run.len();
        }
        None
    }

    /// The first name.
    #[must_use]
    pub fn first(&self) -> Option<String> {
        self.nth(0)
    }

    /// The last name.
    #[must_use]
    pub fn last(&self) -> Option<String> {
        let run = self.runs.last()?;
        run.nth(run.len() - 1)
    }

    /// The names in list order.
    pub fn iter(&self) -> impl Iterator<Item = String> + '_ {
        self.runs.iter().flat_map(|run| (0..run.len()).filter_map(|index| run.nth(index)))
    }

    /// Index of the first host with exactly this name: `i[0-5]` has no `i00`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        let wanted = HostRun::of_name(name);
        let mut before = 0;
        for run in &self.runs {
            if let Some(position) = run.position(&wanted) {
                return Some(before + position);
            }
            before += run.len();
        }
        None
    }

    /// Whether the list has a host of exactly this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Appends one host. The name is taken literally: brackets and separators are refused.
    ///
    /// # Errors
    /// [`HostlistError::Name`].
    pub fn push(&mut self, name: &str) -> Result<(), HostlistError> {
        if name.is_empty() || name.contains(['[', ']', ',']) || !is_name_text(name) {
            return Err(HostlistError::Name(name.to_owned()));
        }
        self.push_run(HostRun::of_name(name));
        Ok(())
    }

    /// Appends the hosts of `other`.
    pub fn append(&mut self, other: &Self) {
        for run in &other.runs {
            self.push_run(run.clone());
        }
    }

    /// Removes every occurrence of every host of `other`; returns how many were removed.
    pub fn delete(&mut self, other: &Self) -> usize {
        let before = self.len();
        let doomed = NameSet::new(other.segments());
        let mut kept = Self::new();
        for segment in self.segments() {
            let mut first = segment.first;
            for (from, to) in doomed.overlaps(&segment) {
                if from > first {
                    kept.push_run(segment.run(first, from - 1));
                }
                first = to + 1;
            }
            if first <= segment.last {
                kept.push_run(segment.run(first, segment.last));
            }
        }
        *self = kept;
        before - self.len()
    }

    /// Sorts by prefix, then length of the number, then number; duplicates stay.
    pub fn sort(&mut self) {
        let mut sorted = Self::new();
        sorted_runs(self.segments(), |run| sorted.push_run(run));
        *self = sorted;
    }

    /// Sorts and drops duplicates.
    pub fn uniq(&mut self) {
        let names = NameSet::new(self.segments());
        self.runs.clear();
        for segment in names.iter() {
            self.push_run(segment.run(segment.first, segment.last));
        }
    }

    pub(super) fn push_run(&mut self, run: HostRun) {
        if !self.runs.last_mut().is_some_and(|last| last.try_extend(&run)) {
            self.runs.push(run);
        }
    }

    pub(super) fn segments(&self) -> Vec<Segment> {
        self.runs.iter().flat_map(HostRun::segments).collect()
    }
}

/// Whether `text` has none of the characters that would tear a line or a list apart.
pub(super) fn is_name_text(text: &str) -> bool {
    !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

impl fmt::Display for Hostlist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.runs.as_slice();
        let mut comma = "";
        while let Some(head) = rest.first() {
            f.write_str(comma)?;
            comma = ",";
            let group = rest
                .iter()
                .take_while(|run| run.numbers.is_some() && run.prefix == head.prefix)
                .count();
            let (group, tail) = rest.split_at(group.max(1));
            rest = tail;
            if head.numbers.is_none() {
                f.write_str(&head.prefix)?;
            } else {
                write_numbered(f, &head.prefix, group)?;
            }
        }
        Ok(())
    }
}

/// Writes runs of one prefix, within the limits that the parser keeps.
fn write_numbered(f: &mut fmt::Formatter<'_>, prefix: &str, group: &[HostRun]) -> fmt::Result {
    let items: Vec<Numbers> = group.iter().filter_map(|run| run.numbers).flat_map(pieces).collect();
    for (i, chunk) in items.chunks(Hostlist::MAX_ITEMS).enumerate() {
        let comma = if i == 0 { "" } else { "," };
        write!(f, "{comma}{prefix}")?;
        match chunk {
            [one] if one.first == one.last => write_item(f, *one)?,
            _ => {
                for (i, item) in chunk.iter().enumerate() {
                    f.write_str(if i == 0 { "[" } else { "," })?;
                    write_item(f, *item)?;
                }
                f.write_str("]")?;
            }
        }
    }
    Ok(())
}

/// Cuts a run to ranges that the parser accepts.
fn pieces(numbers: Numbers) -> impl Iterator<Item = Numbers> {
    let mut next = Some(numbers.first);
    std::iter::from_fn(move || {
        let first = next?;
        let last = numbers.last.min(first + (Hostlist::MAX_RANGE - 1));
        next = (last < numbers.last).then(|| last + 1);
        Some(Numbers { first, last, width: numbers.width })
    })
}

fn write_item(f: &mut fmt::Formatter<'_>, numbers: Numbers) -> fmt::Result {
    let Numbers { first, last, width } = numbers;
    write!(f, "{first:0width$}")?;
    if last > first {
        write!(f, "-{last:0width$}")?;
    }
    Ok(())
}

impl fmt::Debug for Hostlist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hostlist({self})")
    }
}

impl Serialize for Hostlist {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hostlist {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str) -> Hostlist {
        text.parse().unwrap()
    }

    #[test]
    fn finds_by_exact_name() {
        assert_eq!(list("i[0-5]").find("i00"), None);
        assert_eq!(list("i[00-05]").find("i04"), Some(4));
        assert_eq!(list("f00[7-8,10]").find("f0010"), Some(2));
        assert_eq!(list("[0-5]").find("3"), Some(3));
        assert_eq!(list("a,b,a").find("a"), Some(0));
        assert_eq!(list("foo[1-3]-ib").find("foo2-ib"), Some(1));
        assert_eq!(list("foo[1-3]").find("foo"), None);
    }

    #[test]
    fn travels_as_a_json_string() {
        let hosts: Hostlist = serde_json::from_str("\"n[1-3,7]\"").unwrap();
        assert_eq!(hosts.iter().collect::<Vec<_>>(), ["n1", "n2", "n3", "n7"]);
        assert_eq!(serde_json::to_string(&hosts).unwrap(), "\"n[1-3,7]\"");
        assert!(serde_json::from_str::<Hostlist>("\"n[3-1]\"").is_err());
        assert!(serde_json::from_str::<Hostlist>("7").is_err());
    }

    #[test]
    fn deletes_every_occurrence() {
        for (from, what, left, count) in [
            ("foo[2-5]", "foo3", "foo[2,4-5]", 1),
            ("foo[0-7]", "foo[1,0,2-7]", "", 8),
            ("a,foo1,a,foo1", "a", "foo[1,1]", 2),
            ("foo[08-11]", "foo[8-10]", "foo[08-09,11]", 1),
        ] {
            let mut hosts = list(from);
            assert_eq!(hosts.delete(&list(what)), count, "{from} - {what}");
            assert_eq!(hosts.to_string(), left, "{from} - {what}");
        }
    }

    #[test]
    fn sorts_and_drops_duplicates() {
        let mut hosts = list("foo[0-3],foo[0-3]");
        hosts.sort();
        assert_eq!(hosts.to_string(), "foo[0,0-1,1-2,2-3,3]");
        for (text, uniq) in [
            ("foo[5-6],foo[4-7]", "foo[4-7]"),
            ("[0-20],45,12,015", "[0-20,45,015]"),
            ("foo2,foo,bar10,foo1", "bar10,foo,foo[1-2]"),
            ("foo[10-11],foo[08-09]", "foo[08-11]"),
        ] {
            let mut hosts = list(text);
            hosts.uniq();
            assert_eq!(hosts.to_string(), uniq, "{text}");
        }
    }

    #[test]
    fn a_pushed_name_is_literal() {
        let mut hosts = Hostlist::new();
        for name in ["foo1", "foo2", "foo3", "fooi"] {
            hosts.push(name).unwrap();
        }
        assert_eq!(hosts.to_string(), "foo[1-3],fooi");
        assert_eq!(hosts.last().unwrap(), "fooi");
        for name in ["", "foo[1]", "a,b", "a b", "a\n"] {
            assert!(hosts.push(name).is_err(), "{name}");
        }
    }

    #[test]
    fn long_output_stays_within_the_limits_of_the_parser() {
        let mut hosts = list("n[0-1048575]");
        hosts.append(&list("n[1048576-2097151]"));
        assert_eq!(hosts.to_string(), "n[0-1048575,1048576-2097151]");
        let mut many = Hostlist::new();
        for _ in 0..=Hostlist::MAX_ITEMS {
            many.push("n1").unwrap();
        }
        assert_eq!(list(&many.to_string()), many);
    }

    fn names() -> impl Strategy<Value = Vec<String>> {
        let name = (
            prop::sample::select(vec!["a", "b-", ""]),
            prop::sample::select(vec!["", "0", "00"]),
            0u32..13,
            prop::sample::select(vec!["", "", "x"]),
        )
            .prop_map(|(prefix, zeros, number, suffix)| format!("{prefix}{zeros}{number}{suffix}"));
        prop::collection::vec(name, 0..40)
    }

    fn of(names: &[String]) -> Hostlist {
        let mut hosts = Hostlist::new();
        for name in names {
            hosts.push(name).unwrap();
        }
        hosts
    }

    proptest! {
        #[test]
        fn behaves_like_a_list_of_names(a in names(), b in names()) {
            let (x, y) = (of(&a), of(&b));
            prop_assert!(x.iter().eq(a.iter().cloned()));
            prop_assert_eq!(x.len(), a.len());
            prop_assert_eq!(&list(&x.to_string()), &x);
            for (i, name) in a.iter().enumerate() {
                prop_assert_eq!(x.nth(i), Some(name.clone()));
                prop_assert_eq!(x.find(name), a.iter().position(|n| n == name));
            }
            let mut both = x.clone();
            both.append(&y);
            prop_assert_eq!(&both, &of(&[a.clone(), b.clone()].concat()));
            let mut less = x.clone();
            let kept: Vec<_> = a.iter().filter(|n| !b.contains(n)).cloned().collect();
            prop_assert_eq!(less.delete(&y), a.len() - kept.len());
            prop_assert_eq!(less, of(&kept));
        }

        #[test]
        fn sorting_keeps_names_and_is_stable_when_repeated(a in names()) {
            let mut sorted = of(&a);
            sorted.sort();
            let mut expected = a.clone();
            expected.sort();
            let mut got: Vec<_> = sorted.iter().collect();
            let mut again = of(&got);
            again.sort();
            prop_assert_eq!(&again, &sorted);
            let mut uniq = sorted.clone();
            uniq.uniq();
            let mut unique = got.clone();
            unique.dedup();
            prop_assert_eq!(uniq, of(&unique));
            got.sort();
            prop_assert_eq!(got, expected);
        }
    }
}
