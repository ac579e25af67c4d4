//! The messages to the plugins' thread, and the way its answers come back.

use jobtap_core::host::{JobParts, RemoteCall, RemoteSink, RequestKey};
use jobtap_core::plugin::Node;
use jobtap_core::slurm::{JobDescriptor, JobRecord, Partition, SlurmError};
use jobtap_core::topic::TopicId;
use tokio::sync::mpsc::UnboundedSender;

use crate::daemon::{Part, PrepEnd};

/// A request in Slurm's terms.
#[derive(Debug, Default)]
pub struct Request {
    /// The user who makes it.
    pub user: u32,
    /// The description of the job or of the changes.
    pub descriptor: JobDescriptor,
    /// The partitions that the user may use.
    pub partitions: Vec<Partition>,
    /// The job to be modified; `None` for a submission.
    pub record: Option<JobRecord>,
}

/// What the plugins have decided on a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The description as the plugins have changed it.
    pub descriptor: JobDescriptor,
    /// The error with which the plugins refuse the request, if they do.
    pub refusal: Option<SlurmError>,
    /// The messages to the user, in order, without the text of the refusal.
    pub messages: Vec<String>,
}

/// A prolog or epilog of a job.
#[derive(Debug)]
pub struct PrepCall {
    /// Whether it is a prolog or an epilog.
    pub part: Part,
    /// The topics, in the order in which they are called.
    pub topics: &'static [TopicId],
    /// The job.
    pub job: JobParts,
    /// The node, if the topics are those of slurmd.
    pub node: Option<Node>,
}

/// A message to the plugins' thread.
pub(super) enum Message {
    Request(RequestKey, Box<Request>, Reply<Answer>),
    /// The thread that made the request doesn't wait any more.
    Abandon(RequestKey),
    Prep(RequestKey, Box<PrepCall>, Reply<PrepEnd>),
    /// The job of a prolog or epilog was canceled.
    CancelPrep(RequestKey),
    PrepTimeout(u64),
    /// Read the configuration again.
    Configure,
    Remote(RemoteCall),
    Stop,
}

/// Sends the answer to a message. Dropping it unused reports that no answer will come.
pub(super) struct Reply<T>(Box<dyn FnOnce(Option<T>) + Send>, bool);

impl<T> Reply<T> {
    pub(super) fn new(answer: impl FnOnce(Option<T>) + Send + 'static) -> Self {
        Self(Box::new(answer), true)
    }

    pub(super) fn send(mut self, answer: T) {
        self.1 = false;
        std::mem::replace(&mut self.0, Box::new(|_| ()))(Some(answer));
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if self.1 {
            std::mem::replace(&mut self.0, Box::new(|_| ()))(None);
        }
    }
}

/// Sends messages to the thread.
#[derive(Clone)]
pub(crate) struct Inbox(pub(super) UnboundedSender<Message>);

impl Inbox {
    pub(super) fn send(&self, message: Message) {
        // Fails once the thread has ended. Then the message is dropped, and its `Reply` notifies the thread that waits.
        let _ = self.0.send(message);
    }
}

impl RemoteSink for Inbox {
    fn send(&self, call: RemoteCall) {
        Inbox::send(self, Message::Remote(call));
    }
}
