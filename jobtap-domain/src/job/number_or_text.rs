//! Input that is either a number or a string.
//!
//! Job ids and durations occur in both forms in JSON, and keys of tables (such as user ids) are
//! strings in both JSON and TOML.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A scalar of the input.
#[derive(Debug)]
pub(super) enum NumberOrText {
    Unsigned(u64),
    Negative(i64),
    Float(f64),
    Text(String),
}

impl fmt::Display for NumberOrText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(number) => number.fmt(f),
            Self::Negative(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for NumberOrText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;

        impl Visitor<'_> for Scalar {
            type Value = NumberOrText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a string")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<NumberOrText, E> {
                Ok(NumberOrText::Unsigned(number))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<NumberOrText, E> {
                Ok(u64::try_from(number)
                    .map_or(NumberOrText::Negative(number), NumberOrText::Unsigned))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<NumberOrText, E> {
                Ok(NumberOrText::Float(number))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<NumberOrText, E> {
                Ok(NumberOrText::Text(text.to_owned()))
            }
        }

        deserializer.deserialize_any(Scalar)
    }
}
