//! Reads the text form of a hostlist (RFC 29).
//!
//! Names are normalised while they are read: `node1[5-6]` is `node[15-16]`. A bracket followed by
//! more text has to be written out name by name, so its size is bounded.

use super::host_run::{HostRun, MAX_DIGITS, Numbers, digits, last_of_width, split_digits};
use super::hostlist::is_name_text;
use super::{Hostlist, HostlistError};
use std::str::FromStr;

/// The most digits of a number that is written out: keeps a short text from growing huge.
const MAX_WIDTH: usize = 64;

impl FromStr for Hostlist {
    type Err = HostlistError;

    /// Items are separated by commas, blanks or tabs; empty items are ignored.
    fn from_str(text: &str) -> Result<Self, HostlistError> {
        let mut reader = Reader { hosts: Self::new(), written_out: 0 };
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

struct Reader {
    hosts: Hostlist,
    /// Hosts that couldn't be stored as a range so far.
    written_out: u64,
}

impl Reader {
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
        self.written_out += last - first + 1;
        if self.written_out > Hostlist::MAX_RANGE || width > MAX_WIDTH {
            return Err(HostlistError::TooLarge(item.to_owned()));
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

    #[test]
    fn encodings() {
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
    fn oversized_text_is_refused_as_such() {
        let items = format!("n[{}1]", "1,".repeat(Hostlist::MAX_ITEMS));
        for text in [
            "foo[0-1048576]",
            "foo[0-1000000,0-100000]x",
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
        fn brackets_name_each_host_once_in_order(
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
