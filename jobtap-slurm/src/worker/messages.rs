//! What the thread of the plugins is asked, and how the answers come back.

use jobtap_core::host::{JobParts, RemoteCall, RemoteSink, RequestKey};
use jobtap_core::plugin::Node;
use jobtap_core::slurm::{JobDescriptor, JobRecord, Partition, SlurmError};
use jobtap_core::topic::TopicId;
use tokio::sync::mpsc::UnboundedSender;

use crate::daemon::PrepEnd;

/// A request in Slurm's terms.
#[derive(Debug, Default)]
pub struct Request {
    /// The user who makes it.
    pub user: u32,
    /// What is asked for.
    pub descriptor: JobDescriptor,
    /// The partitions that the user may use.
    pub partitions: Vec<Partition>,
    /// The job that is to be changed; `None` for a submission.
    pub record: Option<JobRecord>,
}

/// What the plugins have decided on a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What is asked for now.
    pub descriptor: JobDescriptor,
    /// Why the request is refused, if it is.
    pub refusal: Option<SlurmError>,
    /// The messages to the user, in their order. The text of the refusal is not among them.
    pub messages: Vec<String>,
}

/// A prolog or epilog of a job.
#[derive(Debug)]
pub struct PrepCall {
    /// The topics, in the order in which they are called.
    pub topics: &'static [TopicId],
    /// The job.
    pub job: JobParts,
    /// The node, at the topics of nodes.
    pub node: Option<Node>,
}

/// What the thread is sent.
pub(super) enum Message {
    Request(RequestKey, Box<Request>, Reply<Answer>),
    /// The request's thread waits no longer.
    Abandon(RequestKey),
    Prep(RequestKey, Box<PrepCall>, Reply<PrepEnd>),
    /// The job of a prolog or epilog was cancelled.
    CancelPrep(RequestKey),
    PrepTimeout(u64),
    /// Read the configuration again.
    Configure,
    Remote(RemoteCall),
    Stop,
}

/// Takes the answer to what the thread was asked. A value that is dropped unused tells that no answer will
/// come.
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
        // Fails once the thread has ended. What waits for an answer is told by its `Reply`, which is dropped here.
        let _ = self.0.send(message);
    }
}

impl RemoteSink for Inbox {
    fn send(&self, call: RemoteCall) {
        Inbox::send(self, Message::Remote(call));
    }
}
