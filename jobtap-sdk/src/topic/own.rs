//! An author's own topics, which one plugin calls and other plugins handle.

use super::{Topic, TopicSet};

/// A topic that an author declared with [`#[topic]`](macro@crate::topic). The type is both the topic and
/// its payload. [`Cx::call`](crate::plugin::Cx::call) calls it.
///
/// ```
/// use jobtap_core::prelude::*;
///
/// /// Which share of the machine does a user have?
/// #[topic("accounts.share", answer = f64)]
/// pub struct ShareOf { pub user: Uid }
///
/// #[derive(Default)]
/// struct Accounts;
///
/// #[jobtap_plugin(name = "accounts")]
/// impl Accounts {
///     #[on(ShareOf)]
///     fn share(&self, question: &ShareOf) -> f64 {
///         if question.user == Uid::new(0) { 1.0 } else { 0.5 }
///     }
/// }
///
/// #[derive(Default)]
/// struct Fair;
///
/// #[jobtap_plugin(name = "fair", after = ["accounts"])]
/// impl Fair {
///     #[on("job.state.priority")]
///     fn priority(&self, job: &Job, cx: Cx<'_, JobStatePriority>) -> Result<Priority, HandlerError> {
///         let shares = cx.call(&ShareOf { user: job.userid() })?;
///         Ok(Priority::clamped(1e6 * shares.iter().sum::<f64>()))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be called by a plugin",
    label = "not a topic of an author's own",
    note = "only the manager calls its own topics; declare one: `#[topic(\"my-plugin.question\", answer = f64)]`"
)]
pub trait OwnTopic: Topic {
    /// The return type of handlers; `()` for a topic that needs no answer.
    type Answer: 'static;
}

/// A type that `#[on(..)]` can name by its path: an author's own topic.
///
/// The code that `#[jobtap_plugin]` generates takes the topic from this trait. For a type that isn't a
/// topic this gives one error: the compiler reports no further errors about a type that it can't
/// determine.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a topic",
    label = "no `#[topic]` made it one",
    note = "declare it: `#[topic(\"my-plugin.question\")]` on the struct; a topic of the manager is named by its string"
)]
pub trait NamedByPath {
    /// The topic.
    type Topic: OwnTopic;
}

/// An author's own topic that is not about a job. [`Cx::call`](crate::plugin::Cx::call) takes it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is a topic about a job, and no job is named",
    label = "which job?",
    note = "name the job: `cx.call_for(job, &topic)`"
)]
pub trait WithoutJob: TopicSet {}
