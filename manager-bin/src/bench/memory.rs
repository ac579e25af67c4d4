//! The memory of a pending job, beyond the text of its jobspec.

use super::offline::Offline;
use super::{BenchError, CORES, jobspec, resident};

/// The result of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// The number of pending jobs.
    pub jobs: u64,
    /// Bytes of resident memory for each of them.
    pub per_job: u64,
    /// Of these, the text of the jobspec without its environment.
    pub jobspec: u64,
}

impl Memory {
    /// Returns the bytes for each job beyond its jobspec.
    pub fn beyond_jobspec(&self) -> u64 {
        self.per_job.saturating_sub(self.jobspec)
    }
}

/// Fills an engine with jobs that wait for resources. Call it before anything else in the process uses much
/// memory: memory that was freed and is used again would hide what the jobs need.
///
/// # Errors
/// When the engine refuses a job, or the system doesn't tell what the process uses.
pub fn measure(jobs: u64) -> Result<Memory, BenchError> {
    let mut manager = Offline::new(None)?;
    // It has all cores, so that all others wait.
    manager.submit(jobspec(0.0, u64::from(CORES), 0)?)?;
    manager.submit(jobspec(60.0, 1, 0)?)?;
    let before = resident()?;
    let mut text = 0;
    for number in 1..=jobs {
        let jobspec = jobspec(60.0, 1, number)?;
        text += jobspec.redacted().value().to_string().len() as u64;
        manager.submit(jobspec)?;
    }
    let used = resident()?.saturating_sub(before);
    let pending = manager.count("sched");
    if pending != jobs + 1 {
        return Err(BenchError::Lost { what: "pending", expected: jobs + 1, found: pending });
    }
    Ok(Memory { jobs, per_job: used / jobs.max(1), jobspec: text / jobs.max(1) })
}
