//! Prologs and epilogs.

/// A prolog or an epilog: work of a plugin that delays a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Perilog {
    /// Delays the start of the job's tasks.
    Prolog,
    /// Delays the release of the job's resources.
    Epilog,
}

impl Perilog {
    /// `prolog` or `epilog`, which is also the type of the exception when it fails.
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
