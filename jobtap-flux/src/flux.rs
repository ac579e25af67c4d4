//! The functions of Flux that the adapter uses, as a safe trait with the names of libflux's functions.
//!
//! In a broker the trait calls libflux ([`ffi`](crate::ffi)). In unit tests a double implements it and records
//! the calls, so that the adapter's rules can be tested without Flux.

use std::ffi::CStr;
use std::{fmt, io};

use jobtap_core::host::{ReplyTo, RpcKey, RpcRequest};
use jobtap_core::job::JobId;
use jobtap_core::plugin::Level;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::runtime::Runtime;
pub use crate::runtime::Workers;

/// A JSON value that Flux lends to the adapter.
pub trait Lend: Clone + Send + 'static {
    /// Reads the value.
    ///
    /// # Errors
    /// Why the value isn't a `T`.
    fn read<T: DeserializeOwned>(&self) -> Result<T, ReadError>;

    /// Returns a member of an object.
    fn get(&self, key: &str) -> Option<Self>;

    /// Returns a member of an object if it is an integer. This is faster than [`get`](Self::get), and each call reads
    /// several.
    fn integer(&self, key: &CStr) -> Option<i64>;
}

/// Why a JSON value can't be read as a type, in serde's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(String);

impl serde::de::Error for ReadError {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self(text.to_string())
    }
}

/// Why keys in the KVS can't be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KvsError {
    /// A function of Flux has failed.
    #[error(transparent)]
    Call(#[from] Errno),
    /// A value can't be added to the transaction.
    #[error("{key}: {errno}")]
    Put {
        /// The key of the value.
        key: String,
        /// The error of the function.
        errno: Errno,
    },
    /// Flux has answered the request with an error, in its own words.
    #[error("{0}")]
    Refused(String),
}

/// An error number of errno.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// No such file or directory. In Flux also an unknown or inactive job, or a missing key.
    pub const ENOENT: Errno = Errno(2);
    /// Input/output error.
    pub const EIO: Errno = Errno(5);
    /// Try again later.
    pub const EAGAIN: Errno = Errno(11);
    /// Invalid argument.
    pub const EINVAL: Errno = Errno(22);
    /// Function not implemented.
    pub const ENOSYS: Errno = Errno(38);
    /// Protocol error.
    pub const EPROTO: Errno = Errno(71);
}

impl std::error::Error for Errno {}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

/// The functions of Flux. The adapter always passes a job's id and never `FLUX_JOBTAP_CURRENT_JOB`.
pub trait Flux: 'static {
    /// The JSON values of this Flux.
    type Json: Lend;

    /// `flux_reactor_now`: the time at which the reactor's current iteration began, in UNIX seconds.
    fn now(&self) -> f64;

    /// `flux_attr_get`: an attribute of the broker.
    fn attribute(&self, name: &str) -> Option<String>;

    /// `flux_plugin_get_conf`: the configuration that was given to `flux jobtap load`.
    fn given(&self) -> Option<Value>;

    /// `flux_log`
    fn log(&self, level: Level, text: &str);

    /// `flux_plugin_add_handler`, for the adapter's one callback.
    ///
    /// # Errors
    /// The error of the function.
    fn add_handler(&self, topic: &str) -> Result<(), Errno>;

    /// `flux_jobtap_service_register_ex`: the service `job-manager.PLUGIN.METHOD`.
    ///
    /// # Errors
    /// The error of the function.
    fn service_register(&self, plugin: &str, method: &str, guests: bool) -> Result<(), Errno>;

    /// `flux_jobtap_job_lookup`: the arguments that a callback for this job would get.
    ///
    /// # Errors
    /// The error of the function.
    fn job_lookup(&self, job: JobId) -> Result<Self::Json, Errno>;

    /// `flux_jobtap_job_subscribe`
    ///
    /// # Errors
    /// The error of the function.
    fn job_subscribe(&self, job: JobId) -> Result<(), Errno>;

    /// `flux_jobtap_dependency_add`
    ///
    /// # Errors
    /// The error of the function.
    fn dependency_add(&self, job: JobId, description: &str) -> Result<(), Errno>;

    /// `flux_jobtap_dependency_remove`
    ///
    /// # Errors
    /// The error of the function.
    fn dependency_remove(&self, job: JobId, description: &str) -> Result<(), Errno>;

    /// `flux_jobtap_event_post_pack`
    ///
    /// # Errors
    /// The error of the function; EINVAL for a context that jansson can't represent.
    fn event_post(
        &self,
        job: JobId,
        name: &str,
        context: Option<&Map<String, Value>>,
    ) -> Result<(), Errno>;

    /// `flux_jobtap_prolog_finish`
    ///
    /// # Errors
    /// The error of the function.
    fn prolog_finish(&self, job: JobId, description: &str, status: i32) -> Result<(), Errno>;

    /// `flux_jobtap_epilog_finish`
    ///
    /// # Errors
    /// The error of the function.
    fn epilog_finish(&self, job: JobId, description: &str, status: i32) -> Result<(), Errno>;

    /// `flux_jobtap_raise_exception`
    ///
    /// # Errors
    /// The error of the function.
    fn raise_exception(
        &self,
        job: JobId,
        kind: &str,
        severity: u8,
        note: &str,
    ) -> Result<(), Errno>;

    /// `flux_jobtap_reprioritize_job`
    ///
    /// # Errors
    /// The error of the function.
    fn reprioritize_job(&self, job: JobId, priority: u32) -> Result<(), Errno>;

    /// `flux_jobtap_reprioritize_all`
    ///
    /// # Errors
    /// The error of the function.
    fn reprioritize_all(&self) -> Result<(), Errno>;

    /// `flux_jobtap_job_set_flag`
    ///
    /// # Errors
    /// The error of the function.
    fn job_set_flag(&self, job: JobId, flag: &str) -> Result<(), Errno>;

    /// `flux_rpc`: sends a request whose response is ignored, except that an error is logged as an error of `what`.
    fn rpc(&self, topic: &str, payload: &Value, what: String);

    /// `flux_rpc` or `flux_kvs_lookup`: sends a request of a plugin. Unless this returns an error, the adapter's
    /// `answered` is called with the response, but not after `cancel`.
    ///
    /// # Errors
    /// The error of the function.
    fn send(&self, key: RpcKey, request: &RpcRequest) -> Result<(), Errno>;

    /// Drops the response to a request of a plugin.
    fn cancel(&self, key: RpcKey);

    /// `flux_rpc` with `FLUX_RPC_NORESPONSE`.
    ///
    /// # Errors
    /// The error of the function.
    fn send_no_response(&self, topic: &str, payload: &Value) -> Result<(), Errno>;

    /// `flux_kvs_lookup`: reads a key and waits for the value. `None` if there is no such key.
    ///
    /// # Errors
    /// Why the key can't be read.
    fn kvs_lookup(&self, key: &str) -> Result<Option<String>, KvsError>;

    /// `flux_kvs_commit`: writes values. Unless this returns an error, the adapter's `committed` is called when
    /// the commit has succeeded or failed. Only one commit is in progress at a time.
    ///
    /// # Errors
    /// Why the commit can't be sent.
    fn kvs_commit(&self, values: &[(String, String)]) -> Result<(), KvsError>;

    /// `flux_kvs_commit`: writes values and waits until they are committed, after any commit that is in progress.
    ///
    /// # Errors
    /// Why a commit has failed.
    fn kvs_commit_and_wait(&self, values: &[(String, String)]) -> Result<(), KvsError>;

    /// `flux_timer_watcher_reset`: calls the adapter's `timer` after these seconds, or never if `None`.
    fn set_timer(&self, after: Option<f64>);

    /// `flux_respond`. `is_last` means that no other response to this request will follow.
    fn respond(&self, to: ReplyTo, payload: &Value, is_last: bool);

    /// `flux_respond_error`: sends the last response.
    fn respond_error(&self, to: ReplyTo, errno: i32, text: &str);

    /// Starts the workers, which run futures, processes and blocking work outside the callbacks.
    ///
    /// # Errors
    /// When the thread can't be created.
    fn workers(&self) -> io::Result<Box<dyn Workers>> {
        Ok(Box::new(Runtime::start()?))
    }
}
