//! Names of events that plugins post: checked when the plugin is compiled.

use std::fmt;

/// The name of a plugin's own event. The names of RFC 21 belong to the job manager: a plugin that
/// posted `alloc` itself would tell the life cycle a lie.
///
/// ```
/// use jobtap_core::plugin::EventName;
///
/// const SEEN: EventName = EventName::new("site.seen");
/// assert_eq!(SEEN.as_str(), "site.seen");
/// ```
///
/// A name that can't be is an error at compile time:
///
/// ```compile_fail
/// # use jobtap_core::plugin::EventName;
/// const ALLOC: EventName = EventName::new("alloc");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventName(&'static str);

/// Events of RFC 21 and those that the manager adds.
const RESERVED: [&str; 27] = [
    "submit",
    "validate",
    "invalidate",
    "dependency-add",
    "dependency-remove",
    "depend",
    "priority",
    "urgency",
    "jobspec-update",
    "resource-update",
    "alloc",
    "prolog-start",
    "prolog-finish",
    "start",
    "finish",
    "epilog-start",
    "epilog-finish",
    "release",
    "free",
    "clean",
    "exception",
    "memo",
    "set-flags",
    "flux-restart",
    "annotations",
    "debug",
    "*",
];

impl EventName {
    /// A name for an event of a plugin's own. Use it in a `const`, where a bad name does not compile.
    ///
    /// # Panics
    /// When the name belongs to the job manager, is empty, or has characters other than letters,
    /// digits, `-`, `_` and `.`.
    #[track_caller]
    pub const fn new(name: &'static str) -> Self {
        let mut left: &[&str] = &RESERVED;
        while let Some((reserved, others)) = left.split_first() {
            assert!(
                !same(name, reserved),
                "this event belongs to the job manager: a plugin posts events under names of its \
                 own, such as \"my-plugin.seen\""
            );
            left = others;
        }
        assert!(
            is_plain(name.as_bytes()),
            "an event's name is made of letters, digits, `-`, `_` and `.`"
        );
        Self(name)
    }

    /// The name.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// `==` of strings, which a `const fn` can't call.
pub(super) const fn same(a: &str, b: &str) -> bool {
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
