//! Exceptions that plugins raise on jobs (RFC 21).

/// The severity of an exception that does not end its job, from 1 (most severe) to 7.
///
/// ```
/// use jobtap_core::plugin::Severity;
///
/// const NOTE: Severity = Severity::new(3);
/// assert_eq!(NOTE.get(), 3);
/// assert_eq!(Severity::try_new(0), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Severity(u8);

impl Severity {
    /// Severity 0, which ends the job.
    pub(crate) const FATAL: Severity = Severity(0);

    /// A severity from 1 to 7. In a `const`, another number does not compile. An exception of severity 0 is
    /// raised by [`Cx::fail`](crate::plugin::Cx::fail).
    ///
    /// # Panics
    /// When the number is 0 or above 7.
    #[track_caller]
    pub const fn new(value: u8) -> Self {
        assert!(
            value >= 1 && value <= 7,
            "a severity is from 1 to 7; to end a job call `cx.fail(kind, note)`"
        );
        Self(value)
    }

    /// A severity from a number that is known at run time only; `None` unless it is from 1 to 7.
    pub const fn try_new(value: u8) -> Option<Self> {
        if value >= 1 && value <= 7 { Some(Self(value)) } else { None }
    }

    /// The severity as a number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// An exception that does not end its job (RFC 21): its type, which is one word, its severity, and a note
/// for the user. [`Cx::raise`](crate::plugin::Cx::raise) raises it; to end a job, call
/// [`Cx::fail`](crate::plugin::Cx::fail).
///
/// ```
/// use jobtap_core::plugin::{Exception, Severity};
///
/// const NOTE: Severity = Severity::new(4);
/// let e = Exception::new(NOTE, "license", "the license ends tomorrow");
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
    pub(crate) fn fatal(kind: impl Into<String>, note: impl Into<String>) -> Self {
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
