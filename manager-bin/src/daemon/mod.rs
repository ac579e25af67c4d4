//! The manager itself: the engine on its thread, and around it the store, the executor, the timers,
//! the socket.
//!
//! Start-up and shutdown are in `lifecycle`, in the order that keeps every promise: nothing is
//! acknowledged before it is durable, and nothing is lost that was acknowledged.

mod capture;
mod commit;
pub mod config;
mod effects;
mod engine_thread;
mod execution;
mod hub;
mod lifecycle;
pub mod log;
mod lookup;
mod merge;
mod processes;
mod pulse;
mod records;
mod replies;
pub mod resources;
mod restore;
mod server;
mod services;
pub mod statedir;
mod submit;
mod timers;
mod watch;

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use jobtap_core::engine::{Cred, Engine};
use jobtap_core::job::{Timestamp, Uid};
use serde_json::{Value, json};
use tokio::sync::watch::{Receiver, Sender, channel};

pub use lifecycle::{Daemon, Options, StartError};

use crate::rpc::errno::ENOSPC;
use crate::rpc::{RpcError, RpcResult};
use crate::store::Reserve;
use engine_thread::{EngineHandle, answered, refusal};
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
    execution: execution::Execution,
    log: Arc<log::Log>,
    reserve: Reserve,
}

/// A request that was taken in.
enum Begun {
    /// One answer will come.
    One(Pin<Box<dyn Future<Output = RpcResult> + Send>>),
    /// A stream of answers.
    Watch(Watch),
}

impl Services {
    /// Takes a request in. What goes to the engine is on its way when this returns.
    fn begin(&self, cred: Cred, call: Call) -> Result<Begun, RpcError> {
        Ok(Begun::One(match call {
            Call::Watch(watch) => return Ok(Begun::Watch(watch)),
            Call::Engine(request) => {
                if matches!(request, jobtap_core::engine::Request::Submit(_)) {
                    self.check_space()?;
                }
                Box::pin(answered(self.engine.request(cred, request)))
            }
            Call::Read(read) => Box::pin(answered(self.engine.read(reader(cred, read)))),
            Call::Lookup(request) => {
                let records = self.records.clone();
                Box::pin(async move { lookup::answer(&records, cred, &request) })
            }
            Call::Stdin(input) => {
                self.records.main_log(input.id, cred)?;
                self.execution.stdin(input.id, input.rank, input.data, input.eof);
                Box::pin(async { Ok(json!({})) })
            }
            Call::Log => {
                let lines: Value = self.log.lines().iter().map(log::Line::to_json).collect();
                Box::pin(async move { Ok(json!({ "lines": lines })) })
            }
        }))
    }

    /// New jobs are refused while running ones can still be recorded.
    fn check_space(&self) -> Result<(), RpcError> {
        let checked = self.reserve.check(self.records.store().as_ref());
        checked.map_err(|error| RpcError::new(ENOSPC, format!("no new jobs are accepted: {error}")))
    }
}

fn reader(cred: Cred, read: Read) -> impl FnOnce(&Engine) -> RpcResult + Send + 'static {
    move |engine| match read {
        Read::List(payload) => engine.list(&payload, cred).map_err(refusal),
        Read::ListId(id) => engine.list_id(id, cred).map_err(refusal),
        Read::Stats => Ok(engine.job_stats()),
        Read::Info => Ok(engine.getinfo()),
        Read::Plugins => Ok(plugin_names(engine)),
    }
}

fn plugin_names(engine: &Engine) -> Value {
    let names: Value = engine.plugins().into_iter().map(|plugin| plugin.name.to_string()).collect();
    json!({ "plugins": names })
}
