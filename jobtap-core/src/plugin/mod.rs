//! The plugin interface: what an author writes against.
//!
//! A plugin is a type with an impl block under `#[jobtap_plugin]`; its methods under `#[on]` are
//! called at [topics](mod@crate::topic). What a handler may take is listed at [`FromTopic`], what it
//! may return at [`IntoOutcome`], and what it may ask for are the methods of [`Cx`] and [`Remote`].
//!
//! What runs plugins is [`host`](crate::host). This module doesn't know the engine.

mod conf;
mod cx;
mod data;
mod handler;
mod remote;

pub use conf::{Conf, ConfTable, FromInit, InstanceConf, IntoInit, PolicyLimits};
pub use cx::arguments::{
    IsActiveJob, IsAddedDependency, IsEventName, IsJobFlag, IsJobspecPath, IsJson, IsText,
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
    Data, DataError, DataForm, DataSpec, InstanceData, PluginData, PluginInstanceData, StoredData,
    Upgrade, UpgradeError, VersionedData,
};
pub use handler::asyncs::{AsyncTopic, BareAnswer, IntoAnswer};
#[doc(hidden)]
pub use handler::asyncs::{spawn, spawn_service};
pub use handler::failure::{EpilogFailed, HandlerError, PrologFailed, Reject};
pub use handler::outcome::{Annotations, IntoFailure, IntoOutcome, QueryData};
pub use handler::params::{FromTopic, JobTopic, PrevState};
#[doc(hidden)]
pub use handler::service::reply;
pub use handler::service::{
    Caller, Fallible, IntoReply, Payload, Plain, Refusal, Request, Responder,
};
pub use handler::update::{Update, Updates};
pub use remote::bulk::{Bulk, BulkChild, BulkControl, BulkEnd, BulkStop};
pub use remote::handle::{Ended, Remote, SamePlugin, TimedOut, Timer};
pub use remote::process::{Child, Signals};

// Values that a host has too, which `host` defines.
pub use crate::host::call_error::CallError;
pub use crate::host::command::{JobFlag, Level};
pub use crate::host::event_name::{EventName, InvalidEventName};
pub use crate::host::exception::{Exception, Severity};
pub use crate::host::failure::{ConfError, Gone};
pub use crate::host::outcome::Priority;
pub use crate::host::perilog::Perilog;
pub use crate::host::process::{
    OutputLine, Process, ProcessEnd, ProcessError, ProcessResult, Stream,
};
pub use crate::host::service::{Cred, ServiceError};
pub use crate::host::update::UpdateRequest;

use crate::host::PluginDescriptor;

/// A type that `#[jobtap_plugin]` made a plugin.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a plugin",
    label = "no `#[jobtap_plugin]` impl block",
    note = "put `#[jobtap_plugin(name = \"..\")]` on its impl block"
)]
pub trait Plugin: Sized + 'static {
    /// Its name, handlers and constructor.
    const DESCRIPTOR: &'static PluginDescriptor;
}
