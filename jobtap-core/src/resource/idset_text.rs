//! The text forms of an idset (RFC 22). The parser is stricter than Flux's, which lets empty items
//! pass and wraps large ids: both hide a mistake that would end up on the wrong nodes.

use super::{Idset, IdsetError};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

impl Idset {
    /// The form with brackets when the set has more than one id: `[1-3,7]`, but `2`. The empty set
    /// is the empty text.
    #[must_use]
    pub fn brackets(&self) -> String {
        if self.first() == self.last() { self.to_string() } else { format!("[{self}]") }
    }

    /// Every id on its own: `7,8,9`. Its length grows with the number of ids.
    #[must_use]
    pub fn plain(&self) -> String {
        let ids: Vec<String> = self.iter().map(|id| id.to_string()).collect();
        ids.join(",")
    }
}

impl fmt::Display for Idset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, run) in self.runs.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            if run.first == run.last {
                write!(f, "{comma}{}", run.first)?;
            } else {
                write!(f, "{comma}{}-{}", run.first, run.last)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Idset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Idset({self})")
    }
}

impl FromStr for Idset {
    type Err = IdsetError;

    fn from_str(text: &str) -> Result<Self, IdsetError> {
        let list = match text.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or(IdsetError::Brackets)?,
            None => text,
        };
        if list.contains(['[', ']']) {
            return Err(IdsetError::Brackets);
        }
        let mut set = Self::new();
        if list.is_empty() {
            return Ok(set);
        }
        for item in list.split(',') {
            let (first, last) = parse_item(item)?;
            if set.last().is_some_and(|highest| first <= highest) {
                return Err(IdsetError::Order(item.to_owned()));
            }
            set.push_run(first, last);
        }
        Ok(set)
    }
}

fn parse_item(item: &str) -> Result<(u32, u32), IdsetError> {
    let Some((low, high)) = item.split_once('-') else {
        let id = parse_id(item, item)?;
        return Ok((id, id));
    };
    let (first, last) = (parse_id(low, item)?, parse_id(high, item)?);
    if first < last { Ok((first, last)) } else { Err(IdsetError::Order(item.to_owned())) }
}

fn parse_id(digits: &str, item: &str) -> Result<u32, IdsetError> {
    let well_formed = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    if !well_formed {
        return Err(IdsetError::Item(item.to_owned()));
    }
    match digits.parse() {
        Ok(id) if id <= Idset::MAX_ID => Ok(id),
        _ => Err(IdsetError::TooLarge),
    }
}

impl Serialize for Idset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Idset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(text: &str) -> Idset {
        text.parse().unwrap()
    }

    #[test]
    fn canonical_forms() {
        for (text, canonical, len) in [
            ("", "", 0),
            ("[]", "", 0),
            ("2", "2", 1),
            ("[2]", "2", 1),
            ("2,3,4,5", "2-5", 4),
            ("7-9", "7-9", 3),
            ("[7-9]", "7-9", 3),
            ("1,7-9,16", "1,7-9,16", 5),
            ("1-3,7-9,14,16,18-19", "1-3,7-9,14,16,18-19", 10),
            ("2,1024", "2,1024", 2),
            ("1,2-1024", "1-1024", 1024),
            ("1048576", "1048576", 1),
            ("0-2147483647", "0-2147483647", 1 << 31),
        ] {
            let ids = set(text);
            assert_eq!(ids.to_string(), canonical, "{text}");
            assert_eq!(ids.len(), len, "{text}");
        }
        assert_eq!(set("1,7-9,16").first(), Some(1));
        assert_eq!(set("1,7-9,16").last(), Some(16));
    }

    #[test]
    fn bracketed_and_plain_forms() {
        assert_eq!(set("").brackets(), "");
        assert_eq!(set("2").brackets(), "2");
        assert_eq!(set("2-3").brackets(), "[2-3]");
        assert_eq!(set("7-9").plain(), "7,8,9");
        assert_eq!(format!("{:?}", set("7-9")), "Idset(7-9)");
    }

    #[test]
    fn malformed_text_is_refused() {
        for text in [
            "4.2", "x", "01,2", "00", "3,2", "3-0", "5,1-3", "1-2,2-3", "2-2", "2,2,2,2", "0-",
            "-5", "+1", "[0-]", "[-5]", "[0 0]", "[[0]]", "[[0,2]", "[0,2]]", "[0,2", "0,2]",
            "0,[2", "0]2", "1-2x", " 1", "1 ", "1, 2", "1,,2", ",1", "1,", ",", "[,]", "[", "]",
            "1-2-3", "٣",
        ] {
            assert!(text.parse::<Idset>().is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn errors_name_the_item() {
        let message = |text: &str| text.parse::<Idset>().unwrap_err().to_string();
        assert_eq!(message("1,x-y"), "error parsing range 'x-y'");
        assert_eq!(message("1,,2"), "error parsing range ''");
        assert_eq!(message("5,1-3"), "range '1-3' is out of order");
        assert_eq!(message("[0,2"), "mismatched or nested brackets");
        for large in ["2147483648", "4294967296", "99999999999999999999999"] {
            assert_eq!(large.parse::<Idset>(), Err(IdsetError::TooLarge));
        }
        assert_eq!(message("2147483648"), "set universe size would exceed maximum");
    }

    #[test]
    fn travels_as_a_json_string() {
        let ids: Idset = serde_json::from_str("\"[0-3,9]\"").unwrap();
        assert_eq!(serde_json::to_string(&ids).unwrap(), "\"0-3,9\"");
        assert!(serde_json::from_str::<Idset>("\"3-1\"").is_err());
    }

    proptest! {
        #[test]
        fn every_form_reads_back(ids in prop::collection::btree_set(0u32..200, 0..60)) {
            let ids: Idset = ids.into_iter().collect();
            prop_assert_eq!(&set(&ids.to_string()), &ids);
            prop_assert_eq!(&set(&ids.brackets()), &ids);
            prop_assert_eq!(&set(&ids.plain()), &ids);
        }

        #[test]
        fn accepted_text_has_one_canonical_form(text in "\\PC*|[0-9,\\[\\]-]{0,24}") {
            if let Ok(ids) = text.parse::<Idset>() {
                prop_assert_eq!(set(&ids.to_string()), ids);
            }
        }
    }
}
