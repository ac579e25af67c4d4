//! How a host outside of the engine makes a [`Job`].
//!
//! Another job manager has its own jobs. From these parts it builds the [`Job`] that it lends to a
//! handler. Costly parts can be [`Lent::Lazy`]: they are read when a handler asks for them, and most
//! handlers don't.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::eventlog::EventEntry;
use crate::job::{
    Flags, Job, JobId, Kept, KnownDependency, LoggedEvents, State, Times, Timestamp, Uid, Unread,
    Urgency,
};
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

/// A value, or the closure that reads it on its first use.
pub enum Lent<T> {
    /// The value.
    Now(T),
    /// The closure that reads it.
    Lazy(Box<dyn FnOnce() -> T + Send>),
}

impl<T> Lent<T> {
    /// A value that is read on its first use.
    pub fn later(read: impl FnOnce() -> T + Send + 'static) -> Self {
        Lent::Lazy(Box::new(read))
    }
}

impl<T: Default> Default for Lent<T> {
    fn default() -> Self {
        Lent::Now(T::default())
    }
}

impl<T> From<T> for Lent<T> {
    fn from(value: T) -> Self {
        Lent::Now(value)
    }
}

impl<T: fmt::Debug> fmt::Debug for Lent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lent::Now(value) => value.fmt(f),
            Lent::Lazy(_) => f.write_str("Lazy"),
        }
    }
}

/// What a [`Job`] is made of.
///
/// ```
/// use jobtap_core::host::JobParts;
/// use jobtap_core::job::{JobId, State, Uid};
/// use jobtap_core::jobspec::JobspecBuilder;
///
/// let jobspec = JobspecBuilder::new(["hostname"]).build()?;
/// let parts = JobParts { state: State::Sched, ..JobParts::new(JobId::new(3), Uid(1000), jobspec) };
/// let job = parts.into_job();
/// assert_eq!((job.userid(), job.state()), (Uid(1000), State::Sched));
/// # Ok::<(), jobtap_core::jobspec::JobspecError>(())
/// ```
#[derive(Debug)]
pub struct JobParts {
    /// The job's id.
    pub id: JobId,
    /// The user who submitted it.
    pub userid: Uid,
    /// The urgency.
    pub urgency: Urgency,
    /// The submit flags.
    pub flags: Flags,
    /// The state.
    pub state: State,
    /// The priority; `None` until it is set for the first time.
    pub priority: Option<u32>,
    /// The time of submission.
    pub t_submit: Timestamp,
    /// The jobspec, without the environment. See [`Jobspec::lent`].
    pub jobspec: Jobspec,
    /// The allocated resources.
    pub resources: Lent<Option<ResourceSet>>,
    /// The event that moved the job to CLEANUP.
    pub end_event: Lent<Option<EventEntry>>,
    /// The descriptions of the dependencies that the job waits for.
    pub dependencies: Vec<String>,
    /// The annotations.
    pub annotations: Map<String, Value>,
    /// The names of the events in its eventlog.
    pub events: Vec<String>,
    /// When it got its resources.
    pub t_alloc: Option<Timestamp>,
    /// When its tasks were started.
    pub t_start: Option<Timestamp>,
    /// When it entered CLEANUP.
    pub t_cleanup: Option<Timestamp>,
    /// When it became inactive.
    pub t_inactive: Option<Timestamp>,
}

impl JobParts {
    /// A newly submitted job: in NEW, with the default urgency, and without the optional parts.
    pub fn new(id: JobId, userid: Uid, jobspec: Jobspec) -> Self {
        Self {
            id,
            userid,
            urgency: Urgency::DEFAULT,
            flags: Flags::NONE,
            state: State::New,
            priority: None,
            t_submit: Timestamp::default(),
            jobspec,
            resources: Lent::default(),
            end_event: Lent::default(),
            dependencies: Vec::new(),
            annotations: Map::new(),
            events: Vec::new(),
            t_alloc: None,
            t_start: None,
            t_cleanup: None,
            t_inactive: None,
        }
    }

    /// Makes the job.
    pub fn into_job(self) -> Job {
        let mut logged = LoggedEvents::default();
        self.events.into_iter().for_each(|name| logged.add(&name.into()));
        let open = |description: String| KnownDependency {
            description: description.into_boxed_str(),
            open: true,
        };
        let mut times = Times::default();
        let mut entered = |state, time: Option<Timestamp>| {
            if let Some(at) = time {
                times.enter(state, at);
            }
        };
        entered(State::Run, self.t_alloc);
        entered(State::Cleanup, self.t_cleanup);
        entered(State::Inactive, self.t_inactive);
        if let Some(at) = self.t_start {
            times.note_start(at);
        }
        Job::from_kept(Kept {
            id: self.id,
            userid: self.userid,
            urgency: self.urgency,
            flags: self.flags,
            state: self.state,
            priority: self.priority,
            t_submit: self.t_submit,
            jobspec: self.jobspec,
            resources: match self.resources {
                // None is no value: the resources come later.
                Lent::Now(None) => Unread::default(),
                resources => lent(resources, |resources| resources.map(without_scheduling)),
            },
            end_event: lent(self.end_event, |entry| entry.map(Arc::new)),
            dependencies: self.dependencies.into_iter().map(open).collect(),
            annotations: self.annotations.into(),
            logged,
            times,
        })
    }
}

/// R without its `scheduling` key, as every [`Job`] has it.
pub fn without_scheduling(mut resources: ResourceSet) -> Arc<ResourceSet> {
    resources.set_scheduling(None);
    Arc::new(resources)
}

/// Makes a part of a job. A lazy part is read on its first use.
pub fn lent<T: 'static, U: crate::job::Blank>(value: Lent<T>, part: fn(T) -> U) -> Unread<U> {
    match value {
        Lent::Now(value) => {
            let mut unread = Unread::default();
            *unread = part(value);
            unread
        }
        Lent::Lazy(read) => Unread::later(move || part(read())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jobspec::JobspecBuilder;

    #[test]
    fn a_part_that_is_lent_is_read_on_its_first_use() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static READ: AtomicUsize = AtomicUsize::new(0);
        let jobspec = Jobspec::lent(|| {
            READ.fetch_add(1, Ordering::Relaxed);
            JobspecBuilder::new(["true"]).queue("batch").to_value()
        });
        let mut parts = JobParts::new(JobId::new(7), Uid(1), jobspec);
        parts.resources = Lent::later(|| {
            READ.fetch_add(100, Ordering::Relaxed);
            Some(ResourceSet::new())
        });
        let job = parts.into_job();
        assert_eq!(READ.load(Ordering::Relaxed), 0);
        assert_eq!(job.jobspec().queue(), Some("batch"));
        assert_eq!((job.jobspec().queue(), job.jobspec().duration()), (Some("batch"), 0.0));
        // A part is read once, and so is the whole.
        assert_eq!(READ.load(Ordering::Relaxed), 2);
        assert_eq!(job.jobspec().command().collect::<Vec<_>>(), ["true"]);
        assert_eq!(job.jobspec().queue(), Some("batch"));
        assert_eq!(job.jobspec().attribute("cwd"), None);
        assert_eq!(READ.load(Ordering::Relaxed), 3);
        assert!(job.resources().is_some() && job.resources().is_some());
        assert_eq!(READ.load(Ordering::Relaxed), 103);
    }

    #[test]
    fn a_copy_of_a_lent_jobspec_borrows_nothing() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static READ: AtomicUsize = AtomicUsize::new(0);
        let jobspec = Jobspec::lent(|| {
            READ.fetch_add(1, Ordering::Relaxed);
            JobspecBuilder::new(["true"]).to_value()
        });
        let copy = jobspec.clone();
        assert_eq!(READ.load(Ordering::Relaxed), 1, "a copy can outlive what was lent");
        drop(jobspec);
        assert_eq!(copy.display_name(), "true");
    }

    #[test]
    fn all_parts_are_seen() {
        let jobspec = JobspecBuilder::new(["true"]).build().unwrap();
        let end =
            EventEntry::new(Timestamp(9.0), "finish", json!({"status": 0}).as_object().cloned());
        let parts = JobParts {
            priority: Some(5),
            state: State::Cleanup,
            end_event: Some(end).into(),
            annotations: json!({"user": {"a": 1}}).as_object().cloned().unwrap(),
            events: vec!["submit".to_owned(), "site.seen".to_owned()],
            dependencies: vec!["after".to_owned()],
            t_alloc: Some(Timestamp(3.0)),
            t_cleanup: Some(Timestamp(9.0)),
            ..JobParts::new(JobId::new(1), Uid(5), jobspec)
        };
        let job = parts.into_job();
        assert_eq!(job.priority(), Some(5));
        assert_eq!(job.result(), Some(crate::job::JobResult::Completed));
        assert_eq!(job.annotations().get("user"), Some(&json!({"a": 1})));
        assert!(job.event_posted("site.seen") && !job.event_posted("alloc"));
        assert_eq!(job.dependencies().collect::<Vec<_>>(), ["after"]);
        assert_eq!((job.t_alloc(), job.t_start()), (Some(Timestamp(3.0)), None));
    }
}
