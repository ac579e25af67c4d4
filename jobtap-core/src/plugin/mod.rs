//! The plugin interface: what an author writes against.
//!
//! A plugin is a type with an impl block under `#[jobtap_plugin]`; its methods under `#[on]` are
//! called at [topics](mod@crate::topic). What a handler may take is listed at [`FromTopic`], what it
//! may return at [`IntoOutcome`], and what it may ask for are the methods of [`Cx`] and [`Remote`].
//!
//! What runs plugins is [`host`](crate::host). This module doesn't know the engine.

mod asyncs;
mod bulk;
mod call;
mod conf;
mod cx;
mod cx_everywhere;
mod cx_log;
mod cx_tasks;
mod data;
mod failure;
mod given;
mod jobs;
mod jobspec_path;
mod kept;
mod outcome;
mod params;
mod process;
mod query;
mod remote;
mod service;
mod token;
mod update;

pub use asyncs::{AsyncTopic, BareAnswer, IntoAnswer};
#[doc(hidden)]
pub use asyncs::{spawn, spawn_service};
pub use bulk::{Bulk, BulkChild, BulkControl, BulkEnd, BulkStop};
pub use call::Call;
pub use conf::{Conf, ConfTable, FromInit, InstanceConf, IntoInit, PolicyLimits};
pub use cx::Cx;
pub use data::{
    Data, DataError, DataForm, DataSpec, InstanceData, Place, PluginData, PluginInstanceData,
    StoredData, Upgrade, UpgradeError, VersionedData,
};
pub use failure::{EpilogFailed, HandlerError, PrologFailed, Reject};
pub use given::{IsEventName, IsHeld, IsJobFlag, IsJobspecPath, IsJson, IsLiveJob, IsText};
pub use jobs::{AsJob, AsLiveJob, AsPendingJob, EndingJob, Held, JobRef, LiveJob, PendingJob};
pub use jobspec_path::{InvalidPath, JobspecPath};
pub use kept::Kept;
pub use outcome::{Annotations, IntoFailure, IntoOutcome};
pub use params::{FromTopic, JobTopic, PrevState};
pub use process::{Child, Signals};
pub use query::QueryData;
pub use remote::{Ended, Remote, SamePlugin, TimedOut, Timer};
#[doc(hidden)]
pub use service::reply;
pub use service::{Caller, Fallible, IntoReply, Payload, Plain, Refusal, Request, Responder};
pub use token::Token;
pub use update::{Update, Updates};

// Values that a host has too, which `host` defines.
pub use crate::host::call_error::CallError;
pub use crate::host::command::{JobFlag, Level};
pub use crate::host::event_name::{EventName, InvalidEventName};
pub use crate::host::exception::{Exception, Severity};
pub use crate::host::failure::ConfError;
pub use crate::host::outcome::Priority;
pub use crate::host::perilog::Perilog;
pub use crate::host::process::{
    OutputLine, Process, ProcessEnd, ProcessError, ProcessResult, Stream,
};
pub use crate::host::service::{Cred, ServiceError};
pub use crate::host::update::UpdateRequest;
pub use crate::host::waiting::Gone;

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
