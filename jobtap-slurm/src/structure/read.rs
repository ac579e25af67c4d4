//! Reads one of Slurm's structures into a type of the SDK.

use std::borrow::Cow;

use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::{Slot, Structure, Value};

/// Reads a structure. Fields that this version of Slurm doesn't have get their default values.
pub fn read<T: DeserializeOwned + Default>(structure: &dyn Structure) -> T {
    // An error is impossible: each field converts what the C structure can hold.
    T::deserialize(Whole(structure)).unwrap_or_default()
}

struct Whole<'a>(&'a dyn Structure);

impl<'de> Deserializer<'de> for Whole<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Fields { structure: self.0, next: 0 })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Fields<'a> {
    structure: &'a dyn Structure,
    next: usize,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some(slot) = self.structure.slots().get(self.next) else { return Ok(None) };
        self.next += 1;
        // Identify the field by its index, which serde's derived code accepts instead of the name: no name is compared.
        seed.deserialize((slot.index as u64).into_deserializer()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let last = self.next.saturating_sub(1);
        let value = self.structure.get(last);
        let unset = self.structure.slots().get(last).map_or(0, |slot: &Slot| slot.unset);
        seed.deserialize(Stored { value, unset })
    }
}

struct Stored<'a> {
    value: Value<'a>,
    unset: u64,
}

/// A number that is wider in C is truncated, so that `NO_VAL` becomes `NO_VAL16`.
macro_rules! numbers {
    ($($method:ident $visit:ident $width:ident;)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.value {
                Value::Number(number) => visitor.$visit(number as $width),
                _ => self.deserialize_any(visitor),
            }
        }
    )* };
}

impl<'de> Deserializer<'de> for Stored<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Text(None) => visitor.visit_none(),
            Value::Text(Some(Cow::Borrowed(text))) => visitor.visit_str(text),
            Value::Text(Some(Cow::Owned(text))) => visitor.visit_string(text),
            Value::Number(number) => visitor.visit_u64(number),
            Value::Texts(texts) => visitor.visit_seq(SeqDeserializer::new(texts.into_iter())),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::Number(number) if *number == self.unset => visitor.visit_none(),
            Value::Text(text) if text.as_ref().is_none_or(|text| text.is_empty()) => {
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.value != Value::Number(0))
    }

    /// Reads the environment, in which each line is a name and a value.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::Texts(lines) = self.value else { return self.deserialize_any(visitor) };
        let pair = |line: Cow<'_, str>| match line.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (line.into_owned(), String::new()),
        };
        visitor.visit_map(MapDeserializer::new(lines.into_iter().map(pair)))
    }

    numbers! {
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct struct enum identifier ignored_any
    }
}
