//! Asks a type what it would read at one place inside it: a deserializer that follows a path of
//! steps into the type, notes what is asked for at its end, and may feed a value there.
//!
//! Only the path is ever fed, so the rest of the type need not like what it gets, and a type that
//! contains itself ends where the path does.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::value::MapDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer,
    MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde_json::Value;

use super::error::{Names, ReadError, wanted};
use super::key::Key;
use super::read::{Reader, Strays};

/// From a type to one inside it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// The value under a key of a table.
    Entry(String),
    /// A key of a table.
    Key,
    /// What an `Option` holds.
    Some,
    /// The element of an array that comes after these.
    Element(Vec<Value>),
    /// What a variant of an enum holds.
    Variant(&'static str),
}

/// What a type asks the deserializer for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    Any,
    Bool,
    Integer { min: Option<i64>, max: Option<u64> },
    Number,
    Char,
    Text,
    Bytes,
    Null,
    Identifier,
    Ignored,
    Option,
    Seq,
    Tuple(usize),
    Map,
    Struct(&'static str, Names),
    Enum(&'static str, Names),
    UnitVariant,
}

/// What is fed at the end of the path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Feed<'de> {
    Nothing,
    Value(&'de Value),
    /// To a [`Step::Key`].
    Key(&'de str),
    /// A table with this entry twice.
    Twice(&'de str, &'de Value),
}

/// What was seen at the end of the path; all is empty when the type did not go there.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) asked: Option<Asked>,
    /// The newtypes around what was asked for.
    pub(super) newtypes: Vec<&'static str>,
    /// What the visitor says that it expects.
    pub(super) expecting: String,
    /// How the type there liked what it was fed.
    pub(super) result: Option<Result<(), ReadError>>,
}

impl Answer {
    pub(super) fn is_ok(&self) -> bool {
        matches!(self.result, Some(Ok(())))
    }

    pub(super) fn error(&self) -> Option<&ReadError> {
        self.result.as_ref()?.as_ref().err()
    }
}

/// Probes `C` a limited number of times.
pub(super) struct Prober<C> {
    left: Cell<u32>,
    probed: PhantomData<fn() -> C>,
}

impl<C: DeserializeOwned> Prober<C> {
    pub(super) fn new(limit: u32) -> Self {
        Self { left: Cell::new(limit), probed: PhantomData }
    }

    /// What is seen at the end of the path; nothing, once the limit is reached.
    pub(super) fn ask(&self, steps: &[Step], feed: Feed<'_>) -> Answer {
        let Some(left) = self.left.get().checked_sub(1) else {
            return Answer::default();
        };
        self.left.set(left);
        let answer = RefCell::default();
        let probe = Probe { steps, feed, answer: &answer };
        // A type may check what it reads in any way, also by a panic.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let _ = probe.watch(|probe| C::deserialize(probe));
        }));
        answer.into_inner()
    }
}

/// Ends a run: what comes after the end of the path is of no interest.
fn stop() -> ReadError {
    ReadError::custom("only probed")
}

#[derive(Clone, Copy)]
struct Probe<'de> {
    steps: &'de [Step],
    feed: Feed<'de>,
    answer: &'de RefCell<Answer>,
}

impl<'de> Probe<'de> {
    /// Lets a type read from here, and notes how that ended when this is the end of the path.
    fn watch<T>(self, read: impl FnOnce(Self) -> Result<T, ReadError>) -> Result<T, ReadError> {
        let result = read(self);
        if self.steps.is_empty() {
            let outcome = result.as_ref().map(|_| ()).map_err(Clone::clone);
            self.answer.borrow_mut().result.get_or_insert(outcome);
        }
        result
    }

    fn note<V: Visitor<'de>>(&self, asked: Asked, visitor: &V) {
        let expecting = wanted(visitor);
        let mut answer = self.answer.borrow_mut();
        answer.asked = Some(asked);
        answer.expecting = expecting;
    }

    /// Goes one step on.
    fn follow<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let Some((step, steps)) = self.steps.split_first() else {
            return Err(stop());
        };
        let rest = Probe { steps, ..self };
        match step {
            Step::Entry(key) => visitor.visit_map(OneEntry::value(key, rest)),
            Step::Key => visitor.visit_map(OneEntry::key(rest)),
            Step::Some => rest.watch(|rest| visitor.visit_some(rest)),
            Step::Element(before) => {
                visitor.visit_seq(OneElement { before: before.iter(), probe: Some(rest) })
            }
            Step::Variant(name) => visitor.visit_enum(OneVariant { name, probe: rest }),
        }
    }
}

/// The methods of [`Probe`] are all alike.
macro_rules! ask {
    ($($method:ident($($arg:ident: $ty:ty),*) => $asked:expr;)*) => {
        $(
            fn $method<V: Visitor<'de>>(
                self,
                $($arg: $ty,)*
                visitor: V,
            ) -> Result<V::Value, ReadError> {
                if !self.steps.is_empty() {
                    return self.follow(visitor);
                }
                self.note($asked, &visitor);
                match self.feed {
                    Feed::Nothing => Err(stop()),
                    Feed::Value(value) => {
                        Reader::new(value, Strays::Refused).$method($($arg,)* visitor)
                    }
                    Feed::Key(key) => Key(key).$method($($arg,)* visitor),
                    Feed::Twice(key, value) => visitor.visit_map(twice(key, value)),
                }
            }
        )*
    };
}

impl<'de> Deserializer<'de> for Probe<'de> {
    type Error = ReadError;

    ask! {
        deserialize_any() => Asked::Any;
        deserialize_bool() => Asked::Bool;
        deserialize_i8() => signed(i8::MIN.into(), i8::MAX.into());
        deserialize_i16() => signed(i16::MIN.into(), i16::MAX.into());
        deserialize_i32() => signed(i32::MIN.into(), i32::MAX.into());
        deserialize_i64() => signed(i64::MIN, i64::MAX);
        deserialize_i128() => Asked::Integer { min: None, max: None };
        deserialize_u8() => unsigned(u8::MAX.into());
        deserialize_u16() => unsigned(u16::MAX.into());
        deserialize_u32() => unsigned(u32::MAX.into());
        deserialize_u64() => unsigned(u64::MAX);
        deserialize_u128() => Asked::Integer { min: Some(0), max: None };
        deserialize_f32() => Asked::Number;
        deserialize_f64() => Asked::Number;
        deserialize_char() => Asked::Char;
        deserialize_str() => Asked::Text;
        deserialize_string() => Asked::Text;
        deserialize_bytes() => Asked::Bytes;
        deserialize_byte_buf() => Asked::Bytes;
        deserialize_option() => Asked::Option;
        deserialize_unit() => Asked::Null;
        deserialize_unit_struct(name: &'static str) => Asked::Null;
        deserialize_seq() => Asked::Seq;
        deserialize_tuple(len: usize) => Asked::Tuple(len);
        deserialize_tuple_struct(name: &'static str, len: usize) => Asked::Tuple(len);
        deserialize_map() => Asked::Map;
        deserialize_struct(name: &'static str, fields: Names) => Asked::Struct(name, fields);
        deserialize_enum(name: &'static str, variants: Names) => Asked::Enum(name, variants);
        deserialize_identifier() => Asked::Identifier;
        deserialize_ignored_any() => Asked::Ignored;
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if self.steps.is_empty() {
            self.answer.borrow_mut().newtypes.push(name);
        }
        visitor.visit_newtype_struct(self)
    }
}

fn signed(min: i64, max: i64) -> Asked {
    Asked::Integer { min: Some(min), max: u64::try_from(max).ok() }
}

fn unsigned(max: u64) -> Asked {
    Asked::Integer { min: Some(0), max: Some(max) }
}

type Pair<'de> = (&'de str, Reader<'de>);

fn twice<'de>(
    key: &'de str,
    value: &'de Value,
) -> MapDeserializer<'de, std::array::IntoIter<Pair<'de>, 2>, ReadError> {
    let entry = (key, Reader::new(value, Strays::Refused));
    MapDeserializer::new([entry, entry].into_iter())
}

impl<'de> IntoDeserializer<'de, ReadError> for Reader<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// A table with one entry, whose key or value is the next place.
struct OneEntry<'de> {
    key: Option<OneKey<'de>>,
    value: Option<Probe<'de>>,
}

enum OneKey<'de> {
    Known(&'de str),
    Probed(Probe<'de>),
}

impl<'de> OneEntry<'de> {
    fn value(key: &'de str, probe: Probe<'de>) -> Self {
        Self { key: Some(OneKey::Known(key)), value: Some(probe) }
    }

    fn key(probe: Probe<'de>) -> Self {
        Self { key: Some(OneKey::Probed(probe)), value: None }
    }
}

impl<'de> MapAccess<'de> for OneEntry<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        match self.key.take() {
            None => Ok(None),
            Some(OneKey::Known(key)) => seed.deserialize(Key(key)).map(Some),
            Some(OneKey::Probed(probe)) => probe.watch(|probe| seed.deserialize(probe)).map(Some),
        }
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ReadError> {
        let probe = self.value.take().ok_or_else(stop)?;
        probe.watch(|probe| seed.deserialize(probe))
    }
}

/// An array whose last element is the next place.
struct OneElement<'de> {
    before: std::slice::Iter<'de, Value>,
    probe: Option<Probe<'de>>,
}

impl<'de> SeqAccess<'de> for OneElement<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        if let Some(value) = self.before.next() {
            return seed.deserialize(Reader::new(value, Strays::Refused)).map(Some);
        }
        match self.probe.take() {
            None => Ok(None),
            Some(probe) => probe.watch(|probe| seed.deserialize(probe)).map(Some),
        }
    }
}

/// A variant whose payload is the next place.
struct OneVariant<'de> {
    name: &'static str,
    probe: Probe<'de>,
}

impl<'de> EnumAccess<'de> for OneVariant<'de> {
    type Error = ReadError;
    type Variant = Payload<'de>;

    fn variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<(T::Value, Payload<'de>), ReadError> {
        let variant = seed.deserialize(Key(self.name))?;
        Ok((variant, Payload(self.probe)))
    }
}

struct Payload<'de>(Probe<'de>);

impl<'de> VariantAccess<'de> for Payload<'de> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        if self.0.steps.is_empty() {
            self.0.answer.borrow_mut().asked = Some(Asked::UnitVariant);
        }
        Err(stop())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ReadError> {
        self.0.watch(|probe| seed.deserialize(probe))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, ReadError> {
        self.0.watch(|probe| probe.deserialize_tuple(len, visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: Names,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.0.watch(|probe| probe.deserialize_struct("", fields, visitor))
    }
}
