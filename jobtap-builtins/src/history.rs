//! `.history`: every user's jobs, the newest first, for `jobtap job last`.
//!
//! `job-manager.history.get {"slice": "[:3]"}` answers with the requesting user's own, as
//! `{"jobs": [ID, ..]}`. A job stays in the history until it is purged.

use std::collections::{BTreeSet, HashMap};

use jobtap_core::prelude::*;

use crate::slice::Slice;

/// See the module.
#[derive(Debug, Default)]
pub struct History {
    /// Ids are in the order of submission.
    jobs: HashMap<Uid, BTreeSet<JobId>>,
}

/// What is asked for.
#[derive(Debug, Deserialize)]
struct Get {
    slice: String,
}

/// What is answered.
#[derive(Debug, Serialize)]
struct Jobs {
    jobs: Vec<JobId>,
}

#[jobtap_plugin(name = ".history", after = [".update-duration"])]
impl History {
    /// The second topic brings back, after a restart, those that are over.
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
        Ok(Jobs { jobs: slice.of(&jobs) })
    }
}
