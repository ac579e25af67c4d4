//! The context of an event.
//!
//! A manager makes and drops a dozen of these for each job. They have few members, most of them with names that are
//! known when the manager is compiled, so a list without hashes is smaller and faster than a map. Two events may share
//! one.

use std::borrow::Cow;
use std::fmt;
use std::ops::Index;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The context of an event (RFC 18): the members of a JSON object, in their order.
///
/// ```
/// use jobtap_core::eventlog::EventEntry;
///
/// let line = r#"{"timestamp":1.0,"name":"finish","context":{"status":256}}"#;
/// let finish = EventEntry::decode(line)?;
/// let context = finish.context.unwrap_or_default();
/// assert_eq!(context["status"], 256);
/// assert!(context.get("note").is_none());
/// # Ok::<(), jobtap_core::eventlog::EntryError>(())
/// ```
#[derive(Clone, Default)]
pub struct Context(Arc<[Member]>);

type Member = (Cow<'static, str>, Value);

impl Context {
    /// The value of a member.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Whether there is a member of this name.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The members in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.into_iter()
    }

    /// Whether both share the same members in memory.
    #[doc(hidden)]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Adds a member, which must not exist yet.
    pub(crate) fn push(&mut self, key: &'static str, value: Value) {
        let members = self.0.iter().cloned();
        self.0 = members.chain(std::iter::once((Cow::Borrowed(key), value))).collect();
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The members of an event that the manager posts.
impl<const N: usize> From<[(&'static str, Value); N]> for Context {
    fn from(members: [(&'static str, Value); N]) -> Self {
        Self(members.map(|(key, value)| (Cow::Borrowed(key), value)).into())
    }
}

impl From<Map<String, Value>> for Context {
    fn from(map: Map<String, Value>) -> Self {
        Self(map.into_iter().map(|(key, value)| (Cow::Owned(key), value)).collect())
    }
}

impl From<Context> for Map<String, Value> {
    fn from(context: Context) -> Self {
        context.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect()
    }
}

impl From<Context> for Value {
    fn from(context: Context) -> Self {
        Value::Object(context.into())
    }
}

type Members<'a> =
    std::iter::Map<std::slice::Iter<'a, Member>, fn(&'a Member) -> (&'a str, &'a Value)>;

impl<'a> IntoIterator for &'a Context {
    type Item = (&'a str, &'a Value);
    type IntoIter = Members<'a>;

    fn into_iter(self) -> Members<'a> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }
}

/// As with a [`Value`], a missing member is null.
impl Index<&str> for Context {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(&Value::Null)
    }
}

/// As with JSON objects, the order of the members doesn't matter.
impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Context {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Context {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Context;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Context, A::Error> {
                let mut map = Map::new();
                // A map finds repeated keys fast: a context from a client may have thousands of members.
                while let Some((key, value)) = access.next_entry()? {
                    map.insert(key, value);
                }
                Ok(map.into())
            }
        }

        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn context(value: Value) -> Context {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn members_keep_their_order_and_their_last_value() {
        let read: Context = serde_json::from_str(r#"{"z":1,"a":2,"z":3}"#).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"z":3,"a":2}"#);
        assert_eq!((&read["a"], &read["b"]), (&json!(2), &Value::Null));
        assert_eq!(Value::from(read), json!({"z": 3, "a": 2}));
    }

    #[test]
    fn contexts_are_equal_in_any_order() {
        assert_eq!(context(json!({"a": 1, "b": 2})), context(json!({"b": 2, "a": 1})));
        for other in [json!({"a": 1}), json!({"a": 1, "b": 3}), json!({"a": 1, "c": 2})] {
            assert_ne!(context(json!({"a": 1, "b": 2})), context(other));
        }
        assert_eq!(Context::from([("a", json!(1))]), context(json!({"a": 1})));
    }

    #[test]
    fn only_objects_are_contexts() {
        for other in ["null", "[]", "5"] {
            assert!(serde_json::from_str::<Context>(other).is_err(), "{other}");
        }
    }
}
