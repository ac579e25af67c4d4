//! How long the output of a job is held in memory: until the job ends, if that is soon, and otherwise until it is time
//! to write it to a file, where the manager finds it while the job runs.

use std::time::Duration;

use jobtap_core::job::JobId;
use tokio::time::Instant;

use super::state::Shepherd;
use super::streams::ends::lock;
use super::system_error::plain;

/// The maximum delay until the output of a running job can be seen. Most jobs that need no file have ended by then.
const HOLDING: Duration = Duration::from_millis(100);

impl Shepherd {
    /// Notes that the output of this job is held from now on.
    pub(super) fn holds_output(&mut self, id: JobId) {
        self.holding_output.push_back((Instant::now() + HOLDING, id));
    }

    /// When the next output is to be written to a file.
    pub(super) fn end_of_holding(&self) -> Option<Instant> {
        self.holding_output.front().map(|(until, _)| *until)
    }

    /// Writes to files the output of jobs that still run when their time is over.
    pub(super) fn write_held_output(&mut self) {
        let now = Instant::now();
        while let Some((_, id)) = self.holding_output.pop_front_if(|(until, _)| *until <= now) {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let written =
                job.streams.output.as_ref().map_or(Ok(()), |log| lock(log).move_to_file());
            if let Err(error) = written {
                // It isn't lost: it goes to the manager when the job ends.
                job.journal
                    .inform(format!("output can't be shown while the job runs: {}", plain(&error)));
            }
        }
    }
}
