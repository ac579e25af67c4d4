//! What a plugin crate wants in scope: `use jobtap_core::prelude::*;`.
//!
//! `Deserialize` and `Serialize` are serde's. What they derive names that crate, so who derives them has
//! it in the own `Cargo.toml`: `cargo add serde --features derive`.

pub use serde::{Deserialize, Serialize};

pub use crate::eventlog::EventEntry;
pub use crate::job::{Fsd, Job, JobId, JobInfo, JobResult, State, Timestamp, Uid, Urgency};
pub use crate::jobspec::{Dependency, Jobspec};
pub use crate::plugin::{
    Annotations, CallError, Caller, Child, Conf, ConfError, Cx, Data, EndingJob, EpilogFailed,
    EventName, Exception, HandlerError, Held, InstanceConf, InstanceData, JobFlag, JobRef,
    JobTopic, JobspecPath, Kept, Level, LiveJob, OutputLine, PendingJob, PolicyLimits, PrevState,
    Priority, Process, PrologFailed, QueryData, Reject, Remote, Request, Responder, ServiceError,
    Severity, Stream, Token, Update, UpdateRequest, Updates, UpgradeError,
};
pub use crate::queue::{Queue, Queues};
pub use crate::resource::{Idset, ResourceSet};
pub use crate::topic::*;
pub use crate::{data, init, jobtap_plugin, on, path, service, topic};
