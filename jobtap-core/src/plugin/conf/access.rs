//! The insides of arrays, tables and enums, handed on one by one; each adds its place to the errors
//! that come back through it.

use serde::de::{DeserializeSeed, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde_json::{Map, Value, map};

use super::error::{Names, ReadError};
use super::key::Key;
use super::read::{Reader, Strays};

/// The elements of an array.
pub(super) struct Array<'de> {
    elements: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
    len: usize,
    strays: Strays,
}

impl<'de> Array<'de> {
    pub(super) fn new(elements: &'de [Value], strays: Strays) -> Self {
        Self { elements: elements.iter().enumerate(), len: elements.len(), strays }
    }

    /// The value, when it took all elements.
    pub(super) fn finish<T>(&self, value: T) -> Result<T, ReadError> {
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
        seed.deserialize(Reader::new(element, self.strays))
            .map(Some)
            .map_err(|error| error.at(index))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.elements.len())
    }
}

/// The entries of a table; of a struct, when it has fields.
pub(super) struct Table<'de> {
    entries: map::Iter<'de>,
    value: Option<(&'de str, &'de Value)>,
    fields: Option<Names>,
    strays: Strays,
}

impl<'de> Table<'de> {
    pub(super) fn new(
        entries: &'de Map<String, Value>,
        fields: Option<Names>,
        strays: Strays,
    ) -> Self {
        Self { entries: entries.iter(), value: None, fields, strays }
    }

    /// The value, when it took all entries.
    pub(super) fn finish<T>(&self, value: T) -> Result<T, ReadError> {
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
        let mut reader = Reader::new(value, self.strays);
        if let (Some(fields), Strays::Refused) = (self.fields, self.strays)
            && !fields.contains(&key)
        {
            reader = reader.stray(fields);
        }
        seed.deserialize(reader).map_err(|error| error.under(key))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// A variant of an enum: its name alone, or the one key of a table.
pub(super) struct Choice<'de> {
    name: &'de str,
    payload: Option<Reader<'de>>,
}

impl<'de> Choice<'de> {
    pub(super) fn new(name: &'de str, payload: Option<Reader<'de>>) -> Self {
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
