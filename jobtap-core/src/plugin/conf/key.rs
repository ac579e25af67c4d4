//! Keys of tables, which are always texts: what is none is read from the text.

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::access::Choice;
use super::error::{Names, ReadError};
use super::read::by;

/// A key of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key<'de>(pub(super) &'de str);

impl<'de> Key<'de> {
    fn number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        // Rust's floats also parse from `inf` and `nan`.
        let numeric = self.0.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        if let Ok(unsigned) = self.0.parse() {
            visitor.visit_u64(unsigned)
        } else if let Ok(signed) = self.0.parse() {
            visitor.visit_i64(signed)
        } else if let Some(float) = self.0.parse().ok().filter(|_| numeric) {
            visitor.visit_f64(float)
        } else {
            Err(ReadError::invalid_type(Unexpected::Str(self.0), &visitor))
        }
    }
}

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = ReadError;

    by! {
        number: deserialize_i8(), deserialize_i16(), deserialize_i32(), deserialize_i64(),
            deserialize_i128(), deserialize_u8(), deserialize_u16(), deserialize_u32(),
            deserialize_u64(), deserialize_u128(), deserialize_f32(), deserialize_f64();
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0.parse() {
            Ok(b) => visitor.visit_bool(b),
            Err(_) => Err(ReadError::invalid_type(Unexpected::Str(self.0), &visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: Names,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_enum(Choice::new(self.0, None))
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}
