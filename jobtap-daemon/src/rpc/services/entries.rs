//! Objects whose keys are names, as lists of pairs in the order of the message.
//!
//! For `#[serde(with = "entries")]`: a map of the standard library would lose the order, in which the
//! commands show the entries.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes the pairs as an object.
pub fn serialize<S: Serializer, T: Serialize>(
    entries: &[(String, T)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(key, value)| (key, value)))
}

/// Reads an object as pairs.
pub fn deserialize<'de, D, T>(deserializer: D) -> Result<Vec<(String, T)>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Entries<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
        type Value = Vec<(String, T)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = map.next_entry()? {
                entries.push(entry);
            }
            Ok(entries)
        }
    }

    deserializer.deserialize_map(Entries(PhantomData))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct Sizes {
        #[serde(with = "super")]
        sizes: Vec<(String, u64)>,
    }

    #[test]
    fn entries_keep_their_order() {
        let message = json!({"sizes": {"b": 2, "a": 1}});
        let read: Sizes = serde_json::from_value(message.clone()).unwrap();
        assert_eq!(read.sizes, [("b".to_owned(), 2), ("a".to_owned(), 1)]);
        assert_eq!(serde_json::to_string(&read).unwrap(), message.to_string());
    }
}
