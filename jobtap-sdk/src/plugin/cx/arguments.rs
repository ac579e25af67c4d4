//! Bounds on the arguments of calls.
//!
//! Where a C interface takes a string, a call of [`Cx`](super::context::Cx) takes a type of its own. Each
//! trait here is implemented by one such type and exists for its compile error: an author who passes the
//! string reads what to pass instead, and not only that two types differ.

use std::time::Duration;

use serde_json::Value;

use super::jobs::{ActiveJob, AddedDependency, CleanupJob, Identified, PendingJob};
use super::jobspec_path::JobspecPath;
use crate::host::EventName;
use crate::job::{Fsd, JobFlag};

/// The name of an event that a plugin posts: an [`EventName`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the name of an event",
    label = "expected an `EventName`, which is checked when the plugin is compiled",
    note = "declare it: `const SEEN: EventName = event_name!(\"my-plugin.seen\");`"
)]
pub trait IsEventName: Is<EventName> {}

impl IsEventName for EventName {}

/// A flag of a job: a [`JobFlag`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a flag of a job",
    label = "expected a `JobFlag`",
    note = "the flags are `JobFlag::AllocBypass`, `JobFlag::Debug` and `JobFlag::Immutable`"
)]
pub trait IsJobFlag: Is<JobFlag> {}

impl IsJobFlag for JobFlag {}

/// A path into a jobspec: a [`JobspecPath`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a path into a jobspec",
    label = "expected a `JobspecPath`, which is checked when the plugin is compiled",
    note = "write `path!(\"attributes.system.duration\")`; for a path that is made at run time, `JobspecPath::try_new(..)?`"
)]
pub trait IsJobspecPath: Is<JobspecPath> {}

impl IsJobspecPath for JobspecPath {}

/// A dependency that was added to a job and is not removed yet: an [`AddedDependency`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a dependency of a job",
    label = "expected an `AddedDependency`",
    note = "`job.dependency(\"license=matlab\")` finds it, and `cx.dependency_add(..)?` returns it"
)]
pub trait IsAddedDependency: AnyAddedDependency {}

impl IsAddedDependency for AddedDependency<'_> {}

/// An active job at every topic: an [`ActiveJob`], or a job that its methods returned.
#[diagnostic::on_unimplemented(
    message = "`{Self}` may be inactive, or not be accepted yet",
    label = "expected a job that can be ended",
    note = "look it up with `cx.active_job(id)?`; of a `JobRef` it is `job.active()`; the current job is ended with `cx.fail(kind, note)`"
)]
pub trait IsActiveJob: Identified {}

impl IsActiveJob for ActiveJob<'_> {}
impl IsActiveJob for PendingJob<'_> {}
impl IsActiveJob for CleanupJob<'_> {}

/// A string: the name of a dependency, a prolog or an epilog, or the type of an exception.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a string",
    label = "expected a string: this call is about the handler's own job, which isn't named",
    note = "leave the job out; for another job call `cx.dependency_add_to`, `cx.epilog_start_of` or `cx.fail_job`"
)]
pub trait IsText {
    /// The string.
    fn into_text(self) -> String;
}

// Without this attribute, an author who passes a job, as in C, reads that `From<&Job>` is not
// implemented for `String`.
#[diagnostic::do_not_recommend]
impl<S: Into<String>> IsText for S {
    fn into_text(self) -> String {
        self.into()
    }
}

/// A number of seconds: a number, or a duration.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no number of seconds",
    label = "expected seconds, a `Duration` or an `Fsd`",
    note = "write `5.0` for five seconds; the time from now to a `Timestamp` is `at - cx.now()`"
)]
pub trait IsSeconds {
    /// The number of seconds.
    fn into_secs(self) -> f64;
}

macro_rules! seconds {
    ($($number:ident)*) => { $(
        impl IsSeconds for $number {
            fn into_secs(self) -> f64 {
                self as f64
            }
        }
    )* };
}
seconds!(f64 i32 u32 i64 u64);

impl IsSeconds for Duration {
    fn into_secs(self) -> f64 {
        self.as_secs_f64()
    }
}

impl IsSeconds for Fsd {
    fn into_secs(self) -> f64 {
        self.as_secs()
    }
}

/// A JSON value: any type that converts into a [`serde_json::Value`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a JSON value",
    label = "expected a string, a number, a bool, a list or a `serde_json::Value`",
    note = "write `serde_json::json!(..)`, or `serde_json::to_value(&it)?` for a type that is `Serialize`; a duration is its seconds"
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
    use super::AddedDependency;

    /// Gives the value behind a trait that only `K` implements.
    pub trait Is<K> {
        fn value(self) -> K;
    }

    impl<K> Is<K> for K {
        fn value(self) -> K {
            self
        }
    }

    /// The same for [`AddedDependency`]. `Is` can't serve a type that borrows: its lifetime would have
    /// to be a parameter of the author's trait.
    pub trait AnyAddedDependency {
        fn added(&self) -> &AddedDependency<'_>;
    }

    impl AnyAddedDependency for AddedDependency<'_> {
        fn added(&self) -> &AddedDependency<'_> {
            self
        }
    }
}
use sealed::{AnyAddedDependency, Is};
