//! What runs plugins: the seam that a host implements, and the parts that every host needs.
//!
//! A host takes the linked plugins from the [`Registry`], builds each from its [`PluginDescriptor`]
//! and puts it on a [`Stack`] as a [`LoadedPlugin`]. For each topic it goes through
//! [`Stack::handlers`], calls each [`BoundHandler`] with [`Args`], and reads its [`Outcome`]. During
//! the call the handler sees the host as `dyn` [`Host`], and what it asks for is queued as a
//! [`Command`]. The job manager's engine is one host; none of this knows the engine.
//!
//! The typed interface that authors write against, [`plugin`](crate::plugin), is built on this
//! module, which doesn't know it. Values that occur on both sides, such as [`Priority`] and
//! [`Process`], are defined here and exported there.

#[cfg(panic = "abort")]
compile_error!(
    "jobtap catches the panics of plugins: build with `panic = \"unwind\"`, which is the default"
);

// Modules with values that authors name too are open to the crate, so that `plugin` can export them.
mod backend;
pub(crate) mod blocking;
pub(crate) mod call_error;
mod callback;
mod calls;
pub(crate) mod careful;
pub(crate) mod command;
pub(crate) mod descriptor;
#[doc(hidden)]
pub mod errno;
pub(crate) mod event_name;
pub(crate) mod exception;
pub(crate) mod failure;
mod is_error;
mod kind;
mod meter;
mod offers;
mod order;
pub(crate) mod outcome;
mod own_topic;
pub(crate) mod parts;
pub(crate) mod perilog;
pub(crate) mod prep;
pub(crate) mod process;
mod registry;
mod remote;
pub(crate) mod service;
mod setup_error;
pub(crate) mod slurm;
mod stack;
pub(crate) mod task;
pub(crate) mod update;

#[cfg(feature = "linkme")]
#[doc(hidden)]
pub use backend::{JOBTAP_PLUGINS_V1, JOBTAP_SCHEDULERS_V1};
#[cfg(all(feature = "inventory", not(feature = "linkme")))]
#[doc(hidden)]
pub use backend::{Linked, LinkedScheduler};
pub use blocking::{Awaited, BlockingCommand, BlockingWork};
pub use callback::{Args, Detail, Host};
pub use calls::{Calls, PresentCall};
pub use command::{Command, JobWork, LaterCall, RemoteWork, TimerKey, WorkKind};
pub use descriptor::{
    AsyncPolicy, HandlerEntry, HandlerFn, InitArgs, IntroductionOrder, Load, OnRestart,
    PluginDescriptor,
};
pub use failure::{AsyncError, Failure, Panicked, panic_text};
pub use futures_util::future::AbortHandle;
pub use is_error::IsError;
pub use kind::HostKind;
pub use meter::{BUCKETS, HandlerStats, SAMPLE, Ticks};
pub use offers::{
    CALL_OFFERS, CallOffers, Offer, Offers, SERVICE_OFFERS, TOPIC_OFFERS, TopicOffers, call_name,
    topic_named,
};
pub use order::{Placement, arrange};
pub use outcome::{Decisions, Outcome};
pub use own_topic::call_own_handlers;
pub use parts::{JobParts, Lent};
pub use prep::PrepFailure;
pub use process::{LineSink, ProcessAnswer, ProcessCommand, ProcessKey};
pub use registry::{Registry, RegistryBuilder, RegistryError};
pub use remote::{NoReturn, PluginKey, RemoteCall, RemoteHandle, RemoteQueue, RemoteSink};
pub use service::{ReplyTo, Role, ServiceRequest};
pub use setup_error::SetupError;
pub use slurm::{RequestAnswer, RequestKey, RequestWork, SlurmRequest};
pub use stack::{BoundHandler, CallResult, Fault, Handlers, LoadedPlugin, Stack};
pub use task::{Origin, PluginFuture, TIME_BUDGET, over_budget};
pub use update::UpdateDecision;

// For the engine alone.
#[doc(hidden)]
pub use command::work_description;
#[doc(hidden)]
pub use parts::{lent, without_scheduling};

// Public as items of `plugin`.
pub(crate) use call_error::CallError;
pub(crate) use command::Level;
pub(crate) use event_name::EventName;
pub(crate) use exception::Exception;
pub(crate) use failure::ConfError;
pub(crate) use outcome::Priority;
pub(crate) use perilog::Perilog;
pub(crate) use process::{OutputLine, Process, ProcessEnd, ProcessError, ProcessResult};
pub(crate) use service::{Cred, ServiceError};
pub(crate) use update::UpdateRequest;
