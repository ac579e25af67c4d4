//! A part of a job that is parsed on first use.
//!
//! A restart loads up to a million inactive jobs, and only the id and user of most are ever read. So the other parts
//! stay as text, as they are stored. A part that has just been written to the store may keep its text, since the
//! inactive summary writes it once more.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use crate::eventlog::EventEntry;
use crate::resource::ResourceSet;

/// A value that is parsed from its text on first use. The default value, which most parts of a pending
/// job have, takes no more than a pointer.
pub struct Unread<T>(Option<Box<Part<T>>>);

struct Part<T> {
    value: LazyLock<T, Read<T>>,
    /// The text of the value as it was stored, if that is known.
    written: Option<Box<str>>,
}

type Read<T> = Box<dyn FnOnce() -> T + Send>;

/// A type that can be [`Unread`].
pub trait Blank: Default + Sized + 'static {
    /// A reference to the default value.
    fn blank() -> &'static Self;
}

impl Blank for Map<String, Value> {
    fn blank() -> &'static Self {
        static BLANK: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
        &BLANK
    }
}

impl Blank for Option<Arc<ResourceSet>> {
    fn blank() -> &'static Self {
        &None
    }
}

impl Blank for Option<Arc<EventEntry>> {
    fn blank() -> &'static Self {
        &None
    }
}

impl<T: Blank> Unread<T> {
    /// A value that `read` parses from `text` on first use.
    pub fn new(text: &str, read: fn(&str) -> T) -> Self {
        let text: Box<str> = text.into();
        Self::later(move || read(&text))
    }
}

impl<T> Unread<T> {
    /// Whether there is a value, or a way to read one.
    pub fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// A value that `read` returns on first use.
    pub fn later(read: impl FnOnce() -> T + Send + 'static) -> Self {
        Self(Some(Box::new(Part { value: LazyLock::new(Box::new(read)), written: None })))
    }

    /// Notes the text of the value as it was stored.
    pub fn note_written(&mut self, text: &str) {
        if let Some(part) = &mut self.0 {
            part.written = Some(text.into());
        }
    }

    /// The text of the value as it was stored, if it is known and the value has not been changed since.
    pub fn written(&self) -> Option<&str> {
        self.0.as_ref()?.written.as_deref()
    }
}

impl<T> Default for Unread<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Blank + Clone> Clone for Unread<T> {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.clone_from(self);
        copy
    }

    fn clone_from(&mut self, other: &Self) {
        match other.0 {
            None => self.0 = None,
            Some(_) => (**self).clone_from(other),
        }
    }
}

impl<T: Blank> Deref for Unread<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(part) => &part.value,
            None => T::blank(),
        }
    }
}

impl<T: Blank> DerefMut for Unread<T> {
    fn deref_mut(&mut self) -> &mut T {
        let part = self.0.get_or_insert_with(|| {
            Box::new(Part { value: LazyLock::new(Box::new(T::default)), written: None })
        });
        part.written = None;
        &mut part.value
    }
}

impl<T: Blank + fmt::Debug> fmt::Debug for Unread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_text_is_parsed_once_and_on_first_use() {
        static READ: AtomicUsize = AtomicUsize::new(0);
        fn map(text: &str) -> Map<String, Value> {
            READ.fetch_add(1, Ordering::Relaxed);
            serde_json::from_str(text).unwrap()
        }
        let mut value = Unread::new("{\"a\":1}", map);
        assert_eq!(READ.load(Ordering::Relaxed), 0);
        value.insert("b".to_owned(), 2.into());
        assert_eq!((value.get("a").and_then(Value::as_u64), value.len()), (Some(1), 2));
        assert_eq!(READ.load(Ordering::Relaxed), 1);
        assert_eq!(format!("{:?}", value.clone()), format!("{:?}", *value));
    }

    #[test]
    fn a_changed_value_is_written_again() {
        let mut value = Unread::<Map<String, Value>>::default();
        value.insert("a".to_owned(), 1.into());
        assert_eq!(value.written(), None);
        value.note_written("{\"a\":1}");
        assert_eq!((value.written(), value.len()), (Some("{\"a\":1}"), 1));
        value.insert("b".to_owned(), 2.into());
        assert_eq!(value.written(), None);
    }

    #[test]
    fn the_default_value_is_blank_and_small() {
        let mut value = Unread::<Map<String, Value>>::default();
        assert!(value.is_empty() && value.clone().is_empty());
        assert_eq!(size_of_val(&value), size_of::<usize>());
        value.insert("a".to_owned(), 1.into());
        assert_eq!(value.len(), 1);
    }
}
