//! Exceptions that plugins raise on jobs (RFC 21).

/// The severity of an exception that does not end its job, from 1 (most severe) to 7.
///
/// ```
/// use jobtap_core::{plugin::Severity, severity};
///
/// const NOTE: Severity = severity!(3);
/// assert_eq!(NOTE.get(), 3);
/// assert_eq!(Severity::try_new(0), None);
/// ```
///
/// Any other number doesn't compile; to end a job, call [`Cx::fail`](crate::plugin::Cx::fail):
///
/// ```compile_fail
/// let fatal = jobtap_core::severity!(0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Severity(u8);

impl Severity {
    /// Severity 0, which ends the job.
    #[doc(hidden)]
    pub const FATAL: Severity = Severity(0);

    /// Not public: the macro calls it in a constant, where a bad number fails to compile; elsewhere it would
    /// panic at run time.
    #[doc(hidden)]
    #[track_caller]
    pub const fn __checked(value: u8) -> Self {
        assert!(
            value >= 1 && value <= 7,
            "a severity is from 1 to 7; to end a job call `cx.fail(kind, note)`"
        );
        Self(value)
    }

    /// Makes a severity from a number that is known only at run time; `None` unless it is from 1 to 7.
    pub const fn try_new(value: u8) -> Option<Self> {
        if value >= 1 && value <= 7 { Some(Self(value)) } else { None }
    }

    /// The severity as a number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// A [`Severity`](crate::plugin::Severity) that is checked at compile time: `severity!(3)`.
#[macro_export]
macro_rules! severity {
    // A `const` item, for the same reason as in `path!`.
    ($value:expr) => {{
        const WRITTEN: $crate::plugin::Severity = $crate::plugin::Severity::__checked($value);
        WRITTEN
    }};
}

/// An exception that does not end its job (RFC 21): its type, which is one word, its severity, and a note
/// for the user. [`Cx::raise`](crate::plugin::Cx::raise) raises it; to end a job, call
/// [`Cx::fail`](crate::plugin::Cx::fail).
///
/// ```
/// use jobtap_core::{plugin::Exception, severity};
///
/// let e = Exception::new(severity!(4), "license", "the license ends tomorrow");
/// assert_eq!(e.kind(), "license");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    kind: String,
    severity: Severity,
    note: String,
}

impl Exception {
    /// Makes an exception. White space and `=` in `kind` become `-`, since a type is one word.
    pub fn new(severity: Severity, kind: impl Into<String>, note: impl Into<String>) -> Self {
        Self { kind: one_word(kind.into()), severity, note: note.into() }
    }

    /// Makes an exception that ends the job.
    #[doc(hidden)]
    pub fn fatal(kind: impl Into<String>, note: impl Into<String>) -> Self {
        Self::new(Severity::FATAL, kind, note)
    }

    /// The type of the exception.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The severity.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// The note for the user; may be empty.
    pub fn note(&self) -> &str {
        &self.note
    }
}

fn one_word(kind: String) -> String {
    let apart = |c: char| c == '=' || c.is_whitespace();
    if kind.is_empty() {
        return "plugin".to_owned();
    }
    if kind.contains(apart) { kind.replace(apart, "-") } else { kind }
}
