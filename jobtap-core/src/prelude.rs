//! What a plugin crate wants in scope: `use jobtap_core::prelude::*;`.

pub use serde::{Deserialize, Serialize};

pub use crate::eventlog::EventEntry;
pub use crate::job::{Fsd, Job, JobId, JobInfo, JobResult, State, Timestamp, Uid, Urgency};
pub use crate::jobspec::{Dependency, Jobspec};
pub use crate::plugin::{
    Annotations, CallError, Conf, ConfError, Cx, Data, EpilogFailed, Exception, HandlerError,
    InstanceConf, JobRef, Level, PrevState, Priority, PrologFailed, Reject, Remote, Severity,
    Token,
};
pub use crate::resource::ResourceSet;
pub use crate::topic::*;
pub use crate::{init, jobtap_plugin, on};
