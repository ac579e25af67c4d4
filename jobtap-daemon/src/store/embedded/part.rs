//! The parts of the store, each of which is a keyspace of the engine.

/// The rows of one keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The rows of jobs, except their first bundles.
    Jobs,
    /// The rows of the job index.
    Index,
    /// The rows of the instance and of the store itself.
    Instance,
    /// The [first bundles](super::super::rows::of_first_bundle) of jobs.
    Submissions,
}

/// The parts in the order in which their keyspaces are created.
pub(super) const PARTS: [Part; 4] = [Part::Jobs, Part::Index, Part::Instance, Part::Submissions];

impl Part {
    /// The engine's name of the keyspace.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Index => "index",
            Self::Instance => "instance",
            Self::Submissions => "submissions",
        }
    }

    /// Whether the part has rows of jobs.
    pub(super) fn is_of_jobs(self) -> bool {
        matches!(self, Self::Jobs | Self::Submissions)
    }
}
