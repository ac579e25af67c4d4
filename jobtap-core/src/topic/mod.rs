//! Topics: the moments in a job's life at which a plugin is called, as types.
//!
//! `#[on("job.validate")]` names a topic by its string; in signatures the same topic is the type
//! [`JobValidate`]. What a handler may take, return and call at a topic is written as traits that
//! its type implements ([`HasResources`], [`ReturnsPriority`], [`AllowsProlog`], …), so a misuse is
//! a compile error that names the topic.

mod caps;
mod own;
mod sets;
mod table;

pub use caps::*;
pub use own::*;
pub use table::*;

/// One topic.
///
/// Implemented by the types of this module; an author's own topics come as types too, named in
/// `#[on]` by their path.
pub trait Topic: TopicSet + Sized {
    /// The topic string; a member of a family is written with `*`, as in `job.dependency.*`.
    const NAME: &'static str;

    /// What happens to a job when a handler fails here.
    const ON_FAILURE: OnFailure;

    /// The topic as a value; [`TopicId::Own`] for an author's own.
    const ID: TopicId;
}

/// One topic, or the tuple of those that a handler serves together.
///
/// A handler on several topics takes only what all of them offer: the tuple implements a
/// capability when each member does.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a topic",
    label = "a topic is expected here",
    note = "name one topic type, or a tuple of them in the order of `#[on]`: `Cx<'_, (JobNew, JobValidate)>`"
)]
pub trait TopicSet: 'static {}

/// What happens to the job when a handler fails, by an error or a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// The topic is a gate: the job or the request is refused.
    Reject,
    /// The job goes on; the fault is logged with plugin and topic.
    Log,
}

/// A row of the table of topics.
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
