//! The flags that a job gets after its submission.

/// A flag of a job that a plugin can set (RFC 21 `set-flags`), by `Cx::set_flag`.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn trace(job: &Job, cx: &Cx<'_, JobNew>) -> Result<(), CallError> {
///     cx.set_flag(job, JobFlag::Debug)
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobFlag {
    /// The scheduler ignores the job: a plugin allocates resources to it in `job.state.sched`.
    AllocBypass,
    /// More events are logged, for debugging.
    Debug,
    /// Only the instance's owner can change the jobspec.
    Immutable,
}

impl JobFlag {
    const ALL: [Self; 3] = [Self::AllocBypass, Self::Debug, Self::Immutable];

    /// The flag of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|flag| flag.name() == name)
    }

    /// The name of the flag in the event.
    pub const fn name(self) -> &'static str {
        match self {
            JobFlag::AllocBypass => "alloc-bypass",
            JobFlag::Debug => "debug",
            JobFlag::Immutable => "immutable",
        }
    }
}
