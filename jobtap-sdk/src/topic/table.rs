//! The topics of the job manager, one type each, from the table in `jobtap-topics`.

use super::caps::*;
use super::{OnFailure, Topic, TopicInfo, TopicSet, WithoutJob};

/// Makes the types of the table in `jobtap-topics`.
macro_rules! declare {
    (
        topics { $(
            $(#[$doc:meta])*
            $name:ident = $string:literal $([$_example:literal])?, $policy:ident $(, $async:ident)?:
            $($capability:ident)*;
        )* }
        events { $(
            $(#[$event_doc:meta])*
            $event:ident = $event_string:literal: $($event_capability:ident)*;
        )* }
    ) => {
        $(
            declare! {
                @type $(#[$doc])* $name = $string,
                OnFailure::$policy, TopicId::$name; $($capability)*
            }
        )*
        $(
            declare! {
                @type $(#[$event_doc])* $event = JobEvent::NAME,
                JobEvent::ON_FAILURE, JobEvent::ID; $($event_capability)*
            }
        )*

        /// The indices of the topics in [`TOPICS`].
        enum Index {
            $( $name, )*
            Unlisted,
        }

        // Named as the types are: `TopicId::JobNew` is the value of `JobNew`.
        #[allow(non_upper_case_globals)]
        impl TopicId {
            $(
                #[doc = concat!("`", $string, "`")]
                pub const $name: TopicId = TopicId(Index::$name as u8);
            )*
            /// What is not in [`TOPICS`] but looked up by its name: authors' own topics, and plugin services.
            pub const Unlisted: TopicId = TopicId(Index::Unlisted as u8);
        }

        /// Every topic of the job manager, in the order of a job's life.
        pub const TOPICS: &[TopicInfo] = &[
            $( TopicInfo {
                name: $string,
                type_name: stringify!($name),
                on_failure: OnFailure::$policy,
                may_be_async: declare!(@is $($async)?),
                capabilities: &[$(stringify!($capability)),*],
            }, )*
        ];

        /// The members of `job.event.NAME` that have more or fewer capabilities than other events.
        pub const EVENT_TOPICS: &[TopicInfo] = &[
            $( TopicInfo {
                name: $event_string,
                type_name: stringify!($event),
                on_failure: JobEvent::ON_FAILURE,
                may_be_async: false,
                capabilities: &[$(stringify!($event_capability)),*],
            }, )*
        ];
    };
    (
        @type $(#[$doc:meta])* $name:ident = $string:expr,
        $policy:expr, $id:expr; $($capability:ident)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name;

        impl TopicSet for $name {}
        impl Topic for $name {
            const NAME: &'static str = $string;
            const ON_FAILURE: OnFailure = $policy;
            const ID: TopicId = $id;
        }
        $( impl $capability for $name {} )*
        // With this impl, `cx.call(&JobNew)` has one error: that it isn't an author's own topic.
        #[diagnostic::do_not_recommend]
        impl WithoutJob for $name {}
    };
    (@is) => { false };
    (@is async) => { true };
}

jobtap_topics::topics!(declare);

/// The topics of the job manager as values, in the order of [`TOPICS`].
///
/// This is not an enum, since the compiler shortens a path in its messages only when no other type or
/// variant has the same name, and messages should read `JobNew`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicId(u8);

impl std::fmt::Debug for TopicId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl TopicId {
    /// The number of topics that the job manager has.
    pub const COUNT: usize = TopicId::Unlisted.index();

    /// Returns the topic's index in [`TOPICS`]. Unlisted topics have the index after the last.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the topic's properties; `None` for [`Unlisted`](Self::Unlisted).
    pub fn info(self) -> Option<&'static TopicInfo> {
        TOPICS.get(self.index())
    }

    /// Returns the topic's string.
    pub fn name(self) -> &'static str {
        self.info().map_or("an own topic", |info| info.name)
    }

    /// Returns what happens to a job when a handler fails here.
    pub fn on_failure(self) -> OnFailure {
        self.info().map_or(OnFailure::Log, |info| info.on_failure)
    }

    /// Returns whether `job.*` stands for this topic too.
    pub fn is_job_topic(self) -> bool {
        self.name().starts_with("job.")
    }

    /// Returns whether `job.state.*` stands for this topic too.
    pub fn is_state_topic(self) -> bool {
        self.name().starts_with("job.state.")
    }
}

/// The topic of closures that [`Remote`](crate::plugin::Remote) runs with plugin `P`. There is no current
/// job. `#[on]` doesn't take it.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # #[derive(Default)]
/// # struct Site;
/// fn look(site: &mut Site, id: JobId, cx: &Cx<'_, Later<Site>>) -> Result<(), CallError> {
///     let job = cx.active_job(id)?;
///     Ok(cx.memo(job, "site", "looked at later")?)
/// }
/// ```
pub struct Later<P = ()>(std::marker::PhantomData<fn(P)>);

impl<P: 'static> TopicSet for Later<P> {}

/// The topic of plugin services, methods under `#[service]`. There is no current job. `#[on]` doesn't take
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service;

impl TopicSet for Service {}
impl Topic for Service {
    const NAME: &'static str = "service";
    const ON_FAILURE: OnFailure = OnFailure::Reject;
    // Services and authors' own topics share one id and one list of handlers: both are looked up by name.
    const ID: TopicId = TopicId::Unlisted;
}
impl HasRequest for Service {}
impl ReturnsReply for Service {}
