//! `.history`: the jobs of each user, the newest first, for `jobtap job last`.
//!
//! The response to `job-manager.history.get {"slice": "[:3]"}` is `{"jobs": [ID, ..]}` with jobs of the
//! requesting user. A job stays in the history until it is purged.

use std::collections::{BTreeSet, HashMap};

use jobtap_core::prelude::*;

use crate::slice::Slice;

/// The plugin `.history`.
#[derive(Debug, Default)]
pub struct History {
    /// Ordered by id, which is the order of submission.
    jobs: HashMap<Uid, BTreeSet<JobId>>,
}

/// The request `get`.
#[derive(Debug, Deserialize)]
struct Get {
    slice: String,
}

/// The response to `get`.
#[derive(Debug, Serialize)]
struct Jobs {
    jobs: Vec<JobId>,
}

#[jobtap_plugin(name = ".history", after = [".update-duration"])]
impl History {
    /// After a restart, inactive jobs are introduced by the second topic.
    #[on("job.new", "job.inactive-add")]
    fn add(&mut self, job: &Job) {
        self.jobs.entry(job.userid()).or_default().insert(job.id());
    }

    #[on("job.inactive-remove")]
    fn remove(&mut self, job: &Job) {
        if let Some(jobs) = self.jobs.get_mut(&job.userid()) {
            jobs.remove(&job.id());
        }
    }

    #[service("get", role = "guest")]
    fn get(&self, request: Request<Get>, caller: Caller) -> Result<Jobs, ServiceError> {
        let slice: Slice = request.slice.parse()?;
        let jobs: Vec<JobId> =
            self.jobs.get(&caller.userid).into_iter().flatten().rev().copied().collect();
        Ok(Jobs { jobs: slice.select(&jobs) })
    }
}
