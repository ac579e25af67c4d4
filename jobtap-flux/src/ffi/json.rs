//! Jansson's JSON values, deserialized by serde without formatting them as text.

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use super::sys::{self, RawJson};
use crate::flux::{Lend, ReadError};

/// The maximum nesting depth of values, as in serde_json.
const MAX_DEPTH: u8 = 128;

/// A counted reference to a JSON value of jansson.
pub struct Json(NonNull<RawJson>);

// SAFETY: a `Json` is only read, and its value doesn't change meanwhile: Flux changes values only on the job manager's
// thread, and not while the adapter runs there. The adapter reads them only on that thread or on one that it waits
// for. Other threads only drop them, since a copy of a job for an asynchronous handler is read when it is made. The
// reference count is changed only by atomic operations, here and in jansson (which has them with every compiler that
// can build Flux).
unsafe impl Send for Json {}
// SAFETY: as for `Send`: reading doesn't change the value, and the reference count is atomic.
unsafe impl Sync for Json {}

impl Json {
    /// Takes a new reference to a value that has another owner.
    ///
    /// # Safety
    /// `raw` is null or a value of jansson that is valid during this call.
    pub(super) unsafe fn borrowed(raw: *mut RawJson) -> Option<Self> {
        let raw = NonNull::new(raw)?;
        // SAFETY: `raw` isn't null, so the caller guarantees that it is valid.
        unsafe { incref(raw) };
        Some(Self(raw))
    }

    /// Takes over a reference of the caller.
    ///
    /// # Safety
    /// `raw` is null or a valid value of jansson, and the caller gives up one reference to it.
    pub(super) unsafe fn owned(raw: *mut RawJson) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }

    /// Hands the reference over to C, which must release it.
    pub(super) fn into_raw(self) -> *mut RawJson {
        let raw = self.0.as_ptr();
        std::mem::forget(self);
        raw
    }

    pub(super) fn as_ptr(&self) -> *mut RawJson {
        self.0.as_ptr()
    }

    /// Parses a text. Returns `None` if it isn't JSON or contains a number that jansson can't represent.
    pub fn parse(text: &str) -> Option<Self> {
        // SAFETY: pointer and length belong to one text, and jansson allows null for the error. The result is null
        // or a new reference, which `owned` takes over.
        unsafe {
            let raw = sys::json_loadb(
                text.as_ptr().cast(),
                text.len(),
                sys::JSON_LOAD_FLAGS,
                std::ptr::null_mut::<c_void>(),
            );
            Self::owned(raw)
        }
    }

    /// Converts a value to jansson's form. Returns `None` if it contains a number that jansson can't represent.
    pub fn from_value(value: &Value) -> Option<Self> {
        Self::parse(&value.to_string())
    }

    fn node(&self) -> Node<'_> {
        Node { raw: self.0, depth: 0, holder: self }
    }
}

/// Returns the reference count of a value; `None` if the value isn't counted.
///
/// # Safety
/// `raw` is a valid value, and the caller has a reference to it as long as it uses the result.
unsafe fn count<'a>(raw: NonNull<RawJson>) -> Option<&'a AtomicUsize> {
    // SAFETY: the value is valid, so its member is, which is aligned as a `size_t`. It is changed only by atomic
    // operations (see `Send`).
    let count = unsafe { AtomicUsize::from_ptr(&raw mut (*raw.as_ptr()).refcount) };
    // The values `true`, `false` and `null` are static and not counted.
    (count.load(Ordering::Relaxed) != usize::MAX).then_some(count)
}

/// Takes a new reference to a value.
///
/// # Safety
/// `raw` is a valid value.
unsafe fn incref(raw: NonNull<RawJson>) {
    // SAFETY: the caller guarantees that `raw` is valid.
    if let Some(count) = unsafe { count(raw) } {
        // Relaxed is enough, since the value is already kept alive by another reference.
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Clone for Json {
    fn clone(&self) -> Self {
        // SAFETY: this holds a reference, so the value is valid.
        unsafe { incref(self.0) };
        Self(self.0)
    }
}

impl Drop for Json {
    fn drop(&mut self) {
        // SAFETY: this holds a reference, so the value is valid until the count is decremented. Whoever releases the
        // last reference frees the value, as jansson's own `json_decref` does.
        unsafe {
            if let Some(count) = count(self.0)
                && count.fetch_sub(1, Ordering::AcqRel) == 1
            {
                sys::json_delete(self.0.as_ptr());
            }
        }
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.read::<Value>() {
            Ok(value) => value.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}

impl Lend for Json {
    fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, ReadError> {
        T::deserialize(self.node())
    }

    fn get(&self, key: &str) -> Option<Self> {
        let key = CString::new(key).ok()?;
        // SAFETY: the value and the key are valid. Jansson returns null if the value isn't an object or has no such
        // key, else a member that lives as long as its object, to which this holds a reference.
        unsafe { Self::borrowed(sys::json_object_get(self.as_ptr(), key.as_ptr())) }
    }

    fn integer(&self, key: &CStr) -> Option<i64> {
        // SAFETY: as in `get`. The member is only read before this returns, while its object is alive.
        unsafe {
            let member = sys::json_object_get(self.as_ptr(), key.as_ptr()).as_ref()?;
            (member.kind == sys::JSON_INTEGER).then(|| sys::json_integer_value(member))
        }
    }
}

/// A value within a [`Json`], which keeps it alive.
#[derive(Clone, Copy)]
struct Node<'de> {
    raw: NonNull<RawJson>,
    depth: u8,
    holder: &'de Json,
}

impl<'de> Node<'de> {
    /// Returns a member or element of this value as a node.
    fn part(self, raw: *mut RawJson) -> Result<Self, ReadError> {
        let raw = NonNull::new(raw).ok_or_else(|| ReadError::custom("a missing value"))?;
        Ok(Self { raw, depth: self.depth + 1, holder: self.holder })
    }

    fn kind(self) -> i32 {
        // SAFETY: `holder` keeps the value that contains this one alive, so this one is valid.
        unsafe { (*self.raw.as_ptr()).kind }
    }

    fn str(self) -> Result<&'de str, ReadError> {
        // SAFETY: the value is valid, and jansson returns null if it isn't a string. The bytes live as long as the
        // string and don't change, so they are valid as long as `holder` is borrowed.
        let bytes = unsafe {
            let start = sys::json_string_value(self.raw.as_ptr());
            let length = sys::json_string_length(self.raw.as_ptr());
            if start.is_null() {
                return Err(ReadError::custom("a string that can't be read"));
            }
            std::slice::from_raw_parts(start.cast::<u8>(), length)
        };
        std::str::from_utf8(bytes).map_err(|_| ReadError::custom("a string that isn't UTF-8"))
    }

    fn check_depth(self) -> Result<(), ReadError> {
        match self.depth < MAX_DEPTH - 1 {
            true => Ok(()),
            false => Err(ReadError::custom("recursion limit exceeded")),
        }
    }

    fn members(self) -> Members<'de> {
        // SAFETY: the value is valid. Jansson returns a null iterator for an empty object.
        let (iter, left) = unsafe {
            (sys::json_object_iter(self.raw.as_ptr()), sys::json_object_size(self.raw.as_ptr()))
        };
        Members { object: self, iter, value: std::ptr::null_mut(), left }
    }

    fn elements(self) -> Elements<'de> {
        // SAFETY: the value is valid.
        let left = unsafe { sys::json_array_size(self.raw.as_ptr()) };
        Elements { array: self, index: 0, length: left }
    }
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.kind() {
            sys::JSON_OBJECT => {
                self.check_depth()?;
                let mut members = self.members();
                let value = visitor.visit_map(&mut members)?;
                match members.left {
                    0 => Ok(value),
                    left => Err(ReadError::invalid_length(left, &"fewer members in the object")),
                }
            }
            sys::JSON_ARRAY => {
                self.check_depth()?;
                let mut elements = self.elements();
                let value = visitor.visit_seq(&mut elements)?;
                match elements.length - elements.index {
                    0 => Ok(value),
                    _ => Err(ReadError::invalid_length(
                        elements.length,
                        &"fewer elements in the array",
                    )),
                }
            }
            sys::JSON_STRING => visitor.visit_borrowed_str(self.str()?),
            sys::JSON_INTEGER => {
                // SAFETY: the value is valid, and its kind is an integer.
                let integer = unsafe { sys::json_integer_value(self.raw.as_ptr()) };
                // Like serde_json, pass a number that isn't negative as unsigned.
                match u64::try_from(integer) {
                    Ok(unsigned) => visitor.visit_u64(unsigned),
                    Err(_) => visitor.visit_i64(integer),
                }
            }
            // SAFETY: the value is valid, and its kind is a real.
            sys::JSON_REAL => visitor.visit_f64(unsafe { sys::json_real_value(self.raw.as_ptr()) }),
            sys::JSON_TRUE => visitor.visit_bool(true),
            sys::JSON_FALSE => visitor.visit_bool(false),
            _ => visitor.visit_unit(),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.kind() > sys::JSON_FALSE {
            true => visitor.visit_none(),
            false => visitor.visit_some(self),
        }
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
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.kind() {
            sys::JSON_STRING => visitor.visit_enum(self.str()?.into_deserializer()),
            sys::JSON_OBJECT => {
                self.check_depth()?;
                let mut members = self.members();
                let is_one = members.left == 1;
                match members.next() {
                    Some(name) if is_one => visitor
                        .visit_enum(Variant { name: name?, value: self.part(members.value)? }),
                    _ => Err(ReadError::invalid_value(
                        Unexpected::Map,
                        &"an object with a single key",
                    )),
                }
            }
            _ => Err(ReadError::custom("invalid type: expected string or object")),
        }
    }

    // Like serde_json, require an object here: some visitors of maps accept null as well.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.kind() {
            sys::JSON_OBJECT => self.deserialize_any(visitor),
            _ => Err(ReadError::custom("invalid type: expected a map")),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.kind() {
            sys::JSON_ARRAY => self.deserialize_any(visitor),
            _ => Err(ReadError::custom("invalid type: expected a sequence")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        // Don't visit the value: jobspecs and R are large, and most handlers don't ask for them.
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct tuple tuple_struct struct identifier
    }
}

/// The remaining members of an object.
struct Members<'de> {
    object: Node<'de>,
    iter: *mut c_void,
    /// The value that belongs to the last key.
    value: *mut RawJson,
    left: usize,
}

impl<'de> Members<'de> {
    /// Advances to the next member and returns its key.
    fn next(&mut self) -> Option<Result<&'de str, ReadError>> {
        if self.iter.is_null() {
            return None;
        }
        // SAFETY: the object is valid and doesn't change, so its iterator, which isn't null, stays valid. A key is
        // NUL-terminated and lives as long as its object, so as long as `holder` is borrowed.
        let key = unsafe {
            let key = CStr::from_ptr(sys::json_object_iter_key(self.iter));
            self.value = sys::json_object_iter_value(self.iter);
            self.iter = sys::json_object_iter_next(self.object.raw.as_ptr(), self.iter);
            key
        };
        self.left = self.left.saturating_sub(1);
        Some(key.to_str().map_err(|_| ReadError::custom("a key that isn't UTF-8")))
    }
}

impl<'de> MapAccess<'de> for &mut Members<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        match self.next() {
            None => Ok(None),
            Some(key) => seed.deserialize(Key(key?)).map(Some),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        seed.deserialize(self.object.part(self.value)?)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// A key of an object. As in serde_json, the keys of a map can be read as numbers and booleans.
struct Key<'de>(&'de str);

macro_rules! parsed_keys {
    ($($method:ident $visit:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            match self.0.parse() {
                Ok(key) => visitor.$visit(key),
                Err(_) => visitor.visit_borrowed_str(self.0),
            }
        }
    )* };
}

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_borrowed_str(self.0)
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
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    parsed_keys! {
        deserialize_bool visit_bool
        deserialize_i8 visit_i8 deserialize_i16 visit_i16
        deserialize_i32 visit_i32 deserialize_i64 visit_i64
        deserialize_u8 visit_u8 deserialize_u16 visit_u16
        deserialize_u32 visit_u32 deserialize_u64 visit_u64
        deserialize_f32 visit_f32 deserialize_f64 visit_f64
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

/// The remaining elements of an array.
struct Elements<'de> {
    array: Node<'de>,
    index: usize,
    length: usize,
}

impl<'de> SeqAccess<'de> for &mut Elements<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        if self.index >= self.length {
            return Ok(None);
        }
        // SAFETY: the array is valid. Jansson returns null for an index that is out of range.
        let element = unsafe { sys::json_array_get(self.array.raw.as_ptr(), self.index) };
        self.index += 1;
        seed.deserialize(self.array.part(element)?).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.length - self.index)
    }
}

/// A variant of an enum: an object with one member.
struct Variant<'de> {
    name: &'de str,
    value: Node<'de>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = ReadError;
    type Variant = Node<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Node<'de>), ReadError> {
        Ok((seed.deserialize(Key(self.name))?, self.value))
    }
}

impl<'de> VariantAccess<'de> for Node<'de> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        serde::Deserialize::deserialize(self)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ReadError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, ReadError> {
        match self.kind() {
            sys::JSON_ARRAY => self.deserialize_any(visitor),
            _ => Err(ReadError::custom("invalid type: expected tuple variant")),
        }
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_any(visitor)
    }
}
