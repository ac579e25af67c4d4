//! `.dependency-singleton`: runs the jobs of one user and one name one at a time.
//!
//! A job with `--dependency=singleton` stays in DEPEND until the user has no other active job of the same
//! name. Jobs that wait for the same reason don't count; the oldest of them goes first. Jobs without the
//! dependency count as active jobs, but never wait.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jobtap_core::prelude::*;
use serde_json::json;

const HELD: &str = "singleton";

/// The plugin `.dependency-singleton`.
#[derive(Debug, Default)]
pub struct DependencySingleton {
    groups: HashMap<Key, Group>,
    /// The group of each job, which stays the same when the job is renamed.
    members: BTreeMap<JobId, Key>,
    /// Whether all jobs that existed when the plugin was loaded are known.
    complete: bool,
}

/// A user and a job name.
type Key = (Uid, String);

/// The active jobs of one user and name, ordered by id, which is the order of submission.
#[derive(Debug, Default)]
struct Group {
    waiting: BTreeSet<JobId>,
    others: BTreeSet<JobId>,
}

#[jobtap_plugin(name = ".dependency-singleton", after = [".dependency-after"])]
impl DependencySingleton {
    /// After a restart jobs become known one by one. No job is released before all are known, since it may
    /// have to wait for one that isn't known yet.
    #[init]
    fn new(remote: Remote<Self>) -> Self {
        remote.run(|plugin, cx| {
            plugin.complete = true;
            plugin.groups.values_mut().for_each(|group| group.release(&cx));
        });
        Self::default()
    }

    #[on("job.dependency.singleton")]
    fn dependency(&mut self, job: &Job, cx: Cx<'_, JobDependency>) -> Result<(), Reject> {
        let Some(group) = self.group(job) else {
            return Err(Reject::new("singleton jobs require a job name"));
        };
        let free = group.waiting.is_empty() && group.others.is_empty();
        // This topic is called again after a restart. A job that was released before the restart must not
        // wait again.
        let held = if job.state() == State::New { !free } else { job.dependency(HELD).is_some() };
        if held {
            cx.dependency_add(HELD)?;
            group.others.remove(&job.id());
            group.waiting.insert(job.id());
        }
        Ok(())
    }

    #[on("job.new")]
    fn arrived(&mut self, job: &Job) {
        if let Some(group) = self.group(job).filter(|group| !group.waiting.contains(&job.id())) {
            group.others.insert(job.id());
        }
    }

    /// Removes a job that is inactive, or that was rejected after its dependency had been added.
    #[on("job.state.inactive", "job.destroy")]
    fn gone(&mut self, job: &Job, cx: Cx<'_, (JobStateInactive, JobDestroy)>) {
        let Some(key) = self.members.remove(&job.id()) else { return };
        let Some(group) = self.groups.get_mut(&key) else { return };
        group.waiting.remove(&job.id());
        group.others.remove(&job.id());
        if self.complete {
            group.release(&cx);
        }
        if group.waiting.is_empty() && group.others.is_empty() {
            self.groups.remove(&key);
        }
    }

    #[on("plugin.query")]
    fn query(&self) -> QueryData {
        self.groups.iter().fold(QueryData::new(), |data, ((user, name), group)| {
            let count = group.waiting.len() + group.others.len();
            let value = json!({ "count": count, "singletons": group.waiting });
            data.with(format!("{user}:{name}"), value)
        })
    }

    /// The group of a job; `None` if the job has no name.
    fn group(&mut self, job: &Job) -> Option<&mut Group> {
        let key = (job.userid(), job.jobspec().name()?.to_owned());
        self.members.insert(job.id(), key.clone());
        Some(self.groups.entry(key).or_default())
    }
}

impl Group {
    /// Releases the oldest waiting job if there are no other active jobs.
    fn release<T: TopicSet>(&mut self, cx: &Cx<'_, T>) {
        while self.others.is_empty()
            && let Some(id) = self.waiting.pop_first()
        {
            if cx.dependency_remove_of(id, HELD) {
                self.others.insert(id);
            }
        }
    }
}
