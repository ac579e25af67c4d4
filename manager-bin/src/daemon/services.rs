//! From a topic and its payload to what is wanted: the list of the services, and their decoding.
//!
//! Nothing is done here, so that each service's payload can be tested without a daemon.

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jobtap_core::engine::{Cred, Exception, Request};
use jobtap_core::job::{JobId, StateSet, Uid};
use jobtap_core::queue::Target;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::journal::Wanted;
use super::kvs::KvsCall;
use super::nodes;
use super::reload::ConfigCall;
use super::submit;
use crate::rpc::RpcError;
use crate::rpc::errno::{EINVAL, ENOSYS, EPERM};

/// A decoded request.
#[derive(Debug)]
pub(super) enum Call {
    /// The engine decides.
    Engine(Request),
    /// The engine decides, maybe much later: who leaves meanwhile is forgotten.
    Waiting(Request),
    /// The engine answers again and again.
    Stream(Request),
    /// `job-list.list`, with its payload.
    List(Value),
    /// The engine is only looked at.
    Read(Read),
    /// Stored keys of a job.
    Lookup(Lookup),
    /// An eventlog, as it grows.
    Watch(Watch),
    /// Input for a job's tasks.
    Stdin(Stdin),
    /// Which processes a job's tasks are.
    TaskProcesses(JobId),
    /// The events of all jobs.
    Journal(Wanted),
    /// Any stored key, or all of them.
    Kvs(KvsCall),
    /// The manager's log; in a stream as it grows, with what was there before if true.
    Log(bool),
    /// Forget the log so far.
    ClearLog,
    /// Since when the manager runs, and for whom.
    Uptime,
    /// End, and start again.
    Restart,
    /// The instance's configuration.
    Config(ConfigCall),
    /// A plugin may know the topic.
    Service(Service),
}

/// A request for a service that is none of the manager's own.
#[derive(Debug, PartialEq)]
pub(super) struct Service {
    /// `job-manager.PLUGIN.METHOD`.
    pub topic: String,
    /// What is asked.
    pub payload: Value,
}

/// What can be read from the engine.
#[derive(Debug)]
pub(super) enum Read {
    /// `job-list.list-id`.
    ListId(JobId),
    /// `job-manager.why`.
    Why(JobId),
    /// `resource.status`.
    ResourceStatus,
    /// `sched.resource-status`.
    SchedStatus,
    /// `job-list.job-stats`.
    Stats,
    /// `job-manager.queue-list`.
    QueueNames,
    /// `job-manager.queue-status`, of the queue of this name or of the anonymous one.
    Queue(Option<String>),
    /// `job-manager.queue-overview`: all that a listing of queues can show.
    QueueOverview,
    /// `job-manager.alloc-query`.
    AllocQuery,
    /// `job-manager.getinfo`.
    Info,
    /// `job-manager.stats-get`: how much there is of what the manager keeps.
    ManagerStats,
    /// `job-manager.jobtap` without change: the loaded plugins.
    Plugins,
    /// `job-manager.jobtap-stats`: of one plugin or of all.
    PluginStats(Option<String>),
    /// `job-manager.jobtap-schema`.
    PluginSchema(String),
}

/// `job-info.lookup`.
#[derive(Debug, PartialEq)]
pub(super) struct Lookup {
    /// The job.
    pub id: JobId,
    /// Keys below the job's directory.
    pub keys: Vec<String>,
    /// Whether later updates are applied to `jobspec` and `R`.
    pub current: bool,
}

/// `job-info.eventlog-watch`.
#[derive(Debug, PartialEq)]
pub(super) struct Watch {
    /// The job.
    pub id: JobId,
    /// Which eventlog.
    pub path: Path,
    /// Whether a log that isn't there yet is waited for.
    pub waitcreate: bool,
}

/// `job-exec.stdin`: what somebody who is attached types.
#[derive(Debug, PartialEq)]
pub(super) struct Stdin {
    /// The job.
    pub id: JobId,
    /// The task; `None` is all of them.
    pub rank: Option<u32>,
    /// The bytes, base64 on the wire.
    pub data: Vec<u8>,
    /// Whether the input ends here.
    pub eof: bool,
}

/// The eventlogs that can be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Path {
    /// `eventlog`: the job's life.
    Main,
    /// `guest.exec.eventlog`: its execution.
    Exec,
    /// `guest.output`: what its tasks print.
    Output,
    /// `guest.input`: what they are given to read.
    Input,
    /// A name that no log has.
    Unknown(String),
}

/// The topic of a request to submit.
pub(super) const SUBMIT: &str = "job-ingest.submit";

/// Flag bit of `job-info.lookup`: apply later updates.
const LOOKUP_CURRENT: u64 = 2;
/// Flag bit of `job-info.eventlog-watch`: wait for the log to appear.
const WATCH_WAITCREATE: u64 = 1;

/// What the request with this topic and payload asks for.
pub(super) fn decode(topic: &str, payload: &Value, cred: Cred) -> Result<Call, RpcError> {
    let fields = Fields { topic, payload };
    Ok(match topic {
        SUBMIT => Call::Engine(Request::Submit(Box::new(submit::decode(payload, cred)?))),
        "job-manager.raise" => raise(&fields)?,
        "job-manager.raiseall" => raiseall(&fields)?,
        "job-manager.kill" => Call::Engine(Request::Kill {
            id: fields.required("id")?,
            signum: fields.required("signum")?,
        }),
        "job-manager.urgency" => Call::Engine(Request::Urgency {
            id: fields.required("id")?,
            urgency: fields.required("urgency")?,
        }),
        "job-manager.queue-enable" => Call::Engine(Request::QueueEnable {
            target: target(&fields)?,
            enable: fields.required("enable")?,
            reason: fields.optional("reason")?,
        }),
        "job-manager.queue-start" => Call::Engine(Request::QueueStart {
            target: target(&fields)?,
            start: fields.required("start")?,
            reason: fields.optional("reason")?,
            nocheckpoint: fields.optional("nocheckpoint")?.unwrap_or(false),
        }),
        "job-manager.queue-status" => Call::Read(Read::Queue(fields.optional("name")?)),
        "job-manager.queue-list" => Call::Read(Read::QueueNames),
        "job-manager.queue-overview" => Call::Read(Read::QueueOverview),
        "job-manager.alloc-query" => Call::Read(Read::AllocQuery),
        "job-manager.update" => Call::Engine(Request::Update {
            id: fields.required("id")?,
            updates: fields.required("updates")?,
        }),
        "job-manager.killall" => Call::Engine(Request::KillAll {
            dry_run: fields.required("dry_run")?,
            userid: userid(&fields)?,
            signum: fields.required("signum")?,
        }),
        "job-manager.memo" => Call::Engine(Request::Memo {
            id: fields.required("id")?,
            volatile: fields.optional("volatile")?.unwrap_or(false),
            memo: fields.required("memo")?,
        }),
        "job-manager.purge-id" => Call::Engine(Request::PurgeId {
            id: fields.required("id")?,
            force: fields.optional("force")?.unwrap_or(false),
        }),
        "job-manager.purge" => purge(&fields)?,
        "job-manager.wait" => wait(payload)?,
        "job-manager.drain" => Call::Waiting(Request::Drain),
        "job-manager.idle" => Call::Waiting(Request::Idle),
        "job-manager.jobtap" => jobtap(&fields, cred)?,
        "job-manager.jobtap-query" => {
            Call::Engine(Request::PluginQuery { name: fields.required("name")? })
        }
        "job-manager.jobtap-reload" => jobtap_reload(&fields)?,
        "job-manager.jobtap-stats" => {
            owner(cred)?;
            Call::Read(Read::PluginStats(fields.optional("name")?))
        }
        "job-manager.jobtap-schema" => {
            owner(cred)?;
            Call::Read(Read::PluginSchema(fields.required("name")?))
        }
        "job-manager.events-journal" => Call::Journal(Wanted::decode(&fields, cred)?),
        "job-manager.uptime" => Call::Uptime,
        "job-manager.restart" => owner(cred).map(|()| Call::Restart)?,
        "job-manager.stats-get" => Call::Read(Read::ManagerStats),
        "job-manager.getinfo" => Call::Read(Read::Info),
        "job-list.list" => Call::List(payload.clone()),
        "job-list.list-id" => Call::Read(Read::ListId(fields.required("id")?)),
        "job-manager.why" => Call::Read(Read::Why(fields.required("id")?)),
        "job-list.job-stats" => Call::Read(Read::Stats),
        "job-info.lookup" => Call::Lookup(lookup(&fields)?),
        "job-info.eventlog-watch" => Call::Watch(watch(&fields)?),
        "job-exec.proctable" => Call::TaskProcesses(fields.required("id")?),
        "job-exec.override" => Call::Engine(Request::Override {
            id: fields.required("jobid")?,
            event: fields.required("event")?,
            status: fields.optional("status")?,
        }),
        "job-exec.stdin" => Call::Stdin(stdin(&fields)?),
        "kvs.lookup" | "kvs.list" | "kvs.dump" => Call::Kvs(KvsCall::decode(&fields, cred)?),
        _ if topic.starts_with("resource.") || topic.starts_with("sched.") => {
            nodes::decode(&fields, cred)?
        }
        "log.dmesg" => {
            owner(cred)?;
            Call::Log(!fields.optional("nobacklog")?.unwrap_or(false))
        }
        "log.clear" => owner(cred).map(|()| Call::ClearLog)?,
        "config.get" => owner(cred).map(|()| Call::Config(ConfigCall::Get))?,
        "config.load" => owner(cred).map(|()| Call::Config(ConfigCall::Load(payload.clone())))?,
        "config.reload" => owner(cred).map(|()| Call::Config(ConfigCall::Reload))?,
        // Flux's name for it.
        "job-manager.housekeeping-kill" => {
            let topic = "job-manager.housekeeping.kill".to_owned();
            Call::Service(Service { topic, payload: payload.clone() })
        }
        _ if topic.starts_with("job-manager.") => {
            Call::Service(Service { topic: topic.to_owned(), payload: payload.clone() })
        }
        _ => {
            return Err(RpcError::new(ENOSYS, format!("Unknown service method '{topic}'")));
        }
    })
}

/// Refuses everyone but the owner.
pub(super) fn owner(cred: Cred) -> Result<(), RpcError> {
    if cred.owner {
        Ok(())
    } else {
        Err(RpcError::new(EPERM, "Request requires owner credentials"))
    }
}

/// The queues that a change is about.
fn target(fields: &Fields<'_>) -> Result<Target, RpcError> {
    let all = fields.optional("all")?.unwrap_or(false);
    Ok(Target { name: fields.optional("name")?, all })
}

fn raise(fields: &Fields<'_>) -> Result<Call, RpcError> {
    Ok(Call::Engine(Request::Raise { id: fields.required("id")?, exception: exception(fields)? }))
}

/// The user that a request is about; -1 is all of them.
fn userid(fields: &Fields<'_>) -> Result<Option<Uid>, RpcError> {
    let userid: i64 = fields.required("userid")?;
    Ok(u32::try_from(userid).ok().filter(|uid| *uid != u32::MAX).map(Uid::new))
}

fn purge(fields: &Fields<'_>) -> Result<Call, RpcError> {
    Ok(Call::Engine(Request::Purge {
        age_limit: fields.required("age_limit")?,
        num_limit: fields.required("num_limit")?,
        batch: fields.required("batch")?,
        force: fields.required("force")?,
    }))
}

/// The job to wait for; all bits set is any, which C clients send as -1.
fn wait(payload: &Value) -> Result<Call, RpcError> {
    let id = match payload.get("id") {
        None | Some(Value::Null) => None,
        Some(id) if id.as_i64() == Some(-1) => None,
        Some(id) => {
            let id = JobId::deserialize(id);
            Some(id.map_err(|_| RpcError::proto("malformed wait request"))?)
        }
    };
    Ok(Call::Waiting(Request::Wait { id: id.filter(|id| id.as_u64() != u64::MAX) }))
}

fn raiseall(fields: &Fields<'_>) -> Result<Call, RpcError> {
    Ok(Call::Engine(Request::RaiseAll {
        dry_run: fields.required("dry_run")?,
        userid: userid(fields)?,
        states: StateSet::from_bits(fields.required("states")?),
        exception: exception(fields)?,
    }))
}

fn exception(fields: &Fields<'_>) -> Result<Exception, RpcError> {
    Ok(Exception {
        kind: fields.required("type")?,
        severity: fields.required("severity")?,
        note: fields.optional("note")?.unwrap_or_default(),
    })
}

fn jobtap(fields: &Fields<'_>, cred: Cred) -> Result<Call, RpcError> {
    let load: Option<String> = fields.optional("load")?;
    let remove: Option<String> = fields.optional("remove")?;
    if load.is_none() && remove.is_none() {
        owner(cred)?;
        return Ok(Call::Read(Read::Plugins));
    }
    let conf = fields.optional("conf")?;
    Ok(Call::Engine(Request::Plugins { remove, load, conf }))
}

fn jobtap_reload(fields: &Fields<'_>) -> Result<Call, RpcError> {
    let conf: Option<Value> = fields.optional("conf")?;
    if conf.as_ref().is_some_and(|conf| !conf.is_object()) {
        return Err(RpcError::new(EINVAL, "jobptap: plugin conf must be a JSON object"));
    }
    Ok(Call::Engine(Request::PluginReload { name: fields.required("name")?, conf }))
}

fn lookup(fields: &Fields<'_>) -> Result<Lookup, RpcError> {
    let flags: u64 = fields.optional("flags")?.unwrap_or(0);
    Ok(Lookup {
        id: fields.required("id")?,
        keys: fields.required("keys")?,
        current: flags & LOOKUP_CURRENT != 0,
    })
}

fn watch(fields: &Fields<'_>) -> Result<Watch, RpcError> {
    let flags: u64 = fields.optional("flags")?.unwrap_or(0);
    let path: String = fields.required("path")?;
    let path = match path.as_str() {
        "eventlog" => Path::Main,
        "guest.exec.eventlog" => Path::Exec,
        "guest.output" => Path::Output,
        "guest.input" => Path::Input,
        _ => Path::Unknown(path),
    };
    Ok(Watch { id: fields.required("id")?, path, waitcreate: flags & WATCH_WAITCREATE != 0 })
}

fn stdin(fields: &Fields<'_>) -> Result<Stdin, RpcError> {
    let data: String = fields.optional("data")?.unwrap_or_default();
    let data = BASE64_STANDARD
        .decode(data)
        .map_err(|error| RpcError::proto(format!("{}: 'data': {error}", fields.topic)))?;
    Ok(Stdin {
        id: fields.required("id")?,
        rank: fields.optional("rank")?,
        data,
        eof: fields.optional("eof")?.unwrap_or(false),
    })
}

/// A payload whose fields are taken one by one, so that a refusal names the field.
pub(super) struct Fields<'a> {
    pub(super) topic: &'a str,
    pub(super) payload: &'a Value,
}

impl Fields<'_> {
    /// A field that must be there.
    pub(super) fn required<T: DeserializeOwned>(&self, name: &str) -> Result<T, RpcError> {
        self.optional(name)?
            .ok_or_else(|| RpcError::proto(format!("{}: '{name}' is missing", self.topic)))
    }

    /// A field that may be absent or null.
    pub(super) fn optional<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, RpcError> {
        match self.payload.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => T::deserialize(value)
                .map(Some)
                .map_err(|error| RpcError::proto(format!("{}: '{name}': {error}", self.topic))),
        }
    }
}
