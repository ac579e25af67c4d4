//! Input that may be written as a number or as text. JSON has job ids and durations in both forms,
//! and table keys (a weight per user id) are text in both JSON and TOML.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A scalar as it stood in the input.
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
