//! What calls ask for by a type of its own, where Flux takes a text: with the compile error for an
//! author who passes one.

use serde_json::Value;

use super::jobs::{EndingJob, Held, Identified, LiveJob, PendingJob};
use super::jobspec_path::JobspecPath;
use crate::host::{EventName, JobFlag};

/// The name of an event that a plugin posts: an [`EventName`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the name of an event",
    label = "an `EventName` is asked for, which is checked when the plugin is compiled",
    note = "declare it: `const SEEN: EventName = EventName::new(\"my-plugin.seen\");`"
)]
pub trait IsEventName: Is<EventName> {}

impl IsEventName for EventName {}

/// A flag of a job: a [`JobFlag`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a flag of a job",
    label = "a `JobFlag` is asked for",
    note = "the flags are `JobFlag::AllocBypass`, `JobFlag::Debug` and `JobFlag::Immutable`"
)]
pub trait IsJobFlag: Is<JobFlag> {}

impl IsJobFlag for JobFlag {}

/// A place in a jobspec: a [`JobspecPath`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a place in a jobspec",
    label = "a `JobspecPath` is asked for, which is checked when the plugin is compiled",
    note = "write `path!(\"attributes.system.duration\")`; one that is made at run time is `JobspecPath::try_new(..)?`"
)]
pub trait IsJobspecPath: Is<JobspecPath> {}

impl IsJobspecPath for JobspecPath {}

/// A dependency that holds a job: a [`Held`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a dependency that holds a job",
    label = "a `Held` is asked for",
    note = "`job.dependency(\"license=matlab\")` finds it, and `cx.dependency_add(..)?` gives it"
)]
pub trait IsHeld: AnyHeld {}

impl IsHeld for Held<'_> {}

/// A job that was accepted and is not over, wherever the call is made: a [`LiveJob`], or what is got
/// from one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` may be over, or not be accepted yet",
    label = "a job that can be ended is asked for",
    note = "look it up with `cx.live(id)?`; of a `JobRef` it is `job.live()`; the current job ends with `cx.fail(kind, note)`"
)]
pub trait IsLiveJob: Identified {}

impl IsLiveJob for LiveJob<'_> {}
impl IsLiveJob for PendingJob<'_> {}
impl IsLiveJob for EndingJob<'_> {}

/// A text: what names a dependency, a prolog or an epilog, and the type of an exception.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a text",
    label = "a text is asked for: this call is about the handler's own job, which isn't named",
    note = "leave the job out; about another job are `cx.dependency_add_to`, `cx.epilog_start_of`, `cx.fail_job`"
)]
pub trait IsText {
    /// The text.
    fn into_text(self) -> String;
}

// An author who passes a job, as in C, would read of `From` for `String`.
#[diagnostic::do_not_recommend]
impl<S: Into<String>> IsText for S {
    fn into_text(self) -> String {
        self.into()
    }
}

/// A value as JSON has it: all that can be made a [`serde_json::Value`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a JSON value",
    label = "a text, a number, a bool, a list or a `serde_json::Value` is asked for",
    note = "write `serde_json::json!(..)`, or `serde_json::to_value(&it)?` for what is `Serialize`; a duration is its seconds"
)]
pub trait IsJson {
    /// The value.
    fn into_json(self) -> Value;
}

#[diagnostic::do_not_recommend]
impl<V: Into<Value>> IsJson for V {
    fn into_json(self) -> Value {
        self.into()
    }
}

mod sealed {
    use super::Held;

    /// Gives the value behind the trait that an author reads of.
    pub trait Is<K> {
        fn value(self) -> K;
    }

    impl<K> Is<K> for K {
        fn value(self) -> K {
            self
        }
    }

    /// The same for [`Held`], which borrows.
    pub trait AnyHeld {
        fn held(&self) -> &Held<'_>;
    }

    impl AnyHeld for Held<'_> {
        fn held(&self) -> &Held<'_> {
            self
        }
    }
}
use sealed::{AnyHeld, Is};
