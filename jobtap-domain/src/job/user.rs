//! Numeric user ids. Names of users are looked up by the command line and the daemon, which have
//! access to the user database.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::number_or_text::NumberOrText;

/// A numeric user id. Deserialized from an integer or from a string of digits, so that it can be the
/// key of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Uid(pub u32);

impl Uid {
    /// The user with this number.
    #[must_use]
    pub const fn new(uid: u32) -> Self {
        Self(uid)
    }

    /// The number.
    #[must_use]
    pub const fn as_u32(self) -> u32 {
        self.0
    }
}

impl From<u32> for Uid {
    fn from(uid: u32) -> Self {
        Self(uid)
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Uid {
    type Err = InvalidUid;

    fn from_str(text: &str) -> Result<Self, InvalidUid> {
        let invalid = || InvalidUid(text.to_owned());
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        text.parse().map(Self).map_err(|_| invalid())
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let scalar = NumberOrText::deserialize(deserializer)?;
        let uid = match &scalar {
            NumberOrText::Unsigned(number) => u32::try_from(*number).ok().map(Self),
            NumberOrText::Text(text) => text.parse().ok(),
            _ => None,
        };
        uid.ok_or_else(|| de::Error::custom(InvalidUid(scalar.to_string())))
    }
}

/// A text that is not a numeric user id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid user id `{0}`: expected a number from 0 to 4294967295")]
pub struct InvalidUid(pub String);

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_table_can_have_users_as_keys() {
        let weights: HashMap<Uid, f64> = serde_json::from_str(r#"{"1001":2.0}"#).unwrap();
        assert_eq!(weights[&Uid(1001)], 2.0);
    }

    #[test]
    fn refuses_invalid_user_ids() {
        for text in ["-1", "4294967296", "1.5", "1.0", "\"root\"", "\"\"", "\"+1\"", "null"] {
            assert!(serde_json::from_str::<Uid>(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_and_json_round_trip(uid: u32) {
            prop_assert_eq!(Uid(uid).to_string().parse(), Ok(Uid(uid)));
            let json = serde_json::to_string(&Uid(uid)).unwrap();
            prop_assert_eq!(serde_json::from_str::<Uid>(&json).unwrap(), Uid(uid));
        }

        #[test]
        fn text_is_parsed_or_quoted_in_the_error(text in "\\PC*|[-+]?[0-9]{1,11}") {
            match text.parse::<Uid>() {
                Ok(uid) => prop_assert_eq!(text.trim_start_matches('0').parse().unwrap_or(0), uid.as_u32()),
                Err(InvalidUid(named)) => prop_assert_eq!(named, text),
            }
        }
    }
}
