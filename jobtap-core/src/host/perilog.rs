//! Prolog and epilog: the two ends of a job's run at which a plugin can hold it.

/// What holds a job at one of its two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Perilog {
    /// Before its tasks start.
    Prolog,
    /// Before its resources are freed.
    Epilog,
}

impl Perilog {
    /// `prolog` or `epilog`; also the type of the exception when it fails.
    ///
    /// ```
    /// assert_eq!(jobtap_core::plugin::Perilog::Epilog.word(), "epilog");
    /// ```
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Perilog::Prolog => "prolog",
            Perilog::Epilog => "epilog",
        }
    }
}
