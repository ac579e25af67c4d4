//! Which CPUs and GPUs of its nodes the tasks of a job may use.

use super::affinity::Affinity;
use super::gpus::Gpus;
use super::option_error::OptionError;
use crate::exec::StartJob;

/// The CPUs and GPUs of a job; `None` where its tasks are not restricted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Devices {
    pub(super) cpus: Option<Affinity>,
    pub(super) gpus: Option<Gpus>,
}

impl Devices {
    /// The devices that the job has and asks for.
    pub(super) fn for_job(job: &StartJob) -> Result<Self, OptionError> {
        Ok(Self { cpus: Affinity::for_job(job)?, gpus: Gpus::for_job(job)? })
    }
}
