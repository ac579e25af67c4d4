//! A list of texts that is kept as one text, since a list of a million strings takes three times the memory.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A list of texts, 4 GiB at most.
///
/// ```
/// use jobtap_core::array::Texts;
///
/// let texts: Texts = ["a", "", "bc"].into_iter().collect();
/// assert_eq!(texts.len(), 3);
/// assert_eq!(texts.get(2), Some("bc"));
/// assert_eq!(texts.get(3), None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    all: String,
    /// The end of each text in `all`.
    ends: Vec<u32>,
}

impl Texts {
    /// The number of texts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of bytes of all texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text at a position, from 0.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<&str> {
        let end = *self.ends.get(position)?;
        let start = match position.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.all.get(start as usize..end as usize)
    }

    /// The texts in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|position| self.get(position))
    }

    /// Adds a text at the end; returns false if there is no room for it.
    #[must_use]
    fn push(&mut self, text: &str) -> bool {
        match u32::try_from(self.all.len() + text.len()) {
            Ok(end) => {
                self.all.push_str(text);
                self.ends.push(end);
                true
            }
            Err(_) => false,
        }
    }
}

/// Texts beyond 4 GiB are left out.
impl<T: AsRef<str>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut all = Self::default();
        for text in texts {
            if !all.push(text.as_ref()) {
                break;
            }
        }
        all
    }
}

impl Serialize for Texts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.len()))?;
        for text in self.iter() {
            list.serialize_element(text)?;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Reader)
    }
}

struct Reader;

/// A text that is lent, if the JSON has no escapes in it.
struct Lent<'t>(std::borrow::Cow<'t, str>);

impl<'de> Deserialize<'de> for Lent<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Lent<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Lent<'de>, E> {
                Ok(Lent(text.into()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Lent<'de>, E> {
                Ok(Lent(text.to_owned().into()))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Texts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Texts, A::Error> {
        let mut texts = Texts::default();
        while let Some(Lent(text)) = list.next_element()? {
            if !texts.push(&text) {
                return Err(A::Error::custom("the texts are longer than 4 GiB"));
            }
        }
        texts.all.shrink_to_fit();
        texts.ends.shrink_to_fit();
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_are_those_that_were_collected(list in prop::collection::vec(".*", 0..20)) {
            let texts: Texts = list.iter().collect();
            prop_assert_eq!(texts.iter().collect::<Vec<_>>(), list.clone());
            let json = serde_json::to_string(&texts).unwrap();
            prop_assert_eq!(&json, &serde_json::to_string(&list).unwrap());
            prop_assert_eq!(serde_json::from_str::<Texts>(&json).unwrap(), texts);
        }
    }
}
