//! An ordered list of host names (RFC 29), stored as runs such as `node[0-9999]`, and its text form.

use super::HostlistError;
use super::host_run::{
    HostRun, MAX_DIGITS, NameSet, Numbers, Segment, digits, last_of_width, sorted_runs,
    split_digits,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

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
    /// The maximum number of hosts in one range of the text form (RFC 29).
    pub const MAX_RANGE: u64 = 1_048_576;
    /// The maximum number of items in one bracket of the text form (RFC 29).
    pub const MAX_ITEMS: usize = 10_240;

    /// The maximum number of hosts that ranges may name which have text after their numbers, as in `n[1-9]-ib`: each of
    /// them takes memory of its own.
    pub const MAX_APART: usize = 65_536;

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

    /// The index of the first host with exactly this name: `i[0-5]` has no `i00`.
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

    /// Appends one host. The name is taken literally.
    ///
    /// # Errors
    /// [`HostlistError::Name`] if the name is empty or has brackets, separators or control characters.
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

    /// Sorts and removes duplicates.
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

/// Whether `text` has no white space and no control characters.
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

/// Writes runs of one prefix, within the parser's limits.
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

/// Splits a run into ranges that the parser accepts.
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

/// The maximum number of digits in hosts that are written out one by one, so that a short text cannot
/// expand into a huge list.
const MAX_WIDTH: usize = 64;

impl FromStr for Hostlist {
    type Err = HostlistError;

    /// Items are separated by commas, blanks or tabs; empty items are ignored.
    fn from_str(text: &str) -> Result<Self, HostlistError> {
        let mut apart = Self::MAX_APART;
        Self::parse_within(text, &mut apart)
    }
}

impl Hostlist {
    /// Parses a list that may have so many hosts that are [apart](Self::MAX_APART), and subtracts those that it has.
    /// What reads many lists of one request counts them together.
    #[doc(hidden)]
    pub fn parse_within(text: &str, apart: &mut usize) -> Result<Self, HostlistError> {
        let mut reader = Reader { hosts: Self::new(), apart };
        let mut rest = text;
        loop {
            rest = rest.trim_start_matches(is_separator);
            if rest.is_empty() {
                return Ok(reader.hosts);
            }
            let mut inside = false;
            let end = rest.find(|c: char| {
                inside = (inside || c == '[') && c != ']';
                !inside && is_separator(c)
            });
            let (item, tail) = rest.split_at(end.unwrap_or(rest.len()));
            reader.item(item)?;
            rest = tail;
        }
    }
}

fn is_separator(c: char) -> bool {
    matches!(c, ',' | ' ' | '\t')
}

struct Reader<'a> {
    hosts: Hostlist,
    /// Number of further hosts that may not be stored as a range.
    apart: &'a mut usize,
}

impl Reader<'_> {
    fn item(&mut self, item: &str) -> Result<(), HostlistError> {
        let brackets = || HostlistError::Brackets(item.to_owned());
        let Some((prefix, rest)) = item.split_once('[') else {
            return if item.contains(']') { Err(brackets()) } else { self.hosts.push(item) };
        };
        let (list, suffix) = rest.split_once(']').ok_or_else(brackets)?;
        if prefix.contains(']') || list.contains('[') || suffix.contains(['[', ']']) {
            return Err(brackets());
        }
        if !is_name_text(prefix) || !is_name_text(suffix) {
            return Err(HostlistError::Name(item.to_owned()));
        }
        for (i, range) in list.split(',').enumerate() {
            if i >= Hostlist::MAX_ITEMS {
                return Err(HostlistError::TooLarge(item.to_owned()));
            }
            let numbers = parse_range(item, range)?;
            if suffix.is_empty() {
                self.numbered(item, prefix, numbers)?;
            } else {
                self.write_out(item, prefix, numbers, suffix)?;
            }
        }
        Ok(())
    }

    /// Appends `prefix` with each number. Digits at the end of the prefix belong to the number.
    fn numbered(
        &mut self,
        item: &str,
        prefix: &str,
        numbers: Numbers,
    ) -> Result<(), HostlistError> {
        let (base, lead) = split_digits(prefix);
        let longest = numbers.width.max(digits(numbers.last));
        if lead.len().saturating_add(longest) > MAX_DIGITS {
            return self.write_out(item, prefix, numbers, "");
        }
        if lead.is_empty() {
            self.hosts.push_run(HostRun { prefix: base.into(), numbers: Some(numbers) });
            return Ok(());
        }
        let lead_value: u64 = lead.parse().unwrap_or_default();
        let mut first = numbers.first;
        while first <= numbers.last {
            let width = numbers.width.max(digits(first));
            let ceiling = last_of_width(width);
            let last = numbers.last.min(ceiling);
            // Both parts together have at most MAX_DIGITS digits.
            let shifted = lead_value * (ceiling + 1);
            self.hosts.push_run(HostRun {
                prefix: base.into(),
                numbers: Some(Numbers {
                    first: shifted + first,
                    last: shifted + last,
                    width: lead.len() + width,
                }),
            });
            first = last + 1;
        }
        Ok(())
    }

    fn write_out(
        &mut self,
        item: &str,
        prefix: &str,
        numbers: Numbers,
        suffix: &str,
    ) -> Result<(), HostlistError> {
        let Numbers { first, last, width } = numbers;
        let too_large = || HostlistError::TooLarge(item.to_owned());
        let count = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
        *self.apart = self.apart.checked_sub(count).ok_or_else(too_large)?;
        if width > MAX_WIDTH {
            return Err(too_large());
        }
        for number in first..=last {
            let name = format!("{prefix}{number:0width$}{suffix}");
            self.hosts.push_run(HostRun::of_name(&name));
        }
        Ok(())
    }
}

fn parse_range(item: &str, range: &str) -> Result<Numbers, HostlistError> {
    let malformed = || HostlistError::Range { item: item.to_owned(), range: range.to_owned() };
    let (low, high) = range.split_once('-').unwrap_or((range, range));
    for text in [low, high] {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed());
        }
    }
    let (Ok(first), Ok(last)) = (low.parse::<u64>(), high.parse::<u64>()) else {
        return Err(HostlistError::TooLarge(item.to_owned()));
    };
    if last < first {
        return Err(malformed());
    }
    if last - first >= Hostlist::MAX_RANGE {
        return Err(HostlistError::TooLarge(item.to_owned()));
    }
    Ok(Numbers { first, last, width: low.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str) -> Hostlist {
        text.parse().unwrap()
    }

    /// Thirteen bytes would take a hundred megabytes.
    #[test]
    fn hosts_that_take_memory_of_their_own_are_bounded() {
        assert_eq!(list("n[1-65536]x").len(), Hostlist::MAX_APART);
        assert_eq!(list("n[0-1048575]").len(), 1_048_576);
        for text in ["n[0-65536]x", "n[1-65536]x,m[1-1]x", "n9999999999999999[0-65536]"] {
            let refused = text.parse::<Hostlist>();
            assert!(matches!(refused, Err(HostlistError::TooLarge(_))), "{text}: {refused:?}");
        }
        let mut apart = 5;
        assert!(Hostlist::parse_within("a[1-3]x,b,c[1-100]", &mut apart).is_ok());
        assert_eq!(apart, 2);
        assert!(Hostlist::parse_within("a[1-3]x", &mut apart).is_err());
    }

    #[test]
    fn find_compares_exact_names() {
        assert_eq!(list("i[0-5]").find("i00"), None);
        assert_eq!(list("i[00-05]").find("i04"), Some(4));
        assert_eq!(list("f00[7-8,10]").find("f0010"), Some(2));
        assert_eq!(list("[0-5]").find("3"), Some(3));
        assert_eq!(list("a,b,a").find("a"), Some(0));
        assert_eq!(list("foo[1-3]-ib").find("foo2-ib"), Some(1));
        assert_eq!(list("foo[1-3]").find("foo"), None);
    }

    #[test]
    fn serializes_as_a_json_string() {
        let hosts: Hostlist = serde_json::from_str("\"n[1-3,7]\"").unwrap();
        assert_eq!(hosts.iter().collect::<Vec<_>>(), ["n1", "n2", "n3", "n7"]);
        assert_eq!(serde_json::to_string(&hosts).unwrap(), "\"n[1-3,7]\"");
        assert!(serde_json::from_str::<Hostlist>("\"n[3-1]\"").is_err());
        assert!(serde_json::from_str::<Hostlist>("7").is_err());
    }

    #[test]
    fn delete_removes_every_occurrence() {
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
    fn uniq_sorts_and_removes_duplicates() {
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

    fn hostlist(names: &[String]) -> Hostlist {
        let mut hosts = Hostlist::new();
        for name in names {
            hosts.push(name).unwrap();
        }
        hosts
    }

    proptest! {
        #[test]
        fn agrees_with_a_list_of_names(a in names(), b in names()) {
            let (x, y) = (hostlist(&a), hostlist(&b));
            prop_assert!(x.iter().eq(a.iter().cloned()));
            prop_assert_eq!(x.len(), a.len());
            prop_assert_eq!(&list(&x.to_string()), &x);
            for (i, name) in a.iter().enumerate() {
                prop_assert_eq!(x.nth(i), Some(name.clone()));
                prop_assert_eq!(x.find(name), a.iter().position(|n| n == name));
            }
            let mut both = x.clone();
            both.append(&y);
            prop_assert_eq!(&both, &hostlist(&[a.clone(), b.clone()].concat()));
            let mut less = x.clone();
            let kept: Vec<_> = a.iter().filter(|n| !b.contains(n)).cloned().collect();
            prop_assert_eq!(less.delete(&y), a.len() - kept.len());
            prop_assert_eq!(less, hostlist(&kept));
        }

        #[test]
        fn sorting_keeps_names_and_is_stable_when_repeated(a in names()) {
            let mut sorted = hostlist(&a);
            sorted.sort();
            let mut expected = a.clone();
            expected.sort();
            let mut got: Vec<_> = sorted.iter().collect();
            let mut again = hostlist(&got);
            again.sort();
            prop_assert_eq!(&again, &sorted);
            let mut uniq = sorted.clone();
            uniq.uniq();
            let mut unique = got.clone();
            unique.dedup();
            prop_assert_eq!(uniq, hostlist(&unique));
            got.sort();
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn writes_the_shortest_form() {
        for (text, encoded) in [
            ("", ""),
            (" ,\t,", ""),
            ("foo1,fooi,foo2,foo3", "foo1,fooi,foo[2-3]"),
            ("foo-1a-2,foo-1a-3", "foo-1a-[2-3]"),
            (",1,2,3,4,5,9,", "[1-5,9]"),
            ("[00-03]p", "00p,01p,02p,03p"),
            ("[00-2]", "[00-02]"),
            ("foo[1,3]-bar", "foo1-bar,foo3-bar"),
            ("foo9,foo10", "foo[9-10]"),
            ("foo09,foo10", "foo[09-10]"),
            ("foo009,foo10", "foo[009,10]"),
            ("foo01,foo1", "foo[01,1]"),
            ("foo999,foo1000", "foo[999-1000]"),
            ("foo12 foo[4,1-2]", "foo[12,4,1-2]"),
            ("foo1,foo1,foo1", "foo[1,1,1]"),
            ("foo[1,1,2,1]", "foo[1,1-2,1]"),
            ("14636", "14636"),
            ("[005,4,11-13]", "[005,4,11-13]"),
            ("foo[3-3]", "foo3"),
            ("foo[0-1048575]", "foo[0-1048575]"),
        ] {
            assert_eq!(list(text).to_string(), encoded, "{text}");
        }
    }

    #[test]
    fn a_name_is_the_same_however_it_is_written() {
        assert_eq!(list("foo1[5-6]"), list("foo15,foo16"));
        assert_eq!(list("foo1[8-11]").to_string(), "foo[18-19,110-111]");
        assert_eq!(list("foo[1-2]-bar2"), list("foo1-bar2,foo2-bar2"));
        assert_eq!(list("f00[7-8,10]").to_string(), "f[007-008,0010]");
        let long = "n123456789012345[9998-10001]";
        assert_eq!(
            list(long).to_string(),
            "n1234567890123459998,n1234567890123459999,\
             n12345678901234510000,n12345678901234510001"
        );
    }

    #[test]
    fn malformed_text_is_refused() {
        for text in [
            "[]",
            "foo[]",
            "foo[",
            "foo]",
            "foo[1,3",
            "foo[[1,3]",
            "foo[1,]",
            "foo[x-y]",
            "foo[3-1]",
            "foo[-1]",
            "foo[0-1,2--5]",
            "foo[1-]",
            "foo[ 1]",
            "foo[1][2]",
            "foo\n",
            "fo\u{7}o",
            "foo0-10]",
        ] {
            let error = text.parse::<Hostlist>().unwrap_err();
            assert!(!matches!(error, HostlistError::TooLarge(_)), "{text}");
        }
    }

    #[test]
    fn oversized_text_is_too_large() {
        let items = format!("n[{}1]", "1,".repeat(Hostlist::MAX_ITEMS));
        for text in [
            "foo[0-1048576]",
            "foo[0-1000000,0-100000]x",
            // The names of all ranges are counted, even those of a single number.
            "foo[1,2,0-1048574]x",
            "foo[99999999999999999999]",
            &format!("foo[{}1]x", "0".repeat(100)),
            &items,
        ] {
            assert!(
                matches!(text.parse::<Hostlist>(), Err(HostlistError::TooLarge(_))),
                "{}",
                text.get(..20.min(text.len())).unwrap()
            );
        }
    }

    proptest! {
        #[test]
        fn accepted_text_has_one_canonical_form(
            text in "\\PC*|[a-b0-2,\\[\\] -]{0,30}|a?[0-9]{0,20}\\[[0-9]{1,20}(-[0-9]{1,4})?\\]b?",
        ) {
            if let Ok(hosts) = text.parse::<Hostlist>()
                && hosts.len() < 10_000
            {
                prop_assert_eq!(list(&hosts.to_string()), hosts);
            }
        }

        #[test]
        fn brackets_expand_in_order(
            prefix in "[a-c]?[0-9]{0,3}",
            low in "0{0,2}[0-9]{1,3}",
            count in 0u64..200,
            suffix in "(|x|-b[0-9])",
        ) {
            let first: u64 = low.parse().unwrap();
            let width = low.len();
            let text = format!("{prefix}[{low}-{}]{suffix}", first + count);
            let expected: Vec<_> = (first..=first + count)
                .map(|n| format!("{prefix}{n:0width$}{suffix}"))
                .collect();
            prop_assert_eq!(list(&text).iter().collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(list(&text), list(&expected.join(",")));
        }
    }
}
