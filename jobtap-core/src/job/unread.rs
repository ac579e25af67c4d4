//! A part of a job that stays the text that was stored until somebody looks at it: a start brings back
//! a million jobs that are over, and of most of them nobody asks for more than id and user.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

/// A value, or what it is still to be read from.
pub(crate) struct Unread<T>(LazyLock<T, Read<T>>);

type Read<T> = Box<dyn FnOnce() -> T + Send>;

impl<T: Default + 'static> Unread<T> {
    /// What `read` will make of this text.
    pub(crate) fn new(text: &str, read: fn(&str) -> T) -> Self {
        let text: Box<str> = text.into();
        Self(LazyLock::new(Box::new(move || read(&text))))
    }
}

impl<T: Default + 'static> Default for Unread<T> {
    fn default() -> Self {
        Self(LazyLock::new(Box::new(T::default)))
    }
}

impl<T: Clone + Default + 'static> Clone for Unread<T> {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.clone_from(self);
        copy
    }

    fn clone_from(&mut self, other: &Self) {
        (**self).clone_from(other);
    }
}

impl<T> Deref for Unread<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Unread<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Unread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_text_is_read_once_and_only_when_somebody_looks() {
        static READ: AtomicUsize = AtomicUsize::new(0);
        fn number(text: &str) -> u32 {
            READ.fetch_add(1, Ordering::Relaxed);
            text.parse().unwrap()
        }
        let mut value = Unread::new("41", number);
        assert_eq!(READ.load(Ordering::Relaxed), 0);
        *value += 1;
        assert_eq!((*value, format!("{value:?}")), (42, "42".to_owned()));
        assert_eq!(READ.load(Ordering::Relaxed), 1);
        assert_eq!((*value.clone(), *Unread::<u32>::default()), (42, 0));
    }
}
