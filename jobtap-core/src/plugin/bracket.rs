//! Prolog and epilog: the two ends of a job's run at which a plugin can hold it.

/// What holds a job at one of its two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bracket {
    /// Before its tasks start.
    Prolog,
    /// Before its resources are freed.
    Epilog,
}

impl Bracket {
    /// `prolog` or `epilog`; also the type of the exception when it fails.
    ///
    /// ```
    /// assert_eq!(jobtap_core::plugin::Bracket::Epilog.word(), "epilog");
    /// ```
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Bracket::Prolog => "prolog",
            Bracket::Epilog => "epilog",
        }
    }
}
