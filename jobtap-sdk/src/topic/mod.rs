//! Topics: the moments in the life of a job at which plugins are called, as types.
//!
//! `#[on("job.validate")]` names a topic by its string; in signatures the same topic is the type
//! [`JobValidate`]. A topic implements a trait for each of its capabilities: what a handler may take
//! ([`HasResources`]), return ([`ReturnsPriority`]) and call ([`AllowsProlog`]). So a misuse is a compile
//! error that names the topic.

mod caps;
mod own;
mod sets;
mod table;

pub use caps::{
    AllowsDependencyAdd, AllowsEpilog, AllowsFatal, AllowsJobspecUpdate, AllowsProlog,
    AllowsRetain, AllowsUserMessage, HasActiveJob, HasCause, HasConf, HasDemand, HasDependency,
    HasDescriptor, HasEntry, HasJob, HasJobRecord, HasMember, HasNode, HasOwnConf, HasOwned,
    HasPartitions, HasPendingJob, HasPrevState, HasRequest, HasResources, HasSubmitUid,
    HasUpdateRequest, HasUpdates, ReturnsAnnotations, ReturnsConf, ReturnsEnd, ReturnsFault,
    ReturnsPlan, ReturnsPriority, ReturnsQuery, ReturnsQueryFailure, ReturnsReply,
    ReturnsResources, ReturnsSlurmError, ReturnsUnit, ReturnsUpdate, ReturnsVerdict,
};
pub use own::{NamedByPath, OwnTopic, WithoutJob};
// A macro declares these types from the table, so only the table lists their names.
pub use table::*;

/// One topic.
///
/// The types of this module implement it, and so do an author's own topics, which `#[on]` names by their
/// path.
pub trait Topic: TopicSet + Sized {
    /// The topic string; a member of a family is written with `*`, as in `job.dependency.*`.
    const NAME: &'static str;

    /// What happens to a job when a handler fails here.
    const ON_FAILURE: OnFailure;

    /// The topic as a value; [`TopicId::Unlisted`] for an author's own.
    const ID: TopicId;
}

/// One topic, or a tuple of the topics that one handler handles.
///
/// A tuple has a capability if all its members have it. So a handler of several topics takes, returns
/// and calls only what all of them allow.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a topic",
    label = "a topic is expected here",
    note = "name one topic type, or a tuple of them in the order of `#[on]`: `Cx<'_, (JobNew, JobValidate)>`; a function for handlers of several topics is generic: `fn f<T: TopicSet>(cx: &Cx<'_, T>)`"
)]
pub trait TopicSet: 'static {}

/// What an error or a panic of a handler does to the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// The job or the request is refused.
    Reject,
    /// The job goes on. The failure is logged with plugin and topic.
    Log,
}

/// The properties of a topic, for tools and tables that list topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicInfo {
    /// The string that `#[on]` takes; a family is written with `*`.
    pub name: &'static str,
    /// Its type in this module.
    pub type_name: &'static str,
    /// What happens to a job when a handler fails.
    pub on_failure: OnFailure,
    /// Whether a handler may be `async`: something waits for its answer.
    pub may_be_async: bool,
    /// The capabilities that its type implements, by their names in this module.
    pub capabilities: &'static [&'static str],
}
