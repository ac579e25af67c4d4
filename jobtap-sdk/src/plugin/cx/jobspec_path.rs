//! Paths into a jobspec, checked when the plugin is compiled.

use std::borrow::Cow;
use std::fmt;

/// A dotted path into `attributes`, `resources` or `tasks` of a jobspec, the only parts that can be
/// changed once a job is submitted (RFC 21 `jobspec-update`).
///
/// [`path!`](crate::path) makes one at compile time; a path to another part does not compile. For a path that
/// is known only at run time, use [`try_new`](Self::try_new).
///
/// ```
/// use jobtap_core::path;
///
/// let duration = path!("attributes.system.duration");
/// assert_eq!(duration.as_str(), "attributes.system.duration");
/// ```
///
/// ```compile_fail
/// let nowhere = jobtap_core::path!("version");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobspecPath(Cow<'static, str>);

/// A path to a part of a jobspec that can't be changed, or with an empty element.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} doesn't lead into attributes, resources or tasks of a jobspec")]
pub struct InvalidPath(String);

const ROOTS: [&str; 3] = ["attributes", "resources", "tasks"];

impl JobspecPath {
    /// Not public: the macro calls it in a constant, where a bad path fails to compile; elsewhere it would
    /// panic at run time.
    #[doc(hidden)]
    #[track_caller]
    pub const fn __checked(path: &'static str) -> Self {
        assert!(
            !has_empty_element(path.as_bytes()),
            "a part of this path is empty: write names with one dot between them, as in \
             \"attributes.system.duration\""
        );
        assert!(
            leads_inside(path.as_bytes()),
            "this path leads elsewhere: only `attributes`, `resources` and `tasks` of a jobspec can \
             be changed, as in \"attributes.system.duration\""
        );
        Self(Cow::Borrowed(path))
    }

    /// Makes a path at run time.
    ///
    /// # Errors
    /// When the path doesn't begin with `attributes`, `resources` or `tasks`, or an element is empty.
    pub fn try_new(path: impl Into<String>) -> Result<Self, InvalidPath> {
        let path = path.into();
        if leads_inside(path.as_bytes()) {
            Ok(Self(Cow::Owned(path)))
        } else {
            Err(InvalidPath(path))
        }
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobspecPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A [`JobspecPath`](crate::plugin::JobspecPath) that is checked at compile time:
/// `path!("attributes.system.duration")`.
#[macro_export]
macro_rules! path {
    // A `const` item and not a `const` block: blocks are evaluated when code is generated, so `cargo
    // check` and editors would not report the mistake.
    ($path:expr) => {{
        const WRITTEN: $crate::plugin::JobspecPath = $crate::plugin::JobspecPath::__checked($path);
        WRITTEN
    }};
}

const fn leads_inside(path: &[u8]) -> bool {
    let mut roots: &[&str] = &ROOTS;
    let mut inside = false;
    while let Some((root, others)) = roots.split_first() {
        inside |= begins(path, root.as_bytes());
        roots = others;
    }
    inside && !has_empty_element(path)
}

/// Whether the first element of the path is this one.
const fn begins(path: &[u8], root: &[u8]) -> bool {
    match (path.split_first(), root.split_first()) {
        (None, None) => true,
        (Some((b'.', _)), None) => true,
        (Some((a, path)), Some((b, root))) => *a == *b && begins(path, root),
        _ => false,
    }
}

const fn has_empty_element(path: &[u8]) -> bool {
    let mut rest = path;
    let mut empty = true;
    while let Some((byte, tail)) = rest.split_first() {
        if *byte == b'.' && empty {
            return true;
        }
        empty = *byte == b'.';
        rest = tail;
    }
    empty
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_parts_that_can_be_changed() {
        for good in ["attributes", "attributes.system.a.b", "resources", "tasks"] {
            assert!(JobspecPath::try_new(good).is_ok(), "{good}");
        }
        for bad in ["", "version", "attribute", "attributesx", "tasks.", ".tasks", "tasks..a"] {
            assert!(JobspecPath::try_new(bad).is_err(), "{bad}");
        }
    }
}
