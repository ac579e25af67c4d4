//! The interface that authors of plugins use.
//!
//! A plugin is a type with an impl block under `#[jobtap_plugin]`. Its methods under `#[on]`, the
//! handlers, are called at [topics](mod@crate::topic). [`FromTopic`] lists what a handler may take,
//! [`IntoOutcome`] what it may return, and the methods of [`Cx`] and [`Remote`] are what it may ask for.
//! Most of this is in the [prelude](crate::prelude).
//!
//! This module is built on [`host`](crate::host), which runs plugins. It doesn't know the engine.

mod conf;
mod cx;
mod data;
mod handler;
mod remote;

pub use conf::{Conf, ConfDirectory, ConfTable, FromInit, InstanceConf, IntoInit, PolicyLimits};
pub use cx::annotations::Annotations;
pub use cx::arguments::{
    IsActiveJob, IsAddedDependency, IsEventName, IsJobFlag, IsJobspecPath, IsJson, IsSeconds,
    IsText,
};
pub use cx::call::Call;
pub use cx::context::Cx;
pub use cx::jobs::{
    ActiveJob, AddedDependency, AsActiveJob, AsJob, AsPendingJob, CleanupJob, JobRef, PendingJob,
};
pub use cx::jobspec_path::{InvalidPath, JobspecPath};
pub use cx::retained::Retained;
pub use cx::token::Token;
pub use data::{
    Data, DataError, DataForm, DataSpec, InstanceData, JobsData, PluginData, PluginInstanceData,
    StoredData, Upgrade, UpgradeError, VersionedData,
};
pub use handler::asyncs::{AsyncTopic, BareAnswer, IntoAnswer};
#[doc(hidden)]
pub use handler::asyncs::{decline, is_concerned, spawn, spawn_service};
pub use handler::failure::{
    EpilogFailed, HandlerError, PrologFailed, Reject, ResultExt, TextError,
};
pub use handler::outcome::{IntoFailure, IntoOutcome, QueryData};
pub use handler::params::{FromTopic, JobTopic, PrevState};
#[doc(hidden)]
pub use handler::service::reply;
pub use handler::service::{
    Caller, Fallible, IntoReply, Payload, Plain, Refusal, Request, Responder,
};
pub use handler::slurm::{Descriptor, Partitions, RequestVerdict, SubmitUid, UserMessages};
pub use handler::update::{Update, Updates};
pub use remote::bulk::{Bulk, BulkChild, BulkControl, BulkEnd, BulkStop};
pub use remote::handle::{Ended, OwnsWhatItUses, Remote, SamePlugin, TimedOut};
pub use remote::process::{Child, Signals};
pub use remote::rpc::{IsPayload, IsResponse, Rpc};
pub use remote::timers::Timer;

// Types that also occur in host commands and outcomes, and are therefore defined in `host`.
pub use crate::host::IsError;
pub use crate::host::command::Level;
pub use crate::host::errors::call_error::{CallError, UpdateFault};
pub use crate::host::errors::failure::{ConfError, Gone};
pub use crate::host::off_thread::blocking::BlockingError;
pub use crate::host::off_thread::process::{
    ExitError, OutputLine, Process, ProcessEnd, ProcessError, ProcessResult, Stream,
};
pub use crate::host::off_thread::rpc::RpcError;
pub use crate::host::outcome::{IsPriorityValue, IsScore, Priority};
pub use crate::host::values::allocation::{
    Demand, Fit, OrderedAllocation, PendingJobs, Plan, PlannedOrder, Supply, TableState,
};
pub use crate::host::values::event_name::{EventName, InvalidEventName};
pub use crate::host::values::exception::{Exception, Severity};
pub use crate::host::values::perilog::Perilog;
pub use crate::host::values::prep::Node;
pub use crate::host::values::service::{Cred, ServiceError};
pub use crate::host::values::update::UpdateRequest;
pub use crate::job::JobFlag;

use crate::host::PluginDescriptor;

/// A plugin; `#[jobtap_plugin]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a plugin",
    label = "no `#[jobtap_plugin]` impl block",
    note = "put `#[jobtap_plugin(name = \"..\")]` on its impl block"
)]
pub trait Plugin: Sized + 'static {
    /// The plugin's name, handlers and constructor.
    const DESCRIPTOR: &'static PluginDescriptor;
}

/// Implemented by `#[jobtap_plugin]`. Its name addresses an author who has written a second block: the
/// compiler then reports conflicting implementations of this trait.
#[doc(hidden)]
pub trait AllHandlersInOneImplBlock: Sized + 'static {
    /// See [`Plugin::DESCRIPTOR`].
    const DESCRIPTOR: &'static PluginDescriptor;
}

#[diagnostic::do_not_recommend]
impl<P: AllHandlersInOneImplBlock> Plugin for P {
    const DESCRIPTOR: &'static PluginDescriptor = P::DESCRIPTOR;
}
