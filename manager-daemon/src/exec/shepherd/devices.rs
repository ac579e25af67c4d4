//! Which CPUs and GPUs of its nodes the tasks of a job may use.

use super::affinity::Affinity;
use super::gpus::Gpus;
use crate::exec::StartJob;

/// The CPUs and GPUs of a job; `None` where its tasks are not restricted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Devices {
    pub(super) cpus: Option<Affinity>,
    pub(super) gpus: Option<Gpus>,
}

impl Devices {
    /// What the job has and asks for. The error is for the user.
    pub(super) fn of(job: &StartJob) -> Result<Self, String> {
        Ok(Self { cpus: Affinity::of(job)?, gpus: Gpus::of(job)? })
    }
}
