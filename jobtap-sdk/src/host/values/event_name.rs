//! The names of events that plugins post, checked when the plugin is compiled.

use std::borrow::Cow;
use std::fmt;

use crate::eventlog::Name;

/// The name of a plugin's own event, for [`Cx::post_event`](crate::plugin::Cx::post_event). The names of
/// RFC 21 belong to the job manager, since its events change the state of jobs.
///
/// ```
/// use jobtap_core::{event_name, plugin::EventName};
///
/// const SEEN: EventName = event_name!("site.seen");
/// assert_eq!(SEEN.as_str(), "site.seen");
/// ```
///
/// A reserved name does not compile:
///
/// ```compile_fail
/// let alloc = jobtap_core::event_name!("alloc");
/// ```
///
/// For a name that is known only at run time, use [`try_new`](Self::try_new).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EventName(Cow<'static, str>);

/// Why a plugin's event can't have a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEventName {
    /// The name belongs to the manager.
    #[error("event {0:?} belongs to the job manager")]
    Reserved(String),
    /// The name is empty, or has a character that isn't allowed.
    #[error("event {0:?}: a name is made of letters, digits, `-`, `_` and `.`")]
    Malformed(String),
}

/// Reserved names that are not names of events known to the manager.
const OTHERS: [&str; 1] = ["debug"];

impl EventName {
    /// Not public: the macro calls it in a constant, where a bad name fails to compile; elsewhere it would
    /// panic at run time.
    #[doc(hidden)]
    #[track_caller]
    pub const fn __checked(name: &'static str) -> Self {
        assert!(
            !is_one_of(name, &Name::KNOWN) && !is_one_of(name, &OTHERS),
            "this event belongs to the job manager: a plugin posts events under names of its own, \
             such as \"my-plugin.seen\""
        );
        assert!(
            is_plain(name.as_bytes()),
            "an event's name is made of letters, digits, `-`, `_` and `.`"
        );
        Self(Cow::Borrowed(name))
    }

    /// Makes the name of a plugin's own event when it is known only at run time.
    ///
    /// # Errors
    /// [`InvalidEventName`].
    pub fn try_new(name: impl Into<String>) -> Result<Self, InvalidEventName> {
        let name = name.into();
        if is_one_of(&name, &Name::KNOWN) || is_one_of(&name, &OTHERS) {
            Err(InvalidEventName::Reserved(name))
        } else if is_plain(name.as_bytes()) {
            Ok(Self(Cow::Owned(name)))
        } else {
            Err(InvalidEventName::Malformed(name))
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[doc(hidden)]
    pub fn into_inner(self) -> Cow<'static, str> {
        self.0
    }
}

/// An [`EventName`](crate::plugin::EventName) that is checked at compile time: `event_name!("site.seen")`.
#[macro_export]
macro_rules! event_name {
    // A `const` item, for the same reason as in `path!`.
    ($name:expr) => {{
        const WRITTEN: $crate::plugin::EventName = $crate::plugin::EventName::__checked($name);
        WRITTEN
    }};
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const fn is_one_of(name: &str, names: &[&str]) -> bool {
    let mut left = names;
    while let Some((other, others)) = left.split_first() {
        if same(name, other) {
            return true;
        }
        left = others;
    }
    false
}

/// `==` of strings, which a `const fn` can't call.
pub(in crate::host) const fn same(a: &str, b: &str) -> bool {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while let (Some((x, left)), Some((y, right))) = (a.split_first(), b.split_first()) {
        if *x != *y {
            return false;
        }
        (a, b) = (left, right);
    }
    a.is_empty() && b.is_empty()
}

const fn is_plain(name: &[u8]) -> bool {
    let mut rest = name;
    while let Some((byte, tail)) = rest.split_first() {
        if !(byte.is_ascii_alphanumeric() || matches!(*byte, b'-' | b'_' | b'.')) {
            return false;
        }
        rest = tail;
    }
    !name.is_empty()
}
