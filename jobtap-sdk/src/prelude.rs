//! The names that most plugins need: `use jobtap_core::prelude::*;`.
//!
//! `Deserialize` and `Serialize` are serde's, and `JsonSchema` is schemars'. The code that they derive
//! names those crates, so a crate that derives them must depend on them: `cargo add serde --features
//! derive`, `cargo add schemars`. [`json!`](serde_json::json) is re-exported here; for
//! `serde_json::Value` and the rest, depend on serde_json: `cargo add serde_json`.

pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};
pub use serde_json::json;

pub use crate::eventlog::EventEntry;
pub use crate::job::{
    Flags, Fsd, Job, JobId, JobInfo, JobResult, State, Timestamp, Uid, Urgency, WaitStatus,
};
pub use crate::jobspec::{Dependency, Jobspec};
pub use crate::plugin::ResultExt as _;
pub use crate::plugin::{
    ActiveJob, AddedDependency, Annotations, CallError, Caller, Child, CleanupJob, Conf, ConfError,
    Cx, Data, DataError, Demand, Descriptor, EpilogFailed, EventName, Exception, HandlerError,
    InstanceConf, InstanceData, JobFlag, JobRef, JobTopic, JobsData, JobspecPath, Level, Node,
    OutputLine, Partitions, PendingJob, Plan, PolicyLimits, PrevState, Priority, Process,
    ProcessEnd, PrologFailed, QueryData, Reject, Remote, Request, Responder, Retained, RpcError,
    ServiceError, Severity, Stream, SubmitUid, Timer, Token, Update, UpdateRequest, Updates,
    UpgradeError, UserMessages,
};
pub use crate::queue::{Queue, Queues};
pub use crate::resource::{Idset, ResourceSet};
pub use crate::topic::*;
pub use crate::{data, event_name, init, jobtap_plugin, on, path, service, severity, topic};
