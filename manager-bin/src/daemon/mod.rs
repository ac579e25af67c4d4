//! The manager itself: the engine on its thread, and around it the store, the executor, the timers,
//! the socket.
//!
//! Start, restart and end are in `lifecycle`, what they bring up in `boot`, in the order that keeps
//! every promise: nothing is acknowledged before it is durable, and nothing is lost that was
//! acknowledged.

pub(crate) mod audit;
mod boot;
mod capture;
mod commit;
pub mod config;
mod config_keys;
mod effects;
mod engine_thread;
mod execution;
mod host_limits;
mod hub;
mod index;
mod intake;
mod journal;
mod kvs;
mod lifecycle;
mod listing;
pub mod log;
mod lookup;
mod merge;
mod nodes;
mod placement;
mod plugin_reads;
mod privacy;
mod process_queue;
mod processes;
mod pulse;
mod records;
mod reload;
mod replies;
pub mod resources;
mod restore;
mod server;
mod services;
mod settings;
pub mod statedir;
mod submit;
mod submit_size;
mod task_processes;
mod timers;
mod watch;

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jobtap_core::engine::{Cred, Engine, Request};
use jobtap_core::job::{Timestamp, Uid};
use jobtap_core::jobspec::Jobspec;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::sync::watch::{Receiver, Sender, channel};

pub use audit::AuditError;
pub(crate) use commit::ops as store_ops;
pub use lifecycle::{Daemon, Options, StartError};
pub(crate) use submit::wrap as token;

use crate::rpc::errno::{EINVAL, ENOSPC, ENOSYS, ETIMEDOUT};
use crate::rpc::{RpcError, RpcResult};
use crate::stderr;
use crate::store::Reserve;
use engine_thread::{EngineHandle, answered, refusal};
use replies::Answers;
use services::{Call, Read, Watch};

/// The time that goes into events.
pub fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_secs(elapsed.as_secs_f64())
}

/// The words of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into())
}

/// Where a thread says that the manager can't go on. The first reason counts.
#[derive(Clone)]
pub struct Failure(Sender<Option<String>>);

impl Failure {
    fn new() -> (Self, Receiver<Option<String>>) {
        let (sender, receiver) = channel(None);
        (Self(sender), receiver)
    }

    /// Ends the manager with this reason.
    pub fn report(&self, reason: String) {
        self.0.send_if_modified(|slot| {
            let first = slot.is_none();
            if first {
                *slot = Some(reason);
            }
            first
        });
    }
}

/// What requests are served with.
pub struct Services {
    owner: Uid,
    engine: EngineHandle,
    records: records::Records,
    hub: Arc<hub::Hub>,
    journal: Arc<journal::Journal>,
    audit: audit::Audit,
    execution: execution::Execution,
    log: Arc<log::Log>,
    configuration: Arc<reload::Configuration>,
    privacy: Arc<privacy::Privacy>,
    reserve: Reserve,
    limits: host_limits::HostLimits,
    restart: Notify,
}

/// How long an executor has to say which processes it runs: one that dies meanwhile says nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer that will come.
type Answer = Pin<Box<dyn Future<Output = RpcResult> + Send>>;

fn at_once(answer: Value) -> Answer {
    Box::pin(async { Ok(answer) })
}

/// A request that was taken in.
enum Begun {
    /// One answer will come.
    One(Answer),
    /// A job's log, as it grows.
    Watch(Watch),
    /// A listing of jobs.
    Listing(Pin<Box<dyn Future<Output = Result<listing::Listing, RpcError>> + Send>>),
    /// Answers from a plugin.
    Stream(Answers),
    /// Answers of the manager's own, until the first error.
    Feed(tokio::sync::mpsc::Receiver<RpcResult>),
}

impl Services {
    /// Takes a request in, of the client that has this way to the engine. What goes there is on its way
    /// when this returns. `streaming`: any number of answers is expected.
    fn begin(
        &self,
        client: &EngineHandle,
        cred: Cred,
        call: Call,
        streaming: bool,
    ) -> Result<Begun, RpcError> {
        Ok(Begun::One(match call {
            Call::Watch(watch) => return Ok(Begun::Watch(watch)),
            Call::Journal(wanted) => return self.follow_journal(client, cred, wanted, streaming),
            Call::Engine(request) => {
                if let Request::Submit(submission) = &request {
                    self.check_space()?;
                    self.check_limits(&submission.jobspec)?;
                }
                Box::pin(answered(client.request(cred, request)))
            }
            Call::Waiting(request) => {
                let mut answers = client.stream(cred, request);
                Box::pin(async move { answers.next().await })
            }
            Call::Stream(request) => {
                return Ok(Begun::Stream(client.stream(cred, request)));
            }
            Call::List(payload) => {
                return Ok(Begun::Listing(Box::pin(listing::begin(client.clone(), payload))));
            }
            Call::Read(Read::ManagerStats) => self.manager_stats(client, cred),
            Call::Read(read) => Box::pin(answered(client.read(self.reader(cred, read)))),
            Call::Config(call) => Box::pin(Arc::clone(&self.configuration).call(cred, call)),
            Call::Service(services::Service { topic, payload }) => {
                let request = Request::Service { topic, payload, streaming };
                let mut answers = client.stream(cred, request);
                if streaming {
                    return Ok(Begun::Stream(answers));
                }
                Box::pin(async move { answers.next().await })
            }
            Call::Lookup(request) => {
                let records = self.records.clone();
                Box::pin(async move { lookup::answer(&records, cred, &request) })
            }
            Call::Kvs(call) => {
                let (engine, records) = (client.clone(), self.records.clone());
                Box::pin(kvs::answer(engine, records, cred, call))
            }
            Call::Stdin(input) => {
                self.records.main_log(input.id, cred)?;
                self.execution.stdin(input.id, input.rank, input.data, input.eof);
                at_once(json!({}))
            }
            Call::TaskProcesses(id) => {
                self.records.main_log(id, cred)?;
                let told = tokio::time::timeout(PATIENCE, self.execution.tasks(id));
                Box::pin(async move {
                    let silent = |_| RpcError::new(ETIMEDOUT, "the shepherd doesn't answer");
                    let tasks = told.await.map_err(silent)?.unwrap_or_default();
                    Ok(json!({ "tasks": tasks }))
                })
            }
            Call::Log(backlog) if streaming => {
                return Ok(Begun::Feed(self.log.follow(backlog)));
            }
            Call::Log(_) => {
                let lines: Value = self.log.lines().iter().map(log::Line::to_json).collect();
                at_once(json!({ "lines": lines }))
            }
            Call::ClearLog => {
                self.log.clear();
                at_once(json!({}))
            }
            Call::Restart => {
                self.restart.notify_one();
                at_once(json!({ "pid": std::process::id() }))
            }
            Call::Uptime => {
                at_once(json!({ "starttime": self.audit.since(), "owner": self.owner }))
            }
        }))
    }

    /// `job-manager.stats-get`, of which a part is a plugin's to tell.
    fn manager_stats(&self, client: &EngineHandle, cred: Cred) -> Answer {
        let stats = answered(client.read(self.reader(cred, Read::ManagerStats)));
        let topic = "job-manager.housekeeping.list".to_owned();
        let request = Request::Service { topic, payload: json!({}), streaming: false };
        let mut housekeeping = client.stream(cred, request);
        Box::pin(async move {
            let mut stats = stats.await?;
            // Where it isn't configured nobody answers, and nothing runs.
            let told = match housekeeping.next().await {
                Err(error) if error.errno == ENOSYS => json!({ "running": {}, "config": {} }),
                told => told?,
            };
            if let Some(stats) = stats.as_object_mut() {
                stats.insert("housekeeping".to_owned(), told);
            }
            Ok(stats)
        })
    }

    fn follow_journal(
        &self,
        client: &EngineHandle,
        cred: Cred,
        wanted: journal::Wanted,
        streaming: bool,
    ) -> Result<Begun, RpcError> {
        if !streaming {
            return Err(RpcError::proto("job-manager.events requires streaming RPC flag"));
        }
        let (engine, records) = (client.clone(), self.records.clone());
        Ok(Begun::Feed(journal::stream(&self.journal, engine, records, cred, wanted)))
    }

    /// New jobs are refused while running ones can still be recorded.
    fn check_space(&self) -> Result<(), RpcError> {
        let checked = self.reserve.check(self.records.store().as_ref());
        checked.map_err(|error| RpcError::new(ENOSPC, format!("no new jobs are accepted: {error}")))
    }

    /// Jobs are refused that no host can run.
    fn check_limits(&self, jobspec: &Jobspec) -> Result<(), RpcError> {
        let checked = self.limits.check(jobspec);
        checked.map_err(|excess| RpcError::new(EINVAL, excess.to_string()))
    }

    fn reader(&self, cred: Cred, read: Read) -> impl FnOnce(&Engine) -> RpcResult + Send + 'static {
        let linked = self.configuration.linked.clone();
        let listeners = self.journal.listeners();
        move |engine| match read {
            Read::ListId(id) => engine.list_id(id).map_err(refusal),
            Read::Why(id) => engine.why(id, cred).map_err(refusal),
            Read::ResourceStatus => Ok(engine.resource_status()),
            Read::SchedStatus => Ok(engine.sched_resource_status()),
            Read::Stats => Ok(engine.job_stats()),
            Read::QueueNames => Ok(engine.queue_names()),
            Read::Queue(name) => engine.queue_status(name.as_deref()).map_err(refusal),
            Read::QueueOverview => Ok(engine.queue_overview()),
            Read::AllocQuery => Ok(engine.alloc_query()),
            Read::Info => Ok(engine.getinfo()),
            Read::ManagerStats => Ok(manager_stats(engine, listeners)),
            Read::Plugins => Ok(plugin_reads::list(engine, &linked)),
            Read::PluginStats(name) => {
                engine.plugin_stats(name.as_deref()).map(plugin_reads::stats).map_err(refusal)
            }
            Read::PluginSchema(name) => {
                let schema = engine.plugin_schema(&name).map_err(refusal)?;
                Ok(json!({ "schema": schema }))
            }
        }
    }
}

/// The answer to `job-manager.stats-get`.
fn manager_stats(engine: &Engine, listeners: usize) -> Value {
    let (stats, info) = (engine.job_stats(), engine.getinfo());
    let jobs = |state: &str| {
        stats.pointer(&format!("/job_states/{state}")).and_then(Value::as_u64).unwrap_or(0)
    };
    let inactive = jobs("inactive");
    json!({
        "journal": { "listeners": listeners },
        "active_jobs": jobs("total").saturating_sub(inactive),
        "inactive_jobs": inactive,
        "max_jobid": info.get("max_jobid"),
        "stderr": { "dropped": stderr::dropped() },
    })
}
