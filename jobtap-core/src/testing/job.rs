//! A job to submit in a test.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::array::Elements;
use crate::engine::{Cred, Submission};
use crate::job::{Flags, Uid, Urgency};
use crate::jobspec::{Dependency, Jobspec, JobspecBuilder, JobspecError, path};
use crate::slurm::JobDescriptor;

/// A job to submit. By default it has one task on one core, is submitted by the owner, and runs until the
/// test finishes it.
///
/// ```
/// use jobtap_core::prelude::*;
/// use jobtap_core::testing::{TestJob, TestManager};
/// # #[derive(Default)]
/// # struct First;
/// # #[jobtap_plugin(name = "first")]
/// # impl First {
/// #     #[on("job.state.priority")]
/// #     fn priority(&self) -> Priority {
/// #         Priority::new(1)
/// #     }
/// # }
/// # let mut m = TestManager::new().plugin::<First>().start();
/// let large = TestJob::new().nodes(2).ntasks(8).duration(3600.0).queue("batch");
/// let later = TestJob::new().dependency("afterok:ƒ2").attribute("bank", "physics");
/// # let _ = (large, later);
/// let short = m.submit(TestJob::new().user(1001).run_for(10.0)).unwrap();
/// m.advance(10.0);
/// assert_eq!(m.job(short).result(), Some(JobResult::Completed));
/// ```
#[derive(Debug, Clone)]
pub struct TestJob {
    builder: JobspecBuilder,
    /// The jobspec, in place of the builder's.
    jobspec: Option<Value>,
    attributes: Vec<(String, Value)>,
    urgency: i64,
    user: Uid,
    flags: Flags,
    elements: Option<Elements>,
}

impl Default for TestJob {
    fn default() -> Self {
        Self::new()
    }
}

impl TestJob {
    /// The owner of the instance under test.
    pub const OWNER: Uid = Uid(1000);

    /// A job with all defaults.
    pub fn new() -> Self {
        Self {
            builder: JobspecBuilder::new(["true"]),
            jobspec: None,
            attributes: Vec::new(),
            urgency: i64::from(Urgency::DEFAULT.value()),
            user: Self::OWNER,
            flags: Flags::NONE,
            elements: None,
        }
    }

    /// A job that is described in Slurm's terms. Without a script or arguments it runs `true`, and without a
    /// number of tasks it has one. User and urgency are the same as in [`new`](Self::new).
    ///
    /// ```
    /// use jobtap_core::slurm::JobDescriptor;
    /// use jobtap_core::testing::TestJob;
    ///
    /// let desc = JobDescriptor { num_tasks: Some(4), ..JobDescriptor::default() };
    /// let job = TestJob::described(&desc).user(1001);
    /// # let _ = job;
    /// ```
    ///
    /// # Panics
    /// If no jobspec can be made from the description.
    #[track_caller]
    pub fn described(desc: &JobDescriptor) -> Self {
        let mut desc = desc.clone();
        if desc.script.is_none() && desc.argv.is_empty() {
            desc.argv = vec!["true".to_owned()];
        }
        match desc.to_jobspec() {
            Ok(jobspec) => Self { jobspec: Some(jobspec), ..Self::new() },
            Err(error) => panic!("TestJob::described: {error}"),
        }
    }

    /// Lets the job finish successfully after this many seconds of virtual time.
    pub fn run_for(self, seconds: f64) -> Self {
        self.attribute("exec.test.run_duration", format!("{seconds}s"))
    }

    /// Sets the wait status with which a job with [`run_for`](Self::run_for) finishes.
    pub fn wait_status(self, status: i32) -> Self {
        self.attribute("exec.test.wait_status", status)
    }

    /// Sets the number of tasks, each with one core by default.
    pub fn ntasks(mut self, ntasks: u64) -> Self {
        self.builder = self.builder.ntasks(ntasks);
        self
    }

    /// Sets the number of nodes, over which the tasks are spread. With [`exclusive`](Self::exclusive) the job
    /// gets whole nodes.
    pub fn nodes(mut self, nodes: u64) -> Self {
        self.builder = self.builder.nodes(nodes);
        self
    }

    /// Sets the number of cores of each task.
    pub fn cores_per_task(mut self, cores: u64) -> Self {
        self.builder = self.builder.cores_per_task(cores);
        self
    }

    /// Sets the number of gpus of each task.
    pub fn gpus_per_task(mut self, gpus: u64) -> Self {
        self.builder = self.builder.gpus_per_task(gpus);
        self
    }

    /// Asks for whole nodes.
    pub fn exclusive(mut self) -> Self {
        self.builder = self.builder.exclusive(true);
        self
    }

    /// Sets the time limit in seconds.
    pub fn duration(mut self, seconds: f64) -> Self {
        self.builder = self.builder.duration(seconds);
        self
    }

    /// Sets the queue.
    pub fn queue(mut self, queue: &str) -> Self {
        self.builder = self.builder.queue(queue);
        self
    }

    /// Sets the name.
    pub fn name(mut self, name: &str) -> Self {
        self.builder = self.builder.name(name);
        self
    }

    /// Sets the urgency, which the manager checks at submission.
    pub fn urgency(mut self, urgency: i64) -> Self {
        self.urgency = urgency;
        self
    }

    /// Sets the user who submits the job.
    pub fn user(mut self, user: u32) -> Self {
        self.user = Uid(user);
        self
    }

    /// Sets the flag `waitable`, which only the owner may use.
    pub fn waitable(mut self) -> Self {
        self.flags |= Flags::WAITABLE;
        self
    }

    /// Sets the flag `debug`, which adds `debug.*` events to the eventlog.
    pub fn debug(mut self) -> Self {
        self.flags |= Flags::DEBUG;
        self
    }

    /// Sets the flag `novalidate`, which skips validation and which only the owner may use.
    pub fn novalidate(mut self) -> Self {
        self.flags |= Flags::NOVALIDATE;
        self
    }

    /// Adds an attribute to `attributes.system`. A key may be a path with periods.
    pub fn attribute(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.attributes.push((key.to_owned(), value.into()));
        self
    }

    /// Makes it a job array with these elements. The id of the submission is the array's;
    /// [`TestManager::element`](super::TestManager::element) has those of its jobs.
    ///
    /// ```
    /// use jobtap_core::testing::{TestJob, TestManager};
    ///
    /// let mut m = TestManager::new().start();
    /// let elements = serde_json::from_str(r#"{"indexes": "1-1000"}"#)?;
    /// let array = m.submit(TestJob::new().elements(elements)).unwrap();
    /// let first = m.element(array, 1).unwrap();
    /// assert_eq!(m.array(array)["count"], 1000);
    /// # let _ = first;
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn elements(mut self, elements: Elements) -> Self {
        self.elements = Some(elements);
        self
    }

    /// Adds a dependency, in the form of the command line: `afterok:ID`.
    ///
    /// # Panics
    /// If the URI is malformed.
    #[track_caller]
    pub fn dependency(mut self, uri: &str) -> Self {
        match Dependency::from_uri(uri) {
            Ok(dependency) => self.builder = self.builder.dependency(dependency),
            Err(error) => panic!("TestJob::dependency({uri:?}): {error}"),
        }
        self
    }

    /// The submission that a client would send, for a [`TestHost`](super::TestHost).
    ///
    /// # Errors
    /// Why no jobspec can be made from it.
    pub fn submission(self) -> Result<(Cred, Submission), JobspecError> {
        let mut builder = self.builder;
        let jobspec = match self.jobspec {
            None => {
                for (key, value) in self.attributes {
                    builder = builder.attribute(&key, value)?;
                }
                builder.build()
            }
            Some(mut jobspec) => {
                for (key, value) in self.attributes {
                    path::set(&mut jobspec, &path::attribute_key(&key), value)?;
                }
                Jobspec::from_value(jobspec)
            }
        };
        let jobspec = jobspec?;
        let cred = Cred { userid: self.user, owner: self.user == Self::OWNER };
        let signed = json!({}).to_string();
        let flags = self.flags.bits();
        let elements = self.elements.map(Arc::new);
        Ok((cred, Submission { jobspec, signed, urgency: self.urgency, flags, elements }))
    }
}
