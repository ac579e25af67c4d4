//! Topics of an author's own: a question that one plugin asks and others answer, typed.

use super::{Topic, TopicSet};

/// A topic that an author declared with [`#[topic]`](macro@crate::topic). The type is the topic and
/// its payload in one.
///
/// ```
/// use jobtap_core::prelude::*;
///
/// /// What part of the machine is a user's?
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
    /// What each handler answers; `()` for a notice that wants no answer.
    type Answer: 'static;
}

/// A type that `#[on(..)]` can name by its path: an author's own topic.
///
/// The code that `#[jobtap_plugin]` makes takes the topic from here: of a type that is none this is
/// the one error, since what comes of an unknown type isn't judged further.
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

/// A topic that can be called without a job: an own topic that is not about one, called with [`Cx::call`](crate::plugin::Cx::call).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is a topic about a job, and none is given",
    label = "for which job?",
    note = "name the job: `cx.call_for(job, &topic)`"
)]
pub trait WithoutJob: TopicSet {}
