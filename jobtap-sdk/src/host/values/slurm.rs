//! A request in Slurm's terms on its way through the plugins, as a host passes it to their handlers.
//!
//! A host calls the handlers of `slurm.job_submit` and `slurm.job_modify` one after the other on one request.
//! Each sees the changes of those before it. An asynchronous handler gets a copy and returns the changed one,
//! with which the next handler is called.

use std::cell::{OnceCell, RefCell};
use std::fmt;

use futures_util::future::AbortHandle;

use crate::host::off_thread::plugin_future::PluginFuture;
use crate::job::Uid;
use crate::slurm::{JobDescriptor, JobRecord, Partition, SlurmError};

/// Names a request while the plugins decide on it; unique within one run of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey(pub u64);

/// A request that the handlers of one of Slurm's topics decide on.
#[derive(Debug)]
pub struct SlurmRequest {
    /// Names it in commands.
    pub key: RequestKey,
    /// The user who makes the request.
    pub user: Uid,
    /// What is asked for, with the changes of the handlers so far. A handler borrows it while it runs.
    pub descriptor: RefCell<JobDescriptor>,
    /// The queues that the user of the job may not use; a handler sees no partition for them.
    pub hidden_queues: Vec<String>,
    /// The partitions, once a handler has asked for them. A host may set them earlier.
    pub partitions: OnceCell<Vec<Partition>>,
    /// At `slurm.job_modify` the job before the change, once a handler has asked for it. A host may set it
    /// earlier.
    pub record: OnceCell<JobRecord>,
}

impl SlurmRequest {
    /// A user's request that no handler has seen yet.
    pub fn new(key: RequestKey, user: Uid, descriptor: JobDescriptor) -> Self {
        let (hidden_queues, partitions, record) = Default::default();
        let descriptor = RefCell::new(descriptor);
        Self { key, user, descriptor, hidden_queues, partitions, record }
    }
}

/// The decision of an asynchronous handler on a request.
#[derive(Debug)]
pub enum RequestAnswer {
    /// The request goes on: with these changes, or as it is.
    Accept(Option<Box<JobDescriptor>>),
    /// It is refused.
    Refuse(SlurmError),
    /// The handler panicked, or took too long; the text is for the log.
    Failed(String),
}

/// The work of an asynchronous handler on a request.
pub struct RequestWork {
    /// The request.
    pub request: RequestKey,
    /// Aborts the work.
    pub abort: AbortHandle,
    /// The work.
    pub future: PluginFuture,
}

impl fmt::Debug for RequestWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestWork").field("request", &self.request).finish_non_exhaustive()
    }
}
