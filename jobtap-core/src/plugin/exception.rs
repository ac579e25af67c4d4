//! Exceptions that plugins raise on jobs (RFC 21).

/// How grave an exception is. Only [`Severity::FATAL`] ends the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Severity(u8);

impl Severity {
    /// Severity 0: ends the job.
    pub const FATAL: Severity = Severity(0);

    /// A severity from 0 (fatal) to 7; `None` beyond.
    pub const fn new(value: u8) -> Option<Self> {
        if value <= 7 { Some(Self(value)) } else { None }
    }

    /// As a number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// An exception: a word for what happened, its severity, and a note for the user.
///
/// ```
/// use jobtap_core::plugin::{Exception, Severity};
///
/// let e = Exception::fatal("license", "no license server answers");
/// assert_eq!(e.severity(), Severity::FATAL);
/// assert!(Exception::try_new(Severity::FATAL, "two words", "").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    kind: String,
    severity: Severity,
    note: String,
}

impl Exception {
    /// An exception that ends the job. White space and `=` in `kind` become `-`, since a kind is
    /// one word.
    pub fn fatal(kind: impl Into<String>, note: impl Into<String>) -> Self {
        Self::new(Severity::FATAL, kind, note)
    }

    /// An exception of any severity, `kind` as in [`fatal`](Self::fatal).
    pub fn new(severity: Severity, kind: impl Into<String>, note: impl Into<String>) -> Self {
        let mut kind: String = kind.into();
        if kind.is_empty() {
            kind.push_str("plugin");
        }
        if !is_kind(&kind) {
            kind =
                kind.chars().map(|c| if c == '=' || c.is_whitespace() { '-' } else { c }).collect();
        }
        Self { kind, severity, note: note.into() }
    }

    /// The same, but `None` when `kind` is not one word without `=`.
    pub fn try_new(
        severity: Severity,
        kind: impl Into<String>,
        note: impl Into<String>,
    ) -> Option<Self> {
        let kind = kind.into();
        is_kind(&kind).then(|| Self { kind, severity, note: note.into() })
    }

    /// The word.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The severity.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// The note; may be empty.
    pub fn note(&self) -> &str {
        &self.note
    }
}

fn is_kind(kind: &str) -> bool {
    !kind.is_empty() && !kind.contains(|c: char| c == '=' || c.is_whitespace())
}
