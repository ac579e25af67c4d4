//! A job for a test, with what matters to the test said and the rest at defaults.

use serde_json::{Value, json};

use crate::engine::{Cred, Submission};
use crate::job::{Flags, Uid, Urgency};
use crate::jobspec::{Dependency, Jobspec, JobspecBuilder};

/// A job to submit: one task of one core by the owner, which runs until the test ends it.
///
/// ```
/// use jobtap_core::testing::TestJob;
///
/// let large = TestJob::new().nodes(2).ntasks(8).duration(3600.0).queue("batch");
/// let short = TestJob::new().user(1001).urgency(31).run_for(10.0);
/// let later = TestJob::new().dependency("afterok:ƒ2").attribute("bank", "physics");
/// # let _ = (large, short, later);
/// ```
#[derive(Debug, Clone)]
pub struct TestJob {
    builder: JobspecBuilder,
    attributes: Vec<(String, Value)>,
    urgency: i64,
    user: Uid,
    flags: Flags,
}

impl Default for TestJob {
    fn default() -> Self {
        Self::new()
    }
}

impl TestJob {
    /// The owner of the manager under test.
    pub const OWNER: Uid = Uid(1000);

    /// The plainest job.
    pub fn new() -> Self {
        Self {
            builder: JobspecBuilder::new(["true"]),
            attributes: Vec::new(),
            urgency: i64::from(Urgency::DEFAULT.value()),
            user: Self::OWNER,
            flags: Flags::NONE,
        }
    }

    /// Runs by itself for so many seconds of virtual time, and succeeds.
    pub fn run_for(self, seconds: f64) -> Self {
        self.attribute("exec.test.run_duration", format!("{seconds}s"))
    }

    /// Ends with this wait status; together with [`run_for`](Self::run_for).
    pub fn wait_status(self, status: i32) -> Self {
        self.attribute("exec.test.wait_status", status)
    }

    /// Number of tasks, each with one core.
    pub fn ntasks(mut self, ntasks: u64) -> Self {
        self.builder = self.builder.ntasks(ntasks);
        self
    }

    /// Number of nodes, over which its tasks are spread; whole ones with
    /// [`exclusive`](Self::exclusive).
    pub fn nodes(mut self, nodes: u64) -> Self {
        self.builder = self.builder.nodes(nodes);
        self
    }

    /// Cores of each task.
    pub fn cores_per_task(mut self, cores: u64) -> Self {
        self.builder = self.builder.cores_per_task(cores);
        self
    }

    /// Gpus of each task.
    pub fn gpus_per_task(mut self, gpus: u64) -> Self {
        self.builder = self.builder.gpus_per_task(gpus);
        self
    }

    /// Takes whole nodes.
    pub fn exclusive(mut self) -> Self {
        self.builder = self.builder.exclusive(true);
        self
    }

    /// Its time limit in seconds.
    pub fn duration(mut self, seconds: f64) -> Self {
        self.builder = self.builder.duration(seconds);
        self
    }

    /// The queue that it names.
    pub fn queue(mut self, queue: &str) -> Self {
        self.builder = self.builder.queue(queue);
        self
    }

    /// Its explicit name.
    pub fn name(mut self, name: &str) -> Self {
        self.builder = self.builder.name(name);
        self
    }

    /// Its urgency, unchecked: the manager checks it.
    pub fn urgency(mut self, urgency: i64) -> Self {
        self.urgency = urgency;
        self
    }

    /// The user who submits it.
    pub fn user(mut self, user: u32) -> Self {
        self.user = Uid(user);
        self
    }

    /// It can be waited for; only the owner may submit such a job.
    pub fn waitable(mut self) -> Self {
        self.flags |= Flags::WAITABLE;
        self
    }

    /// Its log tells what is asked of the scheduler and the execution system as well.
    pub fn debug(mut self) -> Self {
        self.flags |= Flags::DEBUG;
        self
    }

    /// Past the checks that the configuration asks for, which only the owner may do.
    pub fn novalidate(mut self) -> Self {
        self.flags |= Flags::NOVALIDATE;
        self
    }

    /// One more attribute below `attributes.system`, dotted keys nest.
    pub fn attribute(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.attributes.push((key.to_owned(), value.into()));
        self
    }

    /// One more dependency, written as on the command line: `afterok:ID`.
    ///
    /// # Panics
    /// When the URI is malformed.
    #[track_caller]
    pub fn dependency(mut self, uri: &str) -> Self {
        match Dependency::from_uri(uri) {
            Ok(dependency) => self.builder = self.builder.dependency(dependency),
            Err(error) => panic!("TestJob::dependency({uri:?}): {error}"),
        }
        self
    }

    /// The request that a client would send.
    pub(super) fn submission(self) -> Result<(Cred, Submission), String> {
        let mut builder = self.builder;
        for (key, value) in self.attributes {
            builder = builder.attribute(&key, value).map_err(|error| error.to_string())?;
        }
        let jobspec: Jobspec = builder.build().map_err(|error| error.to_string())?;
        let cred = Cred { userid: self.user, owner: self.user == Self::OWNER };
        let signed = json!({}).to_string();
        let flags = self.flags.bits();
        Ok((cred, Submission { jobspec, signed, urgency: self.urgency, flags }))
    }
}
