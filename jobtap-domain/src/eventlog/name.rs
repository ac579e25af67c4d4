//! The names of events.
//!
//! The names that the job manager knows (RFC 21) are variants, so that a typo doesn't compile and names are compared as
//! numbers. Plugins post events under names of their own.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of an event.
///
/// It can be compared with a string and used as one. [`EventEntry::event`](super::EventEntry::event) returns the typed
/// event.
///
/// ```
/// use jobtap_core::eventlog::Name;
///
/// let name = Name::from("alloc");
/// assert!(matches!(name, Name::Alloc));
/// assert_eq!(name, "alloc");
/// assert!(matches!(Name::from("site.seen"), Name::Other(other) if *other == *"site.seen"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Name {
    /// A job was submitted.
    Submit,
    /// It was accepted.
    Validate,
    /// It waits for a dependency.
    DependencyAdd,
    /// It no longer waits for a dependency.
    DependencyRemove,
    /// It no longer waits for any dependency.
    Depend,
    /// It got a priority.
    Priority,
    /// Its urgency was changed.
    Urgency,
    /// Its jobspec was changed.
    JobspecUpdate,
    /// The expiration of its resources was changed.
    ResourceUpdate,
    /// Resources were allocated to it.
    Alloc,
    /// A prolog has begun.
    PrologStart,
    /// A prolog has ended.
    PrologFinish,
    /// Its tasks were started.
    Start,
    /// All of its tasks have exited.
    Finish,
    /// An epilog has begun.
    EpilogStart,
    /// An epilog has ended.
    EpilogFinish,
    /// Some or all of its ranks no longer have tasks.
    Release,
    /// Its resources were freed.
    Free,
    /// It is inactive.
    Clean,
    /// An exception was raised.
    Exception,
    /// The user's annotations were changed.
    Memo,
    /// Flags were set.
    SetFlags,
    /// The manager was restarted.
    FluxRestart,
    /// Its annotations have changed. Watchers receive this event, but no eventlog has it.
    Annotations,
    /// It was not accepted. No eventlog has this event.
    Invalidate,
    /// Resources were requested. Only jobs with the flag `debug` have this event and the next three.
    DebugAllocRequest,
    /// The start of its tasks was requested.
    DebugStartRequest,
    /// A restarted manager looks for its tasks.
    DebugExecReattachStart,
    /// A restarted manager has found its tasks.
    DebugExecReattachFinish,
    /// An identical job was submitted in its place. Flux has no such event.
    Requeue,
    /// Another event: one that a plugin has posted, or one in a log that isn't a job's eventlog.
    Other(OtherName),
}

/// A name that has no variant of its own in [`Name`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OtherName(Cow<'static, str>);

impl Deref for OtherName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for OtherName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

macro_rules! known {
    ($($text:literal $name:ident)*) => {
        impl Name {
            /// The names that the job manager knows.
            ///
            /// The store refers to the first 24 by their position, so they must not move.
            #[doc(hidden)]
            pub const KNOWN: [&str; [$($text),*].len()] = [$($text),*];

            /// The variant of this name.
            #[doc(hidden)]
            pub fn known(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The name as the eventlog has it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Other(name) => name,
                }
            }

            /// The position among [`KNOWN`](Self::KNOWN).
            fn position(&self) -> Option<u32> {
                /// The variants without data, in the same order.
                enum Position { $($name),* }
                match self {
                    $(Self::$name => Some(Position::$name as u32),)*
                    Self::Other(_) => None,
                }
            }
        }
    };
}

known! {
    "submit" Submit
    "validate" Validate
    "dependency-add" DependencyAdd
    "dependency-remove" DependencyRemove
    "depend" Depend
    "priority" Priority
    "urgency" Urgency
    "jobspec-update" JobspecUpdate
    "resource-update" ResourceUpdate
    "alloc" Alloc
    "prolog-start" PrologStart
    "prolog-finish" PrologFinish
    "start" Start
    "finish" Finish
    "epilog-start" EpilogStart
    "epilog-finish" EpilogFinish
    "release" Release
    "free" Free
    "clean" Clean
    "exception" Exception
    "memo" Memo
    "set-flags" SetFlags
    "flux-restart" FluxRestart
    "annotations" Annotations
    "invalidate" Invalidate
    "debug.alloc-request" DebugAllocRequest
    "debug.start-request" DebugStartRequest
    "debug.exec-reattach-start" DebugExecReattachStart
    "debug.exec-reattach-finish" DebugExecReattachFinish
    "requeue" Requeue
}

/// The number of known names that are stored as bits. The others are stored as text, as they were before the manager
/// knew them, so that stored jobs stay the same after an upgrade.
const STORED_AS_BITS: u32 = 24;

impl Name {
    /// The bit that stands for this name in the store, if there is one.
    #[doc(hidden)]
    pub fn bit(&self) -> Option<u32> {
        self.position().filter(|position| *position < STORED_AS_BITS).map(|position| 1 << position)
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text, in quotes.
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl From<Cow<'static, str>> for Name {
    fn from(text: Cow<'static, str>) -> Self {
        Self::known(&text).unwrap_or(Self::Other(OtherName(text)))
    }
}

impl From<&'static str> for Name {
    fn from(text: &'static str) -> Self {
        Cow::Borrowed(text).into()
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Cow::<'static, str>::Owned(text).into()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        match name {
            Name::Other(name) => name.0.into_owned(),
            known => known.as_str().to_owned(),
        }
    }
}

macro_rules! compared_with {
    ($($text:ty)*) => { $(
        impl PartialEq<$text> for Name {
            fn eq(&self, other: &$text) -> bool {
                *self.as_str() == **other
            }
        }

        impl PartialEq<Name> for $text {
            fn eq(&self, other: &Name) -> bool {
                *other == *self
            }
        }
    )* };
}
compared_with!(&str String Cow<'_, str>);

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

/// Known names are not allocated, since millions of events have them.
impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Name, E> {
                Ok(Name::known(text).unwrap_or_else(|| text.to_owned().into()))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_known_name_is_a_variant_and_keeps_its_text() {
        for (text, position) in Name::KNOWN.into_iter().zip(0..) {
            let name = Name::from(text);
            assert!(!matches!(name, Name::Other(_)), "{text}");
            assert_eq!((name.as_str(), name.position()), (text, Some(position)));
            assert_eq!(serde_json::to_value(&name).unwrap(), text);
            assert_eq!(serde_json::from_value::<Name>(text.into()).unwrap(), name);
        }
    }

    /// Stored jobs contain these bits.
    #[test]
    fn the_store_finds_its_bits_where_they_were() {
        let bits = [Name::Submit, Name::Alloc, Name::Release, Name::Annotations].map(|n| n.bit());
        assert_eq!(bits, [0, 9, 16, 23].map(|bit| Some(1 << bit)));
        let none = [Name::Invalidate, Name::DebugStartRequest, Name::from("x")].map(|n| n.bit());
        assert_eq!(none, [None, None, None]);
    }

    #[test]
    fn a_name_takes_no_more_memory_than_a_text() {
        assert_eq!(size_of::<Name>(), size_of::<Cow<'static, str>>());
    }

    proptest! {
        #[test]
        fn every_text_is_the_name_that_it_was(text: String) {
            let name = Name::from(text.clone());
            prop_assert_eq!(name.as_str(), &text);
            prop_assert_eq!(&name, &text);
            let written = serde_json::to_string(&name).unwrap();
            prop_assert_eq!(&written, &serde_json::to_string(&text).unwrap());
            prop_assert_eq!(&serde_json::from_str::<Name>(&written).unwrap(), &name);
            prop_assert_eq!(String::from(name), text);
        }
    }
}
