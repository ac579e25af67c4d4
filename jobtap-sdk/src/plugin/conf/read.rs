//! The deserializer of configurations: it refuses unknown keys, and names the place of each error.
//!
//! A derived `Deserialize` reads the value of an unknown key with `deserialize_ignored_any`. This
//! deserializer fails there, so that unknown keys are refused in every struct, without
//! `deny_unknown_fields`.

use serde::de::value::MapDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Map, Number, Value, map};

use super::error::{Names, ReadError};
use crate::job::Fsd;

/// What happens to keys that a struct doesn't have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnknownKeys {
    /// They are errors.
    Refused,
    /// They are ignored: they belong to others.
    Accepted,
}

/// Reads `C` from a value.
pub(super) fn read<C: DeserializeOwned>(
    value: &Value,
    unknown_keys: UnknownKeys,
) -> Result<C, ReadError> {
    C::deserialize(Reader::new(value, unknown_keys))
}

/// Whether `C` lacks the key at this path, as far as the types along the path show.
pub(super) fn is_unknown_key<C: DeserializeOwned>(path: &[&str]) -> bool {
    let alone = path.iter().rev().fold(Value::Null, |value, key| {
        Value::Object([((*key).to_owned(), value)].into_iter().collect())
    });
    let fault = read::<C>(&alone, UnknownKeys::Refused).err();
    fault.is_some_and(|error| error.is_unknown_key(path))
}

/// A place in the configuration, to be read from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'de> {
    value: &'de Value,
    unknown_keys: UnknownKeys,
    /// The keys of the struct that contains the value, when the value's own key is not one of them.
    unknown_in: Option<Names>,
}

impl<'de> Reader<'de> {
    fn new(value: &'de Value, unknown_keys: UnknownKeys) -> Self {
        Self { value, unknown_keys, unknown_in: None }
    }

    /// The value of a key that is not one of `fields`.
    fn unknown(self, fields: Names) -> Self {
        Self { unknown_in: Some(fields), ..self }
    }

    fn mismatch(self, expected: &dyn Expected) -> ReadError {
        let unexpected = match self.value {
            Value::Null => Unexpected::Unit,
            Value::Bool(b) => Unexpected::Bool(*b),
            Value::Number(number) => unexpected_number(number),
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        };
        ReadError::invalid_type(unexpected, expected)
    }

    fn number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value {
            Value::Number(number) => visit_number(number, visitor),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value {
            Value::String(text) => visitor.visit_borrowed_str(text),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    /// Reads an array. It is an error when the type doesn't take all elements.
    fn array<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let Value::Array(elements) = self.value else {
            return Err(self.mismatch(&visitor));
        };
        let mut array = Array::new(elements, self.unknown_keys);
        let value = visitor.visit_seq(&mut array)?;
        array.finish(value)
    }

    /// Reads a table, which belongs to a struct when there are `fields`.
    fn table<V: Visitor<'de>>(
        self,
        fields: Option<Names>,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let Value::Object(entries) = self.value else {
            return Err(self.mismatch(&visitor));
        };
        let mut table = Table::new(entries, fields, self.unknown_keys);
        let value = visitor.visit_map(&mut table)?;
        table.finish(value)
    }

    /// Reads a [`std::time::Duration`] as people write one: a number of seconds, or a Flux standard
    /// duration.
    fn duration<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let duration = Fsd::deserialize(self)?;
        let parts = duration.to_duration().ok_or_else(|| {
            ReadError::custom(format_args!("{duration} is too long for a duration"))
        })?;
        let parts = [("secs", parts.as_secs()), ("nanos", parts.subsec_nanos().into())];
        visitor.visit_map(MapDeserializer::new(parts.into_iter()))
    }

    fn choice<V: Visitor<'de>>(self, variants: Names, visitor: V) -> Result<V::Value, ReadError> {
        match self.value {
            Value::String(name) => visitor.visit_enum(Choice::new(name, None)),
            Value::Object(entries) if entries.len() == 1 => {
                let Some((name, payload)) = entries.iter().next() else {
                    return Err(self.mismatch(&visitor));
                };
                let payload = Reader::new(payload, self.unknown_keys);
                visitor.visit_enum(Choice::new(name, Some(payload)))
            }
            Value::Object(entries) => Err(ReadError::custom(format_args!(
                "expected just one of the keys {}, found {}",
                variants.join(", "),
                entries.len()
            ))),
            _ => Err(self.mismatch(&format!("one of {}", variants.join(", ")).as_str())),
        }
    }
}

/// The fields of a [`std::time::Duration`] in serde.
const SECS_NANOS: Names = &["secs", "nanos"];

fn unexpected_number(number: &Number) -> Unexpected<'static> {
    if let Some(unsigned) = number.as_u64() {
        Unexpected::Unsigned(unsigned)
    } else if let Some(signed) = number.as_i64() {
        Unexpected::Signed(signed)
    } else if let Some(float) = number.as_f64() {
        Unexpected::Float(float)
    } else {
        Unexpected::Other("number")
    }
}

fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, ReadError> {
    if let Some(unsigned) = number.as_u64() {
        visitor.visit_u64(unsigned)
    } else if let Some(signed) = number.as_i64() {
        visitor.visit_i64(signed)
    } else if let Some(float) = number.as_f64() {
        visitor.visit_f64(float)
    } else {
        Err(ReadError::invalid_type(unexpected_number(number), &visitor))
    }
}

/// Writes the methods of a deserializer that delegate to one of its own methods.
macro_rules! by {
    ($($own:ident: $($method:ident($($arg:ident: $ty:ty),*)),+;)*) => {
        $($(
            fn $method<V: Visitor<'de>>(
                self,
                $($arg: $ty,)*
                visitor: V,
            ) -> Result<V::Value, ReadError> {
                $(let _ = $arg;)*
                self.$own(visitor)
            }
        )+)*
    };
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = ReadError;

    by! {
        number: deserialize_i8(), deserialize_i16(), deserialize_i32(), deserialize_i64(),
            deserialize_i128(), deserialize_u8(), deserialize_u16(), deserialize_u32(),
            deserialize_u64(), deserialize_u128(), deserialize_f32(), deserialize_f64();
        text: deserialize_char(), deserialize_str(), deserialize_string(),
            deserialize_identifier();
        unit: deserialize_unit(), deserialize_unit_struct(name: &'static str);
        array: deserialize_seq(), deserialize_tuple(len: usize),
            deserialize_tuple_struct(name: &'static str, len: usize);
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(b) => visitor.visit_bool(*b),
            Value::Number(number) => visit_number(number, visitor),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(_) => self.array(visitor),
            Value::Object(_) => self.table(None, visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value {
            Value::Bool(b) => visitor.visit_bool(*b),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value {
            Value::Array(_) => self.array(visitor),
            _ => self.text(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.table(None, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: Names,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.value {
            Value::Number(_) | Value::String(_) if name == "Duration" && fields == SECS_NANOS => {
                self.duration(visitor)
            }
            _ => self.table(Some(fields), visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: Names,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.choice(variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.unknown_in {
            Some(fields) => Err(ReadError::unknown_key(fields)),
            None => visitor.visit_unit(),
        }
    }
}

/// The elements of an array.
struct Array<'de> {
    elements: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
    len: usize,
    unknown_keys: UnknownKeys,
}

impl<'de> Array<'de> {
    fn new(elements: &'de [Value], unknown_keys: UnknownKeys) -> Self {
        Self { elements: elements.iter().enumerate(), len: elements.len(), unknown_keys }
    }

    /// Returns the value if the type took all elements. A tuple, and a visitor of an author's own, may stop
    /// before the end.
    fn finish<T>(&self, value: T) -> Result<T, ReadError> {
        match self.elements.len() {
            0 => Ok(value),
            left => {
                let taken = self.len.saturating_sub(left);
                let expected = match taken {
                    1 => "1 element".to_owned(),
                    _ => format!("{taken} elements"),
                };
                Err(ReadError::invalid_length(self.len, &expected.as_str()))
            }
        }
    }
}

impl<'de> SeqAccess<'de> for Array<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        let Some((index, element)) = self.elements.next() else {
            return Ok(None);
        };
        seed.deserialize(Reader::new(element, self.unknown_keys))
            .map(Some)
            .map_err(|error| error.at(index))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.elements.len())
    }
}

/// The entries of a table, which belongs to a struct when there are `fields`.
struct Table<'de> {
    entries: map::Iter<'de>,
    value: Option<(&'de str, &'de Value)>,
    fields: Option<Names>,
    unknown_keys: UnknownKeys,
}

impl<'de> Table<'de> {
    fn new(
        entries: &'de Map<String, Value>,
        fields: Option<Names>,
        unknown_keys: UnknownKeys,
    ) -> Self {
        Self { entries: entries.iter(), value: None, fields, unknown_keys }
    }

    /// Returns the value if the type took all entries. A visitor of an author's own may stop before the end.
    fn finish<T>(&self, value: T) -> Result<T, ReadError> {
        match self.entries.clone().next() {
            None => Ok(value),
            Some((key, _)) => Err(ReadError::custom("nothing reads this key").under(key)),
        }
    }
}

impl<'de> MapAccess<'de> for Table<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let Some((key, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some((key, value));
        seed.deserialize(Key(key)).map(Some).map_err(|error| error.of_key(key))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ReadError> {
        let Some((key, value)) = self.value.take() else {
            return Err(ReadError::custom("a value was read before its key"));
        };
        let mut reader = Reader::new(value, self.unknown_keys);
        // Not an error yet, since a `Deserialize` written by hand may read the value. It becomes one when
        // the type ignores the value.
        if let (Some(fields), UnknownKeys::Refused) = (self.fields, self.unknown_keys)
            && !fields.contains(&key)
        {
            reader = reader.unknown(fields);
        }
        seed.deserialize(reader).map_err(|error| error.under(key))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// A variant of an enum, written as its name or as a table with its name as the only key.
struct Choice<'de> {
    name: &'de str,
    payload: Option<Reader<'de>>,
}

impl<'de> Choice<'de> {
    fn new(name: &'de str, payload: Option<Reader<'de>>) -> Self {
        Self { name, payload }
    }

    fn payload<T>(
        self,
        read: impl FnOnce(Reader<'de>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let name = self.name;
        match self.payload {
            Some(payload) => read(payload).map_err(|error| error.under(name)),
            None => {
                Err(ReadError::custom(format_args!("\"{name}\" needs a value: {{ {name} = .. }}")))
            }
        }
    }
}

impl<'de> EnumAccess<'de> for Choice<'de> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), ReadError> {
        let variant = seed.deserialize(Key(self.name)).map_err(|error| {
            if self.payload.is_some() { error.of_key(self.name) } else { error }
        })?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'de> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        match self.payload {
            None => Ok(()),
            Some(payload) => Err(payload.mismatch(&"the name alone").under(self.name)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ReadError> {
        self.payload(|payload| seed.deserialize(payload))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, ReadError> {
        self.payload(|payload| payload.array(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: Names,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.payload(|payload| payload.table(Some(fields), visitor))
    }
}

/// A key of a table. Keys are strings; a key of another type is parsed from the string.
#[derive(Debug, Clone, Copy)]
struct Key<'de>(&'de str);

impl<'de> Key<'de> {
    fn number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        // Rust parses `inf` and `nan` as floats too, which are not numbers in a configuration.
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
