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
mod callback;
pub(crate) mod careful;
pub(crate) mod command;
pub(crate) mod errors;
mod kind;
pub(crate) mod linked;
mod metering;
pub(crate) mod off_thread;
mod offers;
pub(crate) mod outcome;
mod own_topic;
pub(crate) mod parts;
mod stack;
pub(crate) mod values;

pub use callback::{Args, Detail, Host};
pub use command::{Command, JobWork, LaterCall, RemoteWork, TimerDue, TimerKey, WorkKind};
#[doc(hidden)]
pub use errors::errno;
pub use errors::failure::{AsyncError, Failure, Panicked, panic_text};
pub use errors::is_error::IsError;
pub use errors::setup_error::SetupError;
pub use futures_util::future::AbortHandle;
pub use kind::HostKind;
#[cfg(feature = "linkme")]
#[doc(hidden)]
pub use linked::backend::{JOBTAP_PLUGINS_V1, JOBTAP_SCHEDULERS_V1};
#[cfg(all(feature = "inventory", not(feature = "linkme")))]
#[doc(hidden)]
pub use linked::backend::{Linked, LinkedScheduler};
pub use linked::descriptor::{
    AsyncPolicy, HandlerEntry, HandlerFn, InitArgs, IntroductionOrder, Load, OnRestart,
    PluginDescriptor,
};
pub use linked::order::{Placement, arrange};
pub use linked::registry::{Registry, RegistryBuilder, RegistryError};
pub use metering::calls::{Calls, PresentCall};
pub use metering::meter::{BUCKETS, HandlerStats, SAMPLE, Ticks};
pub use off_thread::blocking::{Awaited, BlockingCommand, BlockingWork};
pub use off_thread::plugin_future::{Origin, PluginFuture, TIME_BUDGET, over_budget};
pub use off_thread::process::{LineSink, ProcessAnswer, ProcessCommand, ProcessKey};
pub use off_thread::remote::{
    NoReturn, PluginKey, RemoteCall, RemoteHandle, RemoteQueue, RemoteSink,
};
pub use off_thread::rpc::{RpcAnswer, RpcCommand, RpcKey, RpcRequest};
pub use offers::{
    CALL_OFFERS, CallOffers, Offer, Offers, SERVICE_OFFERS, TOPIC_OFFERS, TopicOffers, call_name,
    topic_named,
};
pub use outcome::{Decisions, Outcome};
pub use own_topic::call_own_handlers;
pub use parts::{JobParts, Lent};
pub use stack::{BoundHandler, CallResult, Fault, Handlers, LoadedPlugin, Stack};
pub use values::prep::PrepFailure;
pub use values::service::{ReplyTo, Role, ServiceRequest};
pub use values::slurm::{RequestAnswer, RequestKey, RequestWork, SlurmRequest};
pub use values::update::UpdateDecision;

// For the engine alone.
#[doc(hidden)]
pub use command::work_description;
#[doc(hidden)]
pub use parts::{lent, without_scheduling};

// Public as items of `plugin`.
pub(crate) use command::Level;
pub(crate) use errors::call_error::CallError;
pub(crate) use errors::failure::ConfError;
pub(crate) use off_thread::process::{
    OutputLine, Process, ProcessEnd, ProcessError, ProcessResult,
};
pub(crate) use outcome::Priority;
pub(crate) use values::event_name::EventName;
pub(crate) use values::exception::Exception;
pub(crate) use values::perilog::Perilog;
pub(crate) use values::service::{Cred, ServiceError};
pub(crate) use values::update::UpdateRequest;
